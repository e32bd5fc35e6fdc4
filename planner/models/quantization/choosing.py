"""Which quantisation a model is loaded with: the checkpoint's own, or the user's.

`quantised` finds the method, reads its settings and gives each layer its share;
`requantised` applies the engine argument to a model that was read already.

Source: vLLM 0.33.0 `config/model.py` _verify_quantization,
`transformers_utils/model_arch_config_convertor.py` _normalize_quantization_config,
`model_executor/model_loader/weight_utils.py` get_quant_config.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from planner.engine.releases.change import Change, RefusedSince, recorded
from planner.errors import Refused
from planner.models.architecture import LayerKind, ModelArchitecture, QuantizationLimits
from planner.models.experts import FusedMoE
from planner.models.files import ModelFiles
from planner.models.layers import Module, Part, VocabParallelEmbedding
from planner.models.quantization.interface import (
    Context,
    Place,
    QuantizationConfig,
    Usual,
)

_KEYS = ("quantization_config", "compression_config")
_CLAIMS = (
    ("gptq", ("gptq", "gptq_marlin", "auto_gptq", "marlin"), "auto_gptq"),
    ("awq", ("awq", "awq_marlin", "auto_awq", "marlin"), "auto_awq"),
    ("auto-round", None, "inc"),
)
"""A checkpoint's method, names a user may give it (None: any), and vLLM's name."""
_DEEPSEEK_V4 = ("deepseek_v4", "deepseek_v4_text", "deepseek_v41", "deepseek_v41_text")
KNOWN = tuple(
    """
    awq auto_awq fp8 fbgemm_fp8 fp_quant modelopt modelopt_fp4 modelopt_mxfp8
    modelopt_mixed auto_gptq gptq gptq_marlin awq_marlin humming
    compressed-tensors experts_int8 quark moe_wna16 torchao inc mxfp4
    gpt_oss_mxfp4 deepseek_v4_fp8 online fp8_per_tensor fp8_per_block
    fp8_per_channel int8_per_channel_weight_only nvfp4_per_token mxfp8
    """.split()
)
"""In vLLM's order, which its refusal shows."""

_LIST = "vLLM 0.14.1 to 0.28.0 `layers/quantization/__init__.py` QuantizationMethods"
PLUGINS: Mapping[str, tuple[str, Change]] = {
    name: (
        package,
        recorded(f"Quantisation by {name} needs {package}.", since=since, source=_LIST),
    )
    for name, package, since in (
        ("bitsandbytes", "vllm-bnb-plugin", "0.28"),
        ("gguf", "vllm-gguf-plugin", "0.24"),
    )
}
"""Methods that vLLM held itself, the packages that hold them now, and since when.

Source: also the packages' entry points `vllm.general_plugins`.
"""

GONE: Mapping[str, Change] = {
    name: recorded(f"Quantisation by {name} is unknown.", since=since, source=_LIST)
    for since, names in (
        ("0.15", ("deepspeedfp", "hqq", "rtn")),
        ("0.16", ("bitblas", "gptq_bitblas", "gptq_marlin_24")),
    )
    for name in names
}
"""Methods of older releases for NVIDIA GPUs, and since when they are unknown."""

_REQUANTISES = recorded(
    "A method applied while loading is applied to quantised layers as well.",
    since="0.33",
    source="vLLM 0.33.0 `layers/quantization/base_config.py` resolve_quant_method",
)
_APPLIED_WHILE_LOADING = KNOWN[KNOWN.index("fp8_per_tensor") : KNOWN.index("mxfp8")]
_CANNOT_BE_UNPACKED = {
    **dict.fromkeys(
        ("modelopt", "modelopt_fp4", "modelopt_mixed"),
        "ModelOpt weight dequantization is only supported for MXFP8.",
    ),
    **dict.fromkeys(
        ("inc", "gpt_oss_mxfp4", "deepseek_v4_fp8"),
        "The quantization method does not implement dequantize_weight, so "
        "re-quantization from this checkpoint is not supported. Please open an issue.",
    ),
}
"""Methods of checkpoints that claim theirs whatever is asked for, and vLLM's words."""

_MODELOPT_ALGORITHMS = {
    "FP8": "modelopt",
    "FP8_PER_CHANNEL_PER_TOKEN": "modelopt",
    "FP8_PB_WO": "modelopt",
    "NVFP4": "modelopt_fp4",
    "MIXED_PRECISION": "modelopt_mixed",
}


