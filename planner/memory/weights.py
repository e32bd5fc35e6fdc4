"""Bytes of parameters and buffers on each pipeline stage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from planner.engine.dtypes import element_bytes
from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.memory.account import HostLine, WeightPart
from planner.memory.allocator import LIMITS_SPLITS, Segments, allocated_bytes
from planner.memory.shared_blocks import (
    is_made_anew,
    shared_blocks_bytes,
    tails_bytes,
)
from planner.models.architecture import ModelArchitecture, Tower
from planner.models.layers import Module, Part
from planner.units import MIB, format_size
from planner.values import frozen

_ENCODERS_SHARE_SEGMENTS = Change(
    since=(0, 25),
    what="Smaller weights of encoders take the ends of segments that they share.",
    source=(
        "dry runs of 0.25.1 and 0.33.0 (Gemma 3, Qwen3-VL: 10.9 MiB), published starts "
        "with 0.27.1 and 0.28.0; those of Qwen3.6 with 0.22 and 0.23 have none"
    ),
)
_BUILDS_TOWERS_ONCE = Change(
    since=(0, 33),
    what="Only the first pipeline stage has the encoders of images and audio.",
    source=(
        "vLLM 0.33.0 `models/interfaces.py` _mark_tower_model; 0.32.0 the same, which "
        "builds them on every stage"
    ),
)


@frozen
class StageWeights:
    """The weights on one rank of a pipeline stage."""

    weights_bytes: int
    """Sum of the tensors' own bytes."""
    allocated_bytes: int
    """As PyTorch's allocator counts them, with the kernel workspaces that are allocated
    while the model is built: the figure that vLLM logs."""
    parts: tuple[WeightPart, ...]
    workspaces: tuple[WeightPart, ...] = ()
    """Kernel workspaces shared by all layers, in none of the parts."""
    offloaded_bytes: int = 0
    """Parameters in CPU memory, counted in none of the above."""
    offloaded: HostLine | None = None
    """The same, as a line of CPU memory."""
    prefetch_bytes: int = 0
    """GPU buffers into which they are prefetched, allocated after loading."""

    def with_buffer(self, name: str, size_bytes: int) -> StageWeights:
        """Return them with a buffer that is allocated while the model is loaded."""
        if not size_bytes:
            return self
        buffer = WeightPart(name=name, size_bytes=size_bytes)
        return replace(
            self,
            allocated_bytes=self.allocated_bytes + size_bytes,
            workspaces=(*self.workspaces, buffer),
        )


@dataclass(slots=True)
class _Tally:
    """Bytes by part while they are added up; mutable, and never leaves this module."""

    bytes_by_part: dict[Part, int] = field(default_factory=dict)
    allocated_bytes: int = 0
    workspaces: dict[str, int] = field(default_factory=dict)

    def add(self, other: _Tally, times: int = 1) -> None:
        for part, size_bytes in other.bytes_by_part.items():
            self.bytes_by_part[part] = (
                self.bytes_by_part.get(part, 0) + times * size_bytes
            )
        self.allocated_bytes += times * other.allocated_bytes
        if times:
            self.workspaces.update(other.workspaces)


