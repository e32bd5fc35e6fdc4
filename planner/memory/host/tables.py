"""CPU memory that every start uses: request tables, processes, sleep mode, swap space.

Of the sizes of processes, which are assumed, a worker's CUDA libraries and pinned
staging differ by machine; in the CPU build, where a start logs it, a worker takes
0.6 GiB. Sleep level 1 copies the weights to pinned memory and drops the KV cache; at
level 2 the weights are dropped as well and only buffers stay; awake, nothing is kept.
Older releases check swap space, but the engine does not use it and none is allocated.

Source: vLLM 0.33.0 `v1/worker/gpu/states.py` RequestState, `v1/worker/gpu/mm/rope.py`
RopeState and `v1/worker/gpu/buffer_utils.py` UvaBuffer (second model runner);
`v1/worker/gpu_input_batch.py` InputBatch (first model runner);
`v1/worker/gpu_worker.py` Worker.sleep, `device_allocator/cumem.py`
CuMemAllocator.sleep; 0.9.2 the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.errors import Refused
from planner.memory.account import Basis, HostLine, Per
from planner.models.architecture import ModelArchitecture
from planner.units import GIB, format_size, vllm_gib

_TOKEN_ID = 4
_FLAG = 1
_POSITION = 4
_FEWEST_CHANNELS = 3
_ROPE = ("rope_parameters", "rope_scaling")
_USUAL_SWAP_GIB = 4.0
_MOST_SWAP_PERCENT = 70
_CHECKS_SWAP_SPACE = Change(
    until=(0, 18),
    what="swap_space may take 70 % of the CPU memory at most.",
    source=(
        "vLLM 0.9.2 `config.py` and 0.10.0 to 0.17.1 `config/cache.py` "
        "verify_with_parallel_config"
    ),
)
_SHORT_FIGURES = Change(
    since=(0, 14),
    what=(
        "The refusal of swap_space writes sizes as short as they are, not always with "
        "two decimals."
    ),
)
_FLAGS_EMBEDDINGS = Change(
    since=(0, 11),
    what=(
        "The first model runner stores in CPU memory whether each entry of a request "
        "is a token or an embedding."
    ),
)


def pinned_bytes(size_bytes: int) -> int:
    """Return the CPU memory that PyTorch allocates to pin a tensor: a power of two.

    >>> pinned_bytes(234_881_024), pinned_bytes(1024)
    (268435456, 1024)

    Source: PyTorch `aten/src/ATen/core/CachingHostAllocator.h` allocate.
    """
    return 1 << (size_bytes - 1).bit_length() if size_bytes > 0 else 0


def token_ids(
    max_num_seqs: int, max_model_len: int, release: Release, *, uses_v2_runner: bool
) -> HostLine:
    """Return the table of the tokens of every request at its full length.

    The second model runner pins it, so that the GPU can read it in place.
    """
    entry = _TOKEN_ID
    if not uses_v2_runner and release.has(_FLAGS_EMBEDDINGS):
        entry += _FLAG
    table = max_num_seqs * max_model_len * entry
    size = pinned_bytes(table) if uses_v2_runner else table
    return HostLine(
        name="token ids",
        size_bytes=size,
        basis=Basis.EXACT if uses_v2_runner else Basis.FORMULA,
        why=f"{max_num_seqs:,} max_num_seqs x {max_model_len:,} max_model_len x "
        f"{entry} bytes = {format_size(table)}"
        + (_pinned(size) if uses_v2_runner else ", resident once written"),
        is_usual=True,
    )


def rope_positions(
    model: ModelArchitecture, max_num_seqs: int, max_model_len: int
) -> HostLine | None:
    """Return the table of positions of prompts with images, by request and channel.

    Only the second model runner has it, for models with several positions per token.
    """
    channels = rope_channels(model)
    if not channels:
        return None
    table = max_num_seqs * max_model_len * channels * _POSITION
    size = pinned_bytes(table)
    return HostLine(
        name="rope positions",
        size_bytes=size,
        basis=Basis.EXACT,
        why=f"{max_num_seqs:,} max_num_seqs x {max_model_len:,} max_model_len x "
        f"{channels} channels x {_POSITION} bytes = {format_size(table)}"
        + _pinned(size),
        is_usual=True,
    )


def rope_channels(model: ModelArchitecture) -> int:
    """Return how many positions a token has; 0 for models with one.

    Source: vLLM 0.33.0 `transformers_utils/config.py` uses_mrope, mrope_num_dims.
    """
    if model.files is None or not model.is_multimodal:
        return 0
    config = model.files.config
    parts = [config, *(part for part in config.values() if isinstance(part, Mapping))]
    sections = [_section(part) for part in parts]
    thinker = config.get("thinker_config")
    if isinstance(thinker, Mapping):
        sections += [_section(p) for p in thinker.values() if isinstance(p, Mapping)]
    found = [len(section) for section in sections if section]
    return max(_FEWEST_CHANNELS, *found) if found else 0


def _section(part: Mapping[str, Any]) -> list[Any]:
    for name in _ROPE:
        rope = part.get(name)
        section = rope.get("mrope_section") if isinstance(rope, Mapping) else None
        if isinstance(section, list):
            return section
    return []


def _pinned(size_bytes: int) -> str:
    return f"; pinned in a power of two, {format_size(size_bytes)}"


WORKER_PROCESS = HostLine(
    name="worker processes",
    size_bytes=3 * GIB,
    basis=Basis.ASSUMED,
    why="Python, PyTorch with CUDA's libraries, and vLLM",
    is_usual=True,
)
"""The process of one GPU."""
ENGINE_CORE = HostLine(
    name="engine processes",
    size_bytes=GIB,
    basis=Basis.ASSUMED,
    why="Python, PyTorch and vLLM's scheduler",
    per=Per.ENGINE,
    is_usual=True,
)
"""The process that schedules for the workers of an engine."""
API_SERVER = HostLine(
    name="API server",
    size_bytes=GIB,
    basis=Basis.ASSUMED,
    why="Python, the tokenizer and vLLM's server",
    per=Per.NODE,
    is_usual=True,
)
"""The API server, which really is on the first machine only."""


def gpu_budget(requested_bytes: int) -> HostLine:
    """Return the GPU's budget where GPU and processor share their memory.

    It is assumed, so that it causes no refusal: PyTorch allocates it piece by piece,
    and the page cache shrinks to make room.
    """
    return HostLine(
        name="GPU memory",
        size_bytes=requested_bytes,
        basis=Basis.ASSUMED,
        why="GPU and processor share this memory: what gpu_memory_utilization requests "
        "leaves only the rest for everything else here, and what is moved to CPU "
        "memory stays in it",
        is_usual=True,
    )


def asleep(weights_bytes: int) -> HostLine:
    """Return the copy of a worker's weights while it sleeps at level 1."""
    return HostLine(
        name="weights while asleep",
        size_bytes=weights_bytes,
        basis=Basis.FORMULA,
        why=f"sleep level 1 copies {format_size(weights_bytes)} of weights, and takes "
        "up to twice as much where PyTorch pins in powers of two; level 2 and an "
        "engine that is awake keep nothing",
    )


def check_swap_space(
    requested: object,
    tensor_parallel_size: int,
    capacity_bytes: int | None,
    release: Release,
) -> None:
    """Refuse swap space of more than 70 % of a machine's memory, where that is known.

    Raises:
        Refused: in vLLM's words.
    """
    if capacity_bytes is None or not release.has(_CHECKS_SWAP_SPACE):
        return
    gib = requested if isinstance(requested, int | float) else _USUAL_SWAP_GIB
    taken = ceil(gib * GIB) * tensor_parallel_size
    if 100 * taken > _MOST_SWAP_PERCENT * capacity_bytes:
        raise Refused(
            f"Too large swap space. {_figure(taken, release)} GiB out of the "
            f"{_figure(capacity_bytes, release)} GiB total CPU memory is allocated for "
            "the swap space."
        )


def _figure(size_bytes: int, release: Release) -> str:
    if release.has(_SHORT_FIGURES):
        return vllm_gib(size_bytes)
    return f"{size_bytes / GIB:.2f}"
