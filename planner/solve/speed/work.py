"""The bytes and operations of a rank of each pipeline stage, from the plan's layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from planner.engine.dtypes import element_bytes
from planner.engine.environment import environment_from
from planner.engine.layout import ParallelLayout
from planner.engine.releases import resolve_version
from planner.errors import PlannerError
from planner.models.architecture import ModelArchitecture
from planner.models.experts import FusedMoE
from planner.models.families.mla import KVUpProjection
from planner.models.layers import Module, Part, VocabParallelEmbedding
from planner.planning.defaults import layout_of
from planner.planning.resolve import Question, resolve
from planner.planning.result import Plan
from planner.solve.speed.reach import Attention, attention_of
from planner.values import frozen

_NOT_READ = (Part.EMBEDDINGS, Part.TOWERS, Part.LORA, Part.BUFFERS, Part.CLASSIFIER)
"""Parts of which a step reads only a few rows, or nothing."""
_COMPUTED_IN = {
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "int8": "int8",
    "uint8": "fp4",
}
"""The fastest dtype for matrix products with a weight of each storage dtype."""


@frozen(kw_only=False)
class Experts:
    """Identical routed experts in the layers of a stage, on one rank."""

    size_bytes: int
    num_experts: int
    top_k: int

    def touched_bytes(self, tokens: float) -> float:
        """Return the expected bytes of the distinct experts that `tokens` choose.

        Each token chooses top_k of num_experts. With uniform routing, an expert stays
        unused with probability (1 - top_k / num_experts) ^ tokens.

        >>> Experts(100, num_experts=4, top_k=1).touched_bytes(1)
        25.0
        """
        untouched: float = (1 - self.top_k / self.num_experts) ** tokens
        return self.size_bytes * (1 - untouched)


@frozen
class StageWork:
    """Reads and operations of one rank of a pipeline stage."""

    dense_bytes: int
    """Weights that every step reads."""
    experts: tuple[Experts, ...]
    flops: Mapping[str, float]
    """Operations of matrix products with weights, for each token, by dtype."""
    head_flops: Mapping[str, float]
    """Operations of the LM head, for each sampled token."""
    attention: tuple[Attention, ...]

    def weight_bytes(self, tokens: float) -> float:
        """Return the weight bytes that a step of `tokens` is expected to read."""
        return self.dense_bytes + sum(x.touched_bytes(tokens) for x in self.experts)


@frozen
class Work:
    """All stages, and the model's active parameters."""

    stages: tuple[StageWork, ...]
    active_parameters: int
    """Parameters that one token is multiplied with, over all ranks."""
    replicas: int
    """Data parallel copies of the engine."""
    bits_per_weight: float = 16.0
    """As stored, on average over what steps read."""

    def least(self) -> Work:
        """Return the same where all tokens of a step choose the same experts.

        Nothing forbids that: with fewer distinct experts than are expected, a step
        reads less.
        """
        return replace(self, stages=tuple(map(_of_one_token, self.stages)))


def _of_one_token(stage: StageWork) -> StageWork:
    return replace(stage, dense_bytes=int(stage.weight_bytes(1)), experts=())


def work_of(plan: Plan) -> Work:
    """Return the reads and operations of a plan's ranks.

    Raises:
        PlannerError: for a plan that vLLM refuses.
    """
    model, resolved = plan.model, plan.resolved
    is_refused = plan.error is not None and plan.error.kind == "refused"
    if model is None or resolved is None or is_refused:
        reason = "" if plan.error is None else f" vLLM says: {plan.error.message}"
        raise PlannerError(
            f"vLLM refuses this plan, so its speed has no bound.{reason}"
        )
    question = _question(plan, model)
    _, kernels = resolve(question)
    layout = replace(
        question.layout,
        dtype=resolved.dtype,
        max_num_batched_tokens=resolved.max_num_batched_tokens,
        enforce_eager=resolved.enforce_eager,
    )
    sizes = layout.stage_sizes(model.num_hidden_layers)
    begins = [sum(sizes[:number]) for number in range(len(sizes))]
    stages = tuple(
        _stage(
            _modules(model, range(begin, begin + size)),
            _head(model) if begin + size == model.num_hidden_layers else (),
            layout,
            attention_of(
                kernels,
                range(begin, begin + size),
                ranks=layout.tensor_parallel_size,
                context_ranks=layout.decode_context_parallel_size,
            ),
        )
        for begin, size in zip(begins, sizes, strict=True)
    )
    return Work(
        stages=stages,
        active_parameters=_active(model, layout),
        replicas=layout.data_parallel_size,
        bits_per_weight=_bits_per_weight(model, layout),
    )


def _question(plan: Plan, model: ModelArchitecture) -> Question:
    """Return the inputs from which the plan was made."""
    release, _ = resolve_version(plan.vllm_version)
    environment = environment_from(dict(plan.env), release)
    return Question(
        model=model,
        gpu=plan.gpu,
        settings=plan.settings,
        env=environment,
        layout=layout_of(plan.settings, environment, plan.gpu, release),
        entrypoint=plan.entrypoint,
        release=release,
        notes=(),
        given_env=plan.env,
        is_waived=True,
    )