@lru_cache(maxsize=256)
def stage_weights(
    model: ModelArchitecture,
    layout: ParallelLayout,
    dtype: str,
    kernel_buffers: tuple[tuple[Module, ...], ...] = (),
    towers: tuple[tuple[Tower, ParallelLayout], ...] = (),
) -> tuple[StageWeights, ...]:
    """Return the weights of each pipeline stage's fullest rank, cached.

    Args:
        model: the architecture.
        layout: the ranks over which it is sharded.
        dtype: of the parameters.
        kernel_buffers: allocated by attention kernels, for each stage.
        towers: encoders with the ranks over which each is sharded, on the first stage
            or, in older releases, on every stage.

    Raises:
        Refused: in vLLM's words, when the ranks do not divide a layer.
    """
    layout = replace(layout, dtype=dtype)
    # vLLM does not build layers of a kind that no layer of the model has.
    kinds = [
        _tally(kind.modules if index in model.layers else (), layout, dtype)
        for index, kind in enumerate(model.layer_kinds)
    ]
    online = [any(map(is_made_anew, kind.modules)) for kind in model.layer_kinds]
    first = _tally(model.first_stage, layout, dtype)
    encoders = _encoders(towers, dtype)
    last = _tally(model.last_stage, layout, dtype)
    every = _tally(model.every_stage, layout, dtype)
    tied = _tally(model.tied_embeddings, layout, dtype)
    draft = _draft(model, layout, dtype)
    sizes = layout.stage_sizes(model.num_hidden_layers)
    stages, begin = [], 0
    for stage, size in enumerate(sizes):
        total = _Tally()
        layers = model.layers[begin : begin + size]
        for index, kind in enumerate(kinds):
            total.add(kind, layers.count(index))
        total.add(_tally(_shared(model, layers), layout, dtype))
        total.add(every)
        if kernel_buffers:
            total.add(_tally(kernel_buffers[stage], layout, dtype))
        is_first, is_last = stage == 0, stage == len(sizes) - 1
        if is_first:
            total.add(first)
        if is_first or not layout.release.has(_BUILDS_TOWERS_ONCE):
            total.add(encoders)
        if is_last:
            total.add(last)
            total.add(draft)
        if is_last and not is_first:
            total.add(tied)
        total.allocated_bytes += _reuse_bytes(
            (m for at in layers if online[at] for m in model.layer_kinds[at].modules),
            layout,
            dtype,
        )
        total.allocated_bytes += shared_blocks_bytes(
            _in_order(model, layers, is_first=is_first, is_last=is_last),
            model.every_stage,
            layout,
        )
        stages.append(_finish(total))
        begin += size
    return tuple(stages)


def _in_order(
    model: ModelArchitecture, layers: tuple[int, ...], *, is_first: bool, is_last: bool
) -> tuple[Module, ...]:
    """Return the modules of a stage in the order in which they are built."""
    return (
        *(model.first_stage if is_first else ()),
        *(module for index in layers for module in model.layer_kinds[index].modules),
        *(model.last_stage if is_last else ()),
    )


@lru_cache(maxsize=64)
def follows_length(model: ModelArchitecture) -> bool:
    """Return whether a table of the model, or of its draft, ends with max_model_len."""
    draft = None if model.speculation is None else model.speculation.draft
    return any(
        getattr(module, "ends_with_length", False)
        for one in (model, draft)
        if one is not None
        for module in (*one.first_stage, *one.last_stage, *one.every_stage)
    )


def _draft(model: ModelArchitecture, layout: ParallelLayout, dtype: str) -> _Tally:
    """Return the weights of the draft model on a rank, as one part."""
    draft = None if model.speculation is None else model.speculation.draft
    if draft is None:
        return _Tally()
    modules = (
        *draft.first_stage,
        *(m for kind in draft.layers for m in draft.layer_kinds[kind].modules),
        *_shared(draft, draft.layers),
        *draft.last_stage,
        *draft.every_stage,
    )
    found = _tally(modules, layout, dtype)
    found.bytes_by_part = {Part.DRAFT: sum(found.bytes_by_part.values())}
    return found


def _encoders(towers: tuple[tuple[Tower, ParallelLayout], ...], dtype: str) -> _Tally:
    total = _Tally()
    for tower, layout in towers:
        # No encoder's tensors depend on the length, which changes more often.
        total.add(_encoder(tower, replace(layout, dtype=dtype, max_model_len=0)))
    return total


@lru_cache(maxsize=64)
def _encoder(tower: Tower, layout: ParallelLayout) -> _Tally:
    tally = _tally(tower.modules, layout, layout.dtype)
    if layout.release.has(_ENCODERS_SHARE_SEGMENTS):
        tally.allocated_bytes += tails_bytes(tower.modules, layout, layout.dtype)
    return tally


