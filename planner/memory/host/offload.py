"""Parameters that a start moves from a GPU to CPU memory.

There are two ways. cpu_offload_gb moves whole parameters, in the order in which vLLM's
classes register them, until the bytes moved reach the budget; the last one exceeds it.
Prefetching moves the last layers of each group, and keeps buffers on the GPU into which
they are copied ahead of their turn. Embeddings, the head, the final norm and buffers
stay on the GPU.

Source: vLLM 0.9.2 `models/utils.py` make_layers and maybe_offload_to_cpu; from 0.17.0
`model_executor/offloader/uva.py` UVAOffloader and `prefetch.py` PrefetchOffloader;
from 0.29.0 `models/interfaces.py` _mark_tower_model (towers before the layers).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from planner.engine.dtypes import element_bytes
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.errors import UnknownArchitecture
from planner.memory.account import Basis, HostLine
from planner.memory.allocator import allocated_bytes
from planner.memory.host.offloading import Offloading, order_of
from planner.memory.host.tables import pinned_bytes
from planner.memory.weights import StageWeights
from planner.models.architecture import ModelArchitecture, Tower
from planner.models.experts import FusedMoE
from planner.models.layers import Module, Part
from planner.units import format_size

_BUFFERS = (
    *("cos_sin_cache", "input_norm", "patch_positional_embedding", "position_ids"),
    "vision_model.rotary_emb",
)
"""Suffixes of the names of an encoder's buffers, which are not parameters."""
Towers = Sequence[tuple[Tower, ParallelLayout]]


class Parameter(NamedTuple):
    """One parameter of a layer on one rank."""

    name: str
    """Name of its module."""
    number: int
    """Index among the parameters of its module."""
    part: Part
    size_bytes: int


def without_offloaded(  # noqa: PLR0913 - what it depends on
    stages: tuple[StageWeights, ...],
    model: ModelArchitecture,
    layout: ParallelLayout,
    dtype: str,
    offloading: Offloading | None,
    towers: Towers = (),
) -> tuple[StageWeights, ...]:
    """Return the weights that stay on the GPUs of each stage.

    Raises:
        UnknownArchitecture: where the budget ends within an encoder.
    """
    if offloading is None:
        return stages
    if model.speculation is not None and model.speculation.draft is not None:
        raise UnknownArchitecture(
            "speculative_config with parameters in CPU memory (cpu_offload_gb, "
            "offload_group_size): which of the draft's go there is not modelled. "
            "Leave one of them out."
        )
    layout = replace(layout, dtype=dtype)
    order = order_of(model.architecture, layout.release)
    kinds: dict[int, tuple[Parameter, ...]] = {}
    # vLLM does not build layers of a kind that no layer of the model has.
    for index in dict.fromkeys(model.layers):
        modules = model.layer_kinds[index].modules
        modules = order.sorted(modules) if order else modules
        kinds[index] = tuple(_parameters(modules, layout, dtype))
    left, begin = [], 0
    for number, (stage, size) in enumerate(
        zip(stages, layout.stage_sizes(model.num_hidden_layers), strict=True)
    ):
        layers = [kinds[index] for index in model.layers[begin : begin + size]]
        if offloading.is_prefetching:
            left.append(_prefetched(stage, layers, offloading, layout.release))
        else:
            first = _of_towers(towers, dtype) if number == 0 else ()
            moved = _moved(first, layers, offloading)
            left.append(_without(stage, moved, offloading.why, layout.release))
        begin += size
    return tuple(left)


def _parameters(
    modules: Iterable[Module], layout: ParallelLayout, dtype: str
) -> Iterator[Parameter]:
    for module in modules:
        if module.part is Part.BUFFERS or module.name.endswith(_BUFFERS):
            continue
        kept = [t for t in module.tensors(layout) if t.workspace is None]
        if isinstance(module, FusedMoE):
            # The expert map is a buffer.
            kept = [t for t in kept if t.dtype != "int32"]
        for number, tensor in enumerate(kept):
            size = tensor.elements * element_bytes(tensor.dtype or dtype)
            yield Parameter(module.name, number, module.part, size)


def _of_towers(towers: Towers, dtype: str) -> tuple[Parameter, ...]:
    found = (
        _parameters(tower.modules, replace(layout, dtype=dtype), dtype)
        for tower, layout in towers
    )
    return tuple(chain.from_iterable(found))


def _moved(
    first: tuple[Parameter, ...],
    layers: Sequence[tuple[Parameter, ...]],
    offloading: Offloading,
) -> list[Parameter]:
    """Return the parameters up to the one that reaches the budget."""
    moved = [one for one in first if offloading.takes(one.name)]
    moved_bytes = sum(one.size_bytes for one in moved)
    if moved and moved_bytes > offloading.budget_bytes:
        raise UnknownArchitecture(
            f"cpu_offload_gb={offloading.cpu_offload_gb:g}: vLLM moves the "
            f"{format_size(moved_bytes)} of the encoders of images or sounds first, "
            "and which of their parameters come before others is not modelled. Give "
            "more, or leave cpu_offload_gb out."
        )
    for one in chain.from_iterable(layers):
        if moved_bytes >= offloading.budget_bytes:
            break
        if offloading.takes(one.name):
            moved.append(one)
            moved_bytes += one.size_bytes
    return moved


def _prefetched(
    stage: StageWeights,
    layers: Sequence[tuple[Parameter, ...]],
    offloading: Offloading,
    release: Release,
) -> StageWeights:
    """Move layers of each group; the GPU keeps buffers for those being copied."""
    chosen = [
        [one for one in layer if offloading.takes(one.name)]
        for number, layer in enumerate(layers)
        if offloading.is_prefetched(number)
    ]
    moved = list(chain.from_iterable(chosen))
    # Parameters of equal name and size share buffers across layers.
    buffers = {(one.name, one.number, one.size_bytes) for one in moved}
    slots = offloading.prefetch_step
    pool = sum(slots * size for _, _, size in buffers)
    layers_moved = sum(1 for layer in chosen if layer)
    why = (
        f"the last {offloading.num_in_group} of every {offloading.group_size} layers, "
        f"{layers_moved} in total"
    )
    return replace(_without(stage, moved, why, release), prefetch_bytes=pool)


def _without(
    stage: StageWeights, moved: list[Parameter], why: str, release: Release
) -> StageWeights:
    if not moved:
        return stage
    moved_bytes = sum(one.size_bytes for one in moved)
    parts = (
        replace(
            part,
            size_bytes=part.size_bytes
            - sum(one.size_bytes for one in moved if str(one.part) == part.name),
        )
        for part in stage.parts
    )
    return replace(
        stage,
        weights_bytes=stage.weights_bytes - moved_bytes,
        allocated_bytes=stage.allocated_bytes
        - sum(allocated_bytes(one.size_bytes, release) for one in moved),
        parts=tuple(part for part in parts if part.size_bytes),
        offloaded_bytes=moved_bytes,
        offloaded=_host_line(moved, why),
    )


def _host_line(moved: Sequence[Parameter], why: str) -> HostLine:
    """Return the CPU memory of the moved parameters, each pinned separately."""
    own = sum(one.size_bytes for one in moved)
    pinned = sum(pinned_bytes(one.size_bytes) for one in moved)
    return HostLine(
        name="offloaded weights",
        size_bytes=pinned,
        basis=Basis.FORMULA,
        why=f"{len(moved):,} parameters of {format_size(own)} ({why}), each pinned in "
        f"a power of two, {format_size(pinned)}",
    )