def _modules(model: ModelArchitecture, layers: range) -> Counter[Module]:
    """Return the modules of a stage's layers with their counts."""
    counts: Counter[Module] = Counter()
    kinds = Counter(model.layers[layer] for layer in layers)
    for kind, alike in kinds.items():
        for module in model.layer_kinds[kind].modules:
            counts[module] += alike
    return counts


def _head(model: ModelArchitecture) -> tuple[Module, ...]:
    """Return the LM head and the last norms; tied embeddings serve as the head.

    Some of vLLM's model classes build them on every stage; only the last uses them.
    """
    built = (*model.last_stage, *model.every_stage)
    own = tuple(module for module in built if module.part not in _NOT_READ)
    if model.is_pooling or any(module.part is Part.LM_HEAD for module in own):
        return own
    words = (*model.tied_embeddings, *model.every_stage, *model.first_stage)
    tied = [m for m in words if isinstance(m, VocabParallelEmbedding)]
    return (*own, *tied[:1])


def _stage(
    modules: Counter[Module],
    head: tuple[Module, ...],
    layout: ParallelLayout,
    attention: tuple[Attention, ...],
) -> StageWork:
    dense = sum(_bytes(module, layout) for module in head)
    experts: Counter[tuple[int, int]] = Counter()
    for module, count in modules.items():
        if module.part in _NOT_READ:
            continue
        size = count * _bytes(module, layout)
        if isinstance(module, FusedMoE):
            experts[module.num_experts, module.top_k] += size
        else:
            dense += size
    return StageWork(
        dense_bytes=dense,
        experts=tuple(
            Experts(size, num_experts, top_k)
            for (num_experts, top_k), size in experts.items()
        ),
        flops=_flops(
            ((m, count) for m, count in modules.items() if m.part not in _NOT_READ),
            layout,
        ),
        head_flops=_flops(((module, 1) for module in head), layout),
        attention=attention,
    )


def _bytes(module: Module, layout: ParallelLayout) -> int:
    """Return the bytes of a module that a step reads.

    For kv_b_proj either the quantised weight or its copy is read, never both.
    """
    sizes = [
        tensor.elements * element_bytes(tensor.dtype or layout.dtype)
        for tensor in module.tensors(layout)
        if tensor.workspace is None
    ]
    if isinstance(module, KVUpProjection) and module.method is not None:
        return min(sum(sizes[:-1]), sizes[-1])
    return sum(sizes)


def _flops(
    modules: Iterable[tuple[Module, int]], layout: ParallelLayout
) -> dict[str, float]:
    """Return 2 x parameters of the matrix products on a rank, by dtype."""
    flops: dict[str, float] = {}
    for module, count in modules:
        active = _active_elements(module, layout)
        if active:
            dtype = _computed_in(module, layout)
            flops[dtype] = flops.get(dtype, 0.0) + 2 * count * active
    return flops


def _active_elements(module: Module, layout: ParallelLayout) -> float:
    """Return the elements on a rank that one token is multiplied with.

    Modules without a quantisation method (norms, small gates) are left out.
    """
    if isinstance(module, FusedMoE):
        matrices = 3 if module.is_gated else 2
        expert = matrices * module.hidden_size * module.intermediate_size
        return module.top_k * expert / layout.tensor_parallel_size
    return _plain_elements(module, layout) if hasattr(module, "method") else 0


def _plain_elements(module: Any, layout: ParallelLayout) -> int:  # noqa: ANN401 - any with a method
    """Return the elements of a weight on a rank before quantisation packs it."""
    weight, *_ = replace(module, method=None).tensors(layout)
    return int(weight.elements)


def _computed_in(module: Module, layout: ParallelLayout) -> str:
    """Return the fastest dtype for a module's matrix product."""
    if getattr(module, "method", None) is None:
        return getattr(module, "dtype", None) or layout.dtype
    weights = [tensor for tensor in module.tensors(layout) if not tensor.workspace]
    largest = max(weights, key=lambda tensor: tensor.elements)
    held = largest.dtype or layout.dtype
    return _COMPUTED_IN.get(held, layout.dtype)


def _bits_per_weight(model: ModelArchitecture, layout: ParallelLayout) -> float:
    """Return the bits in which a weight is stored, on average over matrices."""
    stored = elements = 0.0
    for module, count in _modules(model, range(model.num_hidden_layers)).items():
        if module.part in _NOT_READ or not hasattr(module, "method"):
            continue
        stored += count * _bytes(module, layout)
        elements += count * _elements(module, layout)
    return 8 * stored / elements if elements else 16.0


def _elements(module: Module, layout: ParallelLayout) -> float:
    if isinstance(module, FusedMoE):
        return _active_elements(module, layout) * module.num_experts / module.top_k
    return _plain_elements(module, layout)


def _active(model: ModelArchitecture, layout: ParallelLayout) -> int:
    """Return the parameters that a token is multiplied with, on all ranks together."""
    whole = replace(
        layout,
        tensor_parallel_size=1,
        pipeline_parallel_size=1,
        data_parallel_size=1,
        decode_context_parallel_size=1,
        pp_layer_partition=None,
    )
    layers = _modules(model, range(model.num_hidden_layers))
    kept = [(m, n) for m, n in layers.items() if m.part not in _NOT_READ]
    elements = sum(n * _active_elements(m, whole) for m, n in kept)
    return int(elements + sum(_active_elements(m, whole) for m in _head(model)))