def quantised(
    model: ModelArchitecture,
    files: ModelFiles | None = None,
    requested: str | None = None,
) -> ModelArchitecture:
    """Return the model as its checkpoint, or the user, quantises it.

    Args:
        model: as its reader returns it, without quantisation.
        files: what it was read from; None: the checkpoint is not quantised.
        requested: the engine argument `quantization`.

    Raises:
        UnknownArchitecture: for a method that is not modelled.
    """
    try:
        given = None if files is None else checkpoint_config(files)
        given = _as_loaded(given, model.architecture)
        name = _method_name(given, requested, model.model_type)
        if files is not None and files.gguf_tensors:
            given, name = {}, "gguf"
    except RefusedSince as refusal:
        limits = QuantizationLimits(refusal=str(refusal), refused_since=refusal.since)
        return replace(model, quantization=requested, quantization_limits=limits)
    except Refused as refusal:
        limits = QuantizationLimits(mismatch=str(refusal))
        return replace(model, quantization=requested, quantization_limits=limits)
    if name is None:
        return model
    context = Context(
        model_type=model.model_type,
        text_model_type=_text_model_type(model, files),
        prefix_renames=model.prefix_renames,
        files=files,
    )
    from planner.models.quantization.methods import method_named  # noqa: PLC0415 - most are as published

    method = method_named(
        name,
        is_in_checkpoint=given is not None,
    )
    limits = QuantizationLimits(
        supported_dtypes=method.supported_dtypes, min_capability=method.min_capability
    )
    try:
        config = method.read(given or {}, context)
        changed = _applied(model, config, files)
    except Refused as refusal:
        since = refusal.since if isinstance(refusal, RefusedSince) else None
        limits = replace(limits, refusal=str(refusal), refused_since=since)
        return replace(model, quantization=name, quantization_limits=limits)
    later = config.refused_later or _requantised_later(name, requested)
    if later is not None:
        limits = replace(
            limits, refusal=str(later), refused_since=later.since, was_taken=True
        )
    return replace(
        changed,
        quantization=name,
        quantization_limits=_with_kv(limits, config),
    )


def _requantised_later(name: str, requested: str | None) -> RefusedSince | None:
    """Return the refusal of a method asked for over that of the checkpoint."""
    words = _CANNOT_BE_UNPACKED.get(name)
    if words is None or requested not in _APPLIED_WHILE_LOADING:
        return None
    return RefusedSince(words, since=_REQUANTISES)


@lru_cache(maxsize=64)
def requantised(model: ModelArchitecture, requested: str) -> ModelArchitecture:
    """Return a model that was read already, with the engine argument applied to it.

    The same model returns the same object, so that plans of it are equal.

    Raises:
        UnknownArchitecture: for a method that is not modelled.
    """
    if model.quantization is None:
        return quantised(model, None, requested)
    if requested == model.quantization:
        return model
    limits = QuantizationLimits(mismatch=_mismatch(model.quantization, requested))
    return replace(model, quantization_limits=limits)


def checkpoint_config(files: ModelFiles) -> dict[str, Any] | None:
    """Return the checkpoint's settings with a normalised `quant_method`, or None.

    hf_quant_config.json counts only where config.json has no settings.

    Raises:
        Refused: for a ModelOpt algorithm that vLLM does not know.
    """
    text = files.config.get("text_config")
    outer = files.config.get(_KEYS[0]) or files.hf_quant_config
    inner = text.get(_KEYS[0]) if isinstance(text, Mapping) else None
    given = outer or files.config.get(_KEYS[1]) or inner
    if not isinstance(given, Mapping):
        return None
    settings = dict(given)
    details = settings.get("quantization")
    producer = settings.get("producer")
    is_modelopt = isinstance(producer, Mapping) and producer.get("name") == "modelopt"
    if isinstance(details, Mapping):
        is_modelopt = is_modelopt or "modelopt_quant_config" in details
        algorithm = str(details.get("quant_algo") or "").upper()
        if is_modelopt and algorithm:
            if algorithm not in _MODELOPT_ALGORITHMS:
                raise Refused(f"Unknown ModelOpt quant algo: {details['quant_algo']}")
            settings["quant_method"] = _MODELOPT_ALGORITHMS[algorithm]
    method = str(settings.get("quant_method") or "").lower()
    settings["quant_method"] = method.replace(
        "compressed_tensors", "compressed-tensors"
    )
    return settings


def _as_loaded(
    given: dict[str, Any] | None, architecture: str
) -> dict[str, Any] | None:
    """Return the settings as the model's class changes them before they are read.

    Source: vLLM 0.33.0 `models/config.py` KimiK3ForConditionalGenerationConfig.
    """
    if given is None or architecture != "KimiK3ForConditionalGeneration":
        return given
    is_mxfp4 = (
        given["quant_method"] == "compressed-tensors"
        and given.get("format") == "mxfp4-pack-quantized"
    )
    return {**given, "quant_method": "mxfp4"} if is_mxfp4 else given


def _method_name(
    given: Mapping[str, Any] | None, requested: str | None, model_type: str
) -> str | None:
    """Return vLLM's name of the method, None without one.

    Raises:
        Refused: for a method vLLM does not know or that is not the checkpoint's.
    """
    name = requested
    if given is not None:
        found = _override(given, requested, model_type)
        if found is not None:
            name = found
        else:
            own = given["quant_method"] or None
            if requested is not None and requested != own:
                raise Refused(_mismatch(own, requested))
            name = own
    if name is None:
        return None
    if name not in KNOWN and name not in PLUGINS:
        message = f"Unknown quantization method: {name}. Must be one of {list(KNOWN)}."
        if name in GONE:
            raise RefusedSince(message, since=GONE[name])
        raise Refused(message)
    return name


