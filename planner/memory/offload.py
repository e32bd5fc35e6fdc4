"""Parameters that cpu_offload_gb moves from a GPU to host memory.

vLLM builds the decoder layers one after the other and moves each parameter, whole and
in the order of the classes, until the bytes moved reach the budget. The last one goes
beyond it. Embeddings, the head, the final norm and buffers stay on the GPU.

Source: vLLM 0.9.2 `models/utils.py` make_layers and maybe_offload_to_cpu; from 0.17.0
`model_executor/offloader/uva.py` UVAOffloader.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from planner.dtypes import element_bytes
from planner.engine import EngineSettings
from planner.errors import UnknownArchitecture
from planner.layers import Module, Part
from planner.memory.runner import uses_v2_runner
from planner.memory.weights import StageWeights, allocated_bytes
from planner.model import ModelArchitecture
from planner.parallel import ParallelLayout
from planner.releases import Release
from planner.units import GIB

_KNOWN = frozenset(
    {
        "GemmaForCausalLM",
        "GraniteForCausalLM",
        "LlamaForCausalLM",
        "MistralForCausalLM",
        "Phi3ForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen3ForCausalLM",
    }
)
"""Classes that register their parameters in the order of the planner's modules."""


def offload_bytes(
    settings: EngineSettings,
    model: ModelArchitecture,
    release: Release,
    *,
    forces_v2_runner: bool | None = None,
) -> int:
    """Return the budget of a rank for parameters in host memory; 0: all stay.

    Raises:
        UnknownArchitecture: naming cpu_offload_gb, where it is not certain which
            parameters move, or what becomes of them after loading.
    """
    gib = settings.cpu_offload_gb
    if not gib:
        return 0
    reason = _unknown(model)
    if reason is not None:
        raise UnknownArchitecture(
            f"cpu_offload_gb={gib!r} {reason} is not modelled yet. "
            "Leave cpu_offload_gb out."
        )
    if is_ignored(model, release, forces_v2_runner=forces_v2_runner):
        return 0
    return int(gib * GIB)


def is_ignored(
    model: ModelArchitecture, release: Release, *, forces_v2_runner: bool | None = None
) -> bool:
    """Return whether cpu_offload_gb has no effect: the runner sets no offloader.

    Source: vLLM 0.27.1 and 0.28.0 `v1/worker/gpu/model_runner.py` load_model.
    """
    uses_v2 = uses_v2_runner(model, release, forced=forces_v2_runner)
    return uses_v2 and not release.since(0, 28)


def without_offloaded(
    stages: tuple[StageWeights, ...],
    model: ModelArchitecture,
    layout: ParallelLayout,
    dtype: str,
    budget_bytes: int,
) -> tuple[StageWeights, ...]:
    """Return what stays on the GPUs of each stage when each has this budget."""
    if not budget_bytes:
        return stages
    layout = replace(layout, dtype=dtype)
    kinds = [_parameters(kind.modules, layout, dtype) for kind in model.layer_kinds]
    left, begin = [], 0
    sizes = layout.stage_sizes(model.num_hidden_layers)
    for stage, size in zip(stages, sizes, strict=True):
        layers = model.layers[begin : begin + size]
        parameters = chain.from_iterable(kinds[index] for index in layers)
        left.append(_without(stage, _moved(parameters, budget_bytes)))
        begin += size
    return tuple(left)


def _parameters(
    modules: tuple[Module, ...], layout: ParallelLayout, dtype: str
) -> tuple[tuple[Part, int], ...]:
    """Return part and bytes of each parameter of a decoder layer."""
    return tuple(
        (module.part, tensor.elements * element_bytes(tensor.dtype or dtype))
        for module in modules
        if module.part is not Part.BUFFERS
        for tensor in module.tensors(layout)
        if tensor.workspace is None
    )


def _moved(
    parameters: Iterable[tuple[Part, int]], budget_bytes: int
) -> list[tuple[Part, int]]:
    """Return the parameters up to the one that reaches the budget."""
    moved, moved_bytes = [], 0
    for part, size_bytes in parameters:
        if moved_bytes >= budget_bytes:
            break
        moved.append((part, size_bytes))
        moved_bytes += size_bytes
    return moved


def _without(stage: StageWeights, moved: list[tuple[Part, int]]) -> StageWeights:
    moved_bytes = sum(size_bytes for _, size_bytes in moved)
    parts = (
        replace(
            part,
            size_bytes=part.size_bytes
            - sum(size for name, size in moved if str(name) == part.name),
        )
        for part in stage.parts
    )
    return replace(
        stage,
        weights_bytes=stage.weights_bytes - moved_bytes,
        allocated_bytes=stage.allocated_bytes
        - sum(allocated_bytes(size_bytes) for _, size_bytes in moved),
        parts=tuple(part for part in parts if part.size_bytes),
        offloaded_bytes=moved_bytes,
    )


def _unknown(model: ModelArchitecture) -> str | None:
    if model.is_multimodal:
        return "with the encoders of a multimodal model"
    if model.quantization is not None:
        return f"with weights quantised by {model.quantization}"
    if model.is_moe or model.is_pooling or model.architecture not in _KNOWN:
        return f"with {model.architecture}"
    if len(model.cache_layers) > 1:
        # vLLM stops on an assertion when caches have several sizes of blocks.
        return "with layers whose caches differ"
    return None
