"""Experts that move between ranks as their load asks for: enable_eplb.

Copies of experts beside the model's own (num_redundant_experts) are weights like
others. Tables of where each expert lies and how much it was asked for come with them,
and a buffer into which one layer's experts are received.

Source: vLLM 0.33.0 `distributed/eplb/eplb_state.py` EplbState.add_model,
`config/parallel.py` EPLBConfig; the same from 0.31.0 on.
"""

from __future__ import annotations

from planner.dtypes import element_bytes
from planner.engine import EngineSettings
from planner.errors import PlannerError, Refused, UnknownArchitecture
from planner.experts import FusedMoE
from planner.model import ModelArchitecture
from planner.parallel import ParallelLayout
from planner.tensors import ExpertsKernel

_SINCE = (0, 31)
_MOST_COPIES = 1023
_WINDOW = 1000
_LONG, _INT = 8, 4
_QUANTIZATIONS = (None, "fp8")
_KERNELS = (
    ExpertsKernel.TRITON,
    ExpertsKernel.DEEPGEMM,
    ExpertsKernel.FLASHINFER_CUTLASS,
)
"""Those that are chosen for experts that move as for others."""
_CLASSES = (
    *("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "Glm4MoeForCausalLM"),
    *("MixtralForCausalLM", "Qwen3MoeForCausalLM", "Qwen3NextForCausalLM"),
    "Qwen3_5MoeForConditionalGeneration",
)
"""Classes compared with vLLM's own."""
_WITHOUT_EFFECT = (
    *("step_interval", "log_balancedness", "log_balancedness_interval"),
    *("use_async", "policy", "communicator", "enable_migration_batching"),
)
_KNOWN = ("num_redundant_experts", "window_size", *_WITHOUT_EFFECT)


def redundant_experts(settings: EngineSettings) -> int:
    """Return the copies of experts in each layer.

    Raises:
        PlannerError: for what is no number.
    """
    return _whole("num_redundant_experts", settings, 0, least=0)


def window_size(settings: EngineSettings) -> int:
    """Return the steps of which the load of experts is remembered.

    Raises:
        PlannerError: for what is no number.
    """
    return _whole("window_size", settings, _WINDOW, least=1)


def _whole(name: str, settings: EngineSettings, default: int, least: int) -> int:
    value = (settings.eplb_config or {}).get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise PlannerError(
            f"eplb_config.{name}={value!r}: a whole number from {least} is needed."
        )
    return value


def check_eplb(
    settings: EngineSettings, model: ModelArchitecture, layout: ParallelLayout
) -> None:
    """Refuse what vLLM refuses of experts that move, and leave out what is not known.

    Raises:
        Refused: in vLLM's words.
        UnknownArchitecture: naming enable_eplb.

    Source: vLLM 0.33.0 `config/parallel.py` ParallelConfig._validate_parallel_config.
    """
    for name in settings.eplb_config or {}:
        if name not in _KNOWN:
            raise PlannerError(
                f"eplb_config has no {name!r}: {', '.join(_KNOWN)} are known."
            )
    if not layout.enable_eplb:
        if layout.num_redundant_experts:
            raise Refused(
                f"num_redundant_experts is set to {layout.num_redundant_experts} but "
                "EPLB is not enabled. Either enable EPLB or unset "
                "num_redundant_experts."
            )
        return
    if not layout.enable_expert_parallel:
        raise Refused("enable_expert_parallel must be True to use EPLB.")
    if layout.expert_ranks <= 1:
        raise Refused(
            "EPLB requires tensor, prefill-context, or data parallelism, but got "
            f"TP={layout.tensor_parallel_size}, PCP=1, DP={layout.data_parallel_size}."
        )
    _check_known(model, layout)


def _check_known(model: ModelArchitecture, layout: ParallelLayout) -> None:
    if layout.num_redundant_experts > _MOST_COPIES:
        raise Refused(
            f"AssertionError: num_redundant_experts {layout.num_redundant_experts} "
            f"must be less than or equal to {_MOST_COPIES}"
        )
    draft = None if model.speculation is None else model.speculation.draft
    kernels = {module.served(layout).kernel for module in _experts(model)}
    reasons = {
        f"in vLLM {layout.release.version}": not layout.release.since(*_SINCE),
        f"with {model.architecture}": model.architecture not in _CLASSES,
        f"with experts quantised by {model.quantization}": model.quantization
        not in _QUANTIZATIONS,
        "with pipeline_parallel_size above 1": layout.pipeline_parallel_size > 1,
        "with enable_lora": layout.enable_lora,
        "with a draft, whose experts move too,": draft is not None,
        **{
            f"with experts that {kernel} computes": kernel not in _KERNELS
            for kernel in kernels
        },
    }
    for reason, holds in reasons.items():
        if holds:
            raise _unknown(reason)


def _unknown(what: str) -> UnknownArchitecture:
    return UnknownArchitecture(
        f"enable_eplb {what} is not modelled yet. Leave enable_eplb out."
    )


def balancing_bytes(
    model: ModelArchitecture, layout: ParallelLayout, dtype: str, window: int
) -> dict[str, int]:
    """Return what moving experts keeps on a rank beside the weights, by name.

    The map from experts to their copies has room for 1,024 of each, whatever there
    are; the load of each copy is remembered for `window` steps.
    """
    if not layout.enable_eplb:
        return {}
    experts = _experts(model)
    if not experts:
        return {}
    layers, first = len(experts), experts[0]
    logical = first.num_experts
    physical = layout.physical_experts(logical)
    tables = layers * (
        _LONG * (physical + logical * (_MOST_COPIES + 1) + 2 * logical)
        + _INT * physical
    )
    loads = window * layers * physical * _INT
    return {
        "where experts lie": tables,
        f"their load over {window:,} steps": loads,
        "one layer's experts": _layer_bytes(first, layout, dtype),
    }


def _layer_bytes(experts: FusedMoE, layout: ParallelLayout, dtype: str) -> int:
    """Return the weights of a layer's experts on a rank, without where each lies."""
    (*held, _expert_map) = experts.tensors(layout)
    return sum(t.elements * element_bytes(t.dtype or dtype) for t in held)


def _experts(model: ModelArchitecture) -> list[FusedMoE]:
    """Return the routed experts of every layer that has any."""
    return [
        module
        for index in model.layers
        for module in model.layer_kinds[index].modules
        if isinstance(module, FusedMoE)
    ]