def _override(
    given: Mapping[str, Any], requested: str | None, model_type: str
) -> str | None:
    """Return the method that claims a checkpoint in place of the one it names.

    Source: vLLM 0.33.0 override_quantization_method of each config class, in the order
    of `config/model.py` _verify_quantization.
    """
    method = given["quant_method"]
    if requested == "humming":
        return "humming"
    if method.startswith("modelopt"):
        return _modelopt_override(given)
    if requested == "moe_wna16" and method in ("gptq", "awq"):
        return "moe_wna16"
    for claimed, accepted, name in _CLAIMS:
        if method == claimed and (accepted is None or requested in (None, *accepted)):
            return name
    return _model_override(method, requested, model_type)


def _modelopt_override(given: Mapping[str, Any]) -> str | None:
    details = given.get("quantization", given)
    if not isinstance(details, Mapping):
        return None
    algorithm = str(details.get("quant_algo", "")).upper()
    if algorithm == "FP8":
        return "modelopt"
    if "FP4" in algorithm:
        return "modelopt_fp4"
    if "MXFP8" in algorithm:
        return "modelopt_mxfp8"
    if algorithm == "MIXED_PRECISION":
        return "modelopt_mixed"
    return None


def _model_override(method: str, requested: str | None, model_type: str) -> str | None:
    """Return the method that vLLM reserves for some models."""
    if method in ("mxfp4", "gpt_oss_mxfp4") and model_type == "gpt_oss":
        return "gpt_oss_mxfp4"
    is_v4 = model_type in _DEEPSEEK_V4 or requested == "deepseek_v4_fp8"
    if method in ("fp8", "deepseek_v4_fp8") and is_v4:
        return "deepseek_v4_fp8"
    return None


def _mismatch(own: str | None, requested: str) -> str:
    return (
        f"Quantization method specified in the model config ({own}) does not match the "
        f"quantization method specified in the `quantization` argument ({requested})."
    )


def _text_model_type(model: ModelArchitecture, files: ModelFiles | None) -> str:
    text = None if files is None else files.config.get("text_config")
    if isinstance(text, Mapping) and text.get("model_type"):
        return str(text["model_type"])
    return model.model_type


def _applied(
    model: ModelArchitecture, config: QuantizationConfig, files: ModelFiles | None
) -> ModelArchitecture:
    """Apply a checkpoint's method; to an estimated one as such are usually made."""
    if files is None or not files.is_estimated:
        return apply(model, config)
    usual = Usual(name=config.name, config=config)
    return replace(apply(model, usual), towers=model.towers)


def _with_kv(
    limits: QuantizationLimits, config: QuantizationConfig
) -> QuantizationLimits:
    return replace(
        limits,
        kv_cache_dtype=config.kv_cache_dtype,
        has_kv_scales=config.has_kv_scales,
        forces_eager=config.forces_eager,
    )


def apply(model: ModelArchitecture, config: QuantizationConfig) -> ModelArchitecture:
    """Return the model with each layer held as `config` says.

    Layers that were alike may differ afterwards, as checkpoints name exceptions by
    layer; those that are still alike share their kind.
    """
    kinds: dict[LayerKind, int] = {}
    layers = []
    for index, kind_index in enumerate(model.layers):
        kind = model.layer_kinds[kind_index]
        prefix = f"{model.layer_prefix}.{index}."
        modules = _quantised(kind.modules, prefix, config)
        layers.append(kinds.setdefault(replace(kind, modules=modules), len(kinds)))
    return replace(
        model,
        layer_kinds=tuple(kinds),
        layers=tuple(layers),
        first_stage=_quantised(model.first_stage, "", config),
        last_stage=_quantised(model.last_stage, "", config),
        every_stage=_quantised(model.every_stage, "", config),
        tied_embeddings=_quantised(model.tied_embeddings, "", config),
        towers=tuple(
            replace(tower, modules=_quantised(tower.modules, "", config))
            for tower in model.towers
        ),
    )


def _quantised(
    modules: Iterable[Module], prefix: str, config: QuantizationConfig
) -> tuple[Module, ...]:
    return tuple(_with_method(module, prefix, config) for module in modules)


def _with_method(module: Module, prefix: str, config: QuantizationConfig) -> Module:
    if not getattr(module, "is_quantizable", True):
        return module
    if isinstance(module, FusedMoE):
        block = Place(prefix=prefix + module.name, projections=module.shards)
        return replace(module, method=config.experts(block))
    place = Place(prefix=prefix + module.name, shards=getattr(module, "shards", ()))
    if isinstance(module, VocabParallelEmbedding):
        answer = config.head if module.part is Part.LM_HEAD else config.embedding
        return replace(module, method=answer(place))
    if hasattr(module, "method"):
        linear: Any = module
        if config.name in getattr(module, "replicated_under", ()):
            linear = replace(linear, is_replicated=True)
        changed: Module = replace(linear, method=config.linear(place))
        return changed
    return module
