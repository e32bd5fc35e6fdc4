"""Experts that are moved between ranks to balance their load: enable_eplb.

Redundant copies of experts (num_redundant_experts) are weights like others. Beside them
are tables of the location and the load of each expert, and a buffer that receives one
layer's experts.

Source: vLLM 0.33.0 `distributed/eplb/eplb_state.py` EplbState.add_model,
`config/parallel.py` EPLBConfig; the same from 0.31.0 on.
"""

from __future__ import annotations

from planner.engine.dtypes import element_bytes
from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.engine.settings import EngineSettings
from planner.errors import PlannerError, Refused, UnknownArchitecture
from planner.models.architecture import ModelArchitecture
from planner.models.experts import FusedMoE
from planner.models.tensors import ExpertsKernel

_BALANCES = Change(
    since=(0, 31),
    what=(
        "Experts are balanced between ranks (enable_eplb) as from 0.31.0, the oldest "
        "release whose way is modelled."
    ),
)
_MOST_COPIES = 1023
_WINDOW = 1000
_LONG, _INT = 8, 4
_QUANTIZATIONS = (None, "fp8")
_KERNELS = (
    ExpertsKernel.TRITON,
    ExpertsKernel.DEEPGEMM,
    ExpertsKernel.FLASHINFER_CUTLASS,
    ExpertsKernel.FLASHINFER_BLOCKS,
)
"""Kernels that are chosen with EPLB as without."""
_CLASSES = (
    *("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "Glm4MoeForCausalLM"),
    *("MixtralForCausalLM", "Qwen3MoeForCausalLM", "Qwen3NextForCausalLM"),
    "Qwen3_5MoeForConditionalGeneration",
)
"""Architectures that were compared with vLLM's classes."""
_WITHOUT_EFFECT = (
    *("step_interval", "log_balancedness", "log_balancedness_interval"),
    *("use_async", "policy", "communicator", "enable_migration_batching"),
)
_KNOWN = ("num_redundant_experts", "window_size", *_WITHOUT_EFFECT)


def redundant_experts(settings: EngineSettings) -> int:
    """Return the redundant experts of each layer.

    Raises:
        PlannerError: for a value that is not a whole number.
    """
    return _whole("num_redundant_experts", settings, 0, least=0)


def window_size(settings: EngineSettings) -> int:
    """Return the steps over which the load of experts is recorded.

    Raises:
        PlannerError: for a value that is not a whole number.
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
    """Refuse settings of EPLB that vLLM refuses or that are not modelled.

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
        f"in vLLM {layout.release.version}": not layout.release.has(_BALANCES),
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
    """Return the buffers of EPLB on a rank beside the weights, by name.

    The map from experts to their copies always has room for 1,024 of each; the load of
    each copy is recorded for `window` steps.
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
    """Return the weights of a layer's experts on a rank, without the expert map."""
    (*held, _expert_map) = experts.tensors(layout)
    return sum(t.elements * element_bytes(t.dtype or dtype) for t in held)


def _experts(model: ModelArchitecture) -> list[FusedMoE]:
    """Return the routed experts of every layer that has them."""
    return [
        module
        for index in model.layers
        for module in model.layer_kinds[index].modules
        if isinstance(module, FusedMoE)
    ]