def _shared(model: ModelArchitecture, layers: tuple[int, ...]) -> tuple[Module, ...]:
    """Return the modules that the layers of a stage share, each once."""
    kinds = (model.layer_kinds[index] for index in dict.fromkeys(layers))
    return tuple(dict.fromkeys(module for kind in kinds for module in kind.shared))


def _tally(modules: Iterable[Module], layout: ParallelLayout, dtype: str) -> _Tally:
    tally = _Tally()
    for module in modules:
        for tensor in module.tensors(layout):
            tensor_bytes = tensor.elements * element_bytes(tensor.dtype or dtype)
            if tensor.workspace is not None:
                tally.workspaces[tensor.workspace] = tensor_bytes
                continue
            tally.bytes_by_part[module.part] = (
                tally.bytes_by_part.get(module.part, 0) + tensor_bytes
            )
            tally.allocated_bytes += allocated_bytes(tensor_bytes, layout.release)
    return tally


def _reuse_bytes(modules: Iterable[Module], layout: ParallelLayout, dtype: str) -> int:
    """Return what weights quantised while loading take beyond their own segments.

    They take blocks that unquantised weights of earlier layers left, which may be
    larger. The layers' weights are taken in the order in which they are built.

    Source: vLLM 0.33.0 `model_loader/reload/layerwise.py` _layerwise_process;
    `layers/quantization/online/fp8.py` process_weights_after_loading.
    """
    if not layout.release.has(LIMITS_SPLITS):
        return 0  # larger blocks are split
    segments, beyond = Segments(), 0
    for module in modules:
        if not is_made_anew(module):
            continue
        linear: Any = module
        loaded = [
            segments.allocate(size)
            for size in _large(replace(linear, method=None), layout, dtype)
        ]
        for size in _large(module, layout, dtype):
            taken = segments.allocate(size).size_bytes
            beyond += taken - allocated_bytes(size, layout.release)
        for block in loaded:
            segments.release(block)
    return beyond


def _large(module: Module, layout: ParallelLayout, dtype: str) -> list[int]:
    """Return the sizes of a module's tensors over 1 MiB."""
    sizes = (
        t.elements * element_bytes(t.dtype or dtype) for t in module.tensors(layout)
    )
    return [size for size in sizes if size > MIB]


def _finish(total: _Tally) -> StageWeights:
    parts = tuple(
        WeightPart(name=str(part), size_bytes=total.bytes_by_part[part])
        for part in Part
        if total.bytes_by_part.get(part)
    )
    return StageWeights(
        weights_bytes=sum(part.size_bytes for part in parts),
        allocated_bytes=total.allocated_bytes + sum(total.workspaces.values()),
        parts=parts,
        workspaces=tuple(
            WeightPart(name=name, size_bytes=total.workspaces[name])
            for name in sorted(total.workspaces)
        ),
    )


def explain(stage: StageWeights, dtype: str, quantization: str | None = None) -> str:
    """Return the arithmetic of the weights line."""
    held = f"in {dtype}"
    if quantization is not None:
        held = f"quantised by {quantization}, what it leaves alone {held}"
    parts = " + ".join(
        f"{part.name} {format_size(part.size_bytes)}" for part in stage.parts
    )
    if stage.offloaded_bytes:
        held += f", with {format_size(stage.offloaded_bytes)} more in host memory"
    beside = "".join(
        f" and {kept.name} {format_size(kept.size_bytes)}" for kept in stage.workspaces
    )
    allocated = format_size(stage.allocated_bytes)
    held_bytes = format_size(stage.weights_bytes)
    rounded = ""
    if beside:
        rounded = f"; with the allocator's rounding{beside} it is {allocated}"
    elif allocated != held_bytes:
        rounded = f"; the allocator rounds it up to {allocated}"
    return f"{parts} = {held_bytes} {held}{rounded}"
