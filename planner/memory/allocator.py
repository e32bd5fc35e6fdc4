"""PyTorch's caching allocator: what a tensor takes, and which blocks are used again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.units import MIB

ALLOCATION_UNIT = 512
_LARGE_BYTES = 10 * MIB
_SEGMENT_BYTES = 2 * MIB
UNSPLIT_BYTES = 20 * MIB
LIMITS_SPLITS = Change(
    since=(0, 21),
    what="While it loads, vLLM lets no block of 20 MiB or more be split.",
    source="vLLM 0.21.0 `v1/worker/gpu_worker.py` _scoped_allocator_max_split",
)
SPLITS_ANY_BLOCK = Change(
    until=(0, 31),
    what=(
        "In the profile run a small tensor may take part of a large freed block. A "
        "block of which a part stays in use is not given back, and counts as consumed."
    ),
    source=(
        "vLLM 0.31.0 `v1/worker/gpu_worker.py` determine_available_memory "
        "(_scoped_allocator_max_split)"
    ),
)
Step = tuple[str, int]
"""A name and the bytes of its tensor; none: the name is given up."""


def allocated_bytes(tensor_bytes: int, release: Release) -> int:
    """Return the bytes that PyTorch's caching allocator counts for a tensor.

    Sizes are rounded up to 512 bytes. A tensor of 10 MiB or more gets its own segment,
    rounded up to 2 MiB, whose tail counts as allocated when it is 1 MiB or less, or
    when the release does not let it be split off.

    Source: PyTorch `c10/cuda/CUDACachingAllocator.cpp` round_size,
    get_allocation_size and should_split.
    """
    rounded = -(-tensor_bytes // ALLOCATION_UNIT) * ALLOCATION_UNIT
    if rounded < _LARGE_BYTES:
        return rounded
    segment = -(-rounded // _SEGMENT_BYTES) * _SEGMENT_BYTES
    is_unsplit = rounded >= UNSPLIT_BYTES and release.has(LIMITS_SPLITS)
    return segment if is_unsplit or segment - rounded <= MIB else rounded


def segment_bytes(size_bytes: int) -> int:
    """Return the segment that is made for a tensor over 1 MiB.

    Source: PyTorch `c10/cuda/CUDACachingAllocator.cpp` get_allocation_size.
    """
    if size_bytes < _LARGE_BYTES:
        return UNSPLIT_BYTES
    return -(-size_bytes // _SEGMENT_BYTES) * _SEGMENT_BYTES


def beyond_tensor(tensor_bytes: int, release: Release, left_bytes: int = 0) -> int:
    """Return what the block of a tensor has beyond it in the profile run.

    Args:
        tensor_bytes: of the tensor.
        release: that of vLLM.
        left_bytes: of an earlier tensor, whose block it takes if that fits.

    Source: vLLM 0.31.0 `v1/worker/gpu_worker.py` _scoped_allocator_max_split.
    """
    is_split = release.has(SPLITS_ANY_BLOCK) or tensor_bytes < UNSPLIT_BYTES
    if is_split:
        return 0
    left = segment_bytes(left_bytes)
    fits = tensor_bytes <= left < tensor_bytes + UNSPLIT_BYTES
    return (left if fits else segment_bytes(tensor_bytes)) - tensor_bytes


@dataclass(slots=True)
class Block:
    """A block of a segment of the caching allocator, which is split and joined."""

    size_bytes: int
    is_used: bool = False


@dataclass(slots=True)
class Segments:
    """The caching allocator's segments of tensors over 1 MiB, with limited splits.

    Source: PyTorch `c10/cuda/CUDACachingAllocator.cpp` get_free_block,
    get_allocation_size, should_split and try_merge_blocks.
    """

    segments: list[list[Block]] = field(default_factory=list)

    used_bytes: int = 0
    """Of all blocks in use."""

    def allocate(self, tensor_bytes: int) -> Block:
        """Take the smallest free block that is not much larger, or a new segment."""
        size = -(-tensor_bytes // ALLOCATION_UNIT) * ALLOCATION_UNIT
        free = (b for segment in self.segments for b in segment if not b.is_used)
        block = min(
            (b for b in free if b.size_bytes >= size),
            key=lambda b: b.size_bytes,
            default=None,
        )
        if block is None or _is_oversized(block, size):
            block = Block(segment_bytes(size))
            self.segments.append([block])
        block.is_used = True
        rest = block.size_bytes - size
        if rest > MIB and size < UNSPLIT_BYTES:
            block.size_bytes = size
            segment, index = self._place(block)
            segment.insert(index + 1, Block(rest))
        self.used_bytes += block.size_bytes
        return block

    def _place(self, block: Block) -> tuple[list[Block], int]:
        return next(
            (segment, index)
            for segment in self.segments
            for index, other in enumerate(segment)
            if other is block
        )

    def release(self, block: Block) -> None:
        """Free a block, and join it with free ones beside it."""
        block.is_used = False
        self.used_bytes -= block.size_bytes
        segment, index = self._place(block)
        for neighbour in segment[index + 1 : index + 2] + segment[:index][-1:]:
            if not neighbour.is_used:
                block.size_bytes += neighbour.size_bytes
                segment[:] = [b for b in segment if b is not neighbour]


def beyond_tensors(steps: Iterable[Step]) -> int:
    """Return the peak of a sequence in blocks less that in tensors."""
    segments = Segments()
    held: dict[str, tuple[Block, int]] = {}
    in_blocks = in_tensors = tensors = 0
    for name, size in steps:
        if name in held:
            block, freed = held.pop(name)
            segments.release(block)
            tensors -= freed
        if size:
            held[name] = segments.allocate(size), size
            tensors += size
        in_blocks = max(in_blocks, segments.used_bytes)
        in_tensors = max(in_tensors, tensors)
    return in_blocks - in_tensors


def _is_oversized(block: Block, size: int) -> bool:
    """Return whether the allocator leaves a block alone, being much larger."""
    least = size + UNSPLIT_BYTES if size >= UNSPLIT_BYTES else UNSPLIT_BYTES
    return block.size_bytes >= least
