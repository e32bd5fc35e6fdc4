"""vLLM's quantisation methods by name: their readers, dtypes and least GPU.

`METHODS` are those of checkpoints, `ONLINE` those that the engine argument
`quantization` applies while loading, whose classes are defined here.

Source: vLLM 0.33.0 `layers/quantization/__init__.py` get_quantization_config;
get_supported_act_dtypes and get_min_capability of each config class;
`config/quantization.py` _ONLINE_SHORTHANDS and `layers/quantization/online/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.errors import Refused, UnknownArchitecture
from planner.models.quantization.awq import read_awq
from planner.models.quantization.bitsandbytes import read_bitsandbytes
from planner.models.quantization.compressed_tensors import read_compressed_tensors
from planner.models.quantization.experts.fp8 import (
    Fp8BlockExperts,
    Fp8ChannelExperts,
    Fp8TensorExperts,
    Mxfp8Experts,
)
from planner.models.quantization.experts.int8 import Int8OnlineExperts
from planner.models.quantization.experts.nvfp4 import NvFp4OnlineExperts
from planner.models.quantization.fp8 import (
    Fp8ChannelLinear,
    Fp8OnlineBlockLinear,
    Fp8TensorLinear,
    read_fbgemm,
    read_fp8,
)
from planner.models.quantization.gguf import read_gguf
from planner.models.quantization.gptq import read_gptq
from planner.models.quantization.inc import read_inc
from planner.models.quantization.interface import (
    Context,
    Place,
    QuantizationConfig,
)
from planner.models.quantization.linear_kernels import Mxfp8Linear
from planner.models.quantization.modelopt import read_modelopt
from planner.models.quantization.mxfp4 import (
    read_deepseek_v4_fp8,
    read_fp_quant,
    read_gpt_oss_mxfp4,
    read_moe_wna16,
    read_mxfp4,
)
from planner.models.quantization.quark import read_quark
from planner.models.quantization.torchao import read_torchao
from planner.models.tensors import ExpertsMethod, LinearMethod
from planner.values import frozen

Reader = Callable[[Mapping[str, Any], Context], QuantizationConfig]
_WITHOUT_SETTINGS = {
    **{
        name: f"Cannot find the config file for {name}"
        for name in (
            *("awq", "auto_awq", "awq_marlin", "gptq", "auto_gptq", "gptq_marlin"),
            *("modelopt", "modelopt_fp4", "modelopt_mixed", "moe_wna16", "inc"),
        )
    },
    "compressed-tensors": (
        "CompressedTensorsConfig.__init__() missing 3 required positional arguments: "
        "'target_scheme_map', 'ignore', and 'quant_format'"
    ),
    "quark": (
        "QuarkConfig.__init__() missing 1 required positional argument: 'quant_config'"
    ),
    "torchao": (
        "TorchAOConfig.__init__() missing 1 required positional argument: "
        "'torchao_config'"
    ),
}
"""What vLLM says of a method of checkpoints for one that has no settings of it.

Source: vLLM 0.33.0 `model_loader/weight_utils.py` get_quant_config.
"""
_IN_A_CHECKPOINT = {
    "online": (
        "OnlineQuantizationConfig does not support loading from a checkpoint config. "
        "Use quantization_config or quantization='fp8_per_tensor'/'fp8_per_block' "
        "instead."
    ),
}
"""What vLLM says of a method for loading, where a checkpoint names it."""
_INSTEAD = {
    "humming": (
        "vLLM 0.33.0 fails with it (HummingWeightSchema.__init__() missing 1 required "
        "keyword-only argument: 'b_dtype'); it chooses Humming's kernels itself where "
        "they are fastest, which is modelled: leave quantization out"
    ),
    "online": (
        "its table quantization_config is not modelled: name one of the methods that "
        "vLLM applies while loading"
    ),
}
"""What to do in place of methods that are not modelled."""


@frozen(kw_only=False)
class Method:
    """A quantisation method of vLLM."""

    read: Reader
    """From `quantization_config` to the method with its settings; raises Refused in
    vLLM's words, or UnknownArchitecture naming the field."""
    supported_dtypes: tuple[str, ...]
    """In vLLM's order, which its refusal shows."""
    min_capability: int


_BF16_HALF = ("bfloat16", "float16")
_BF16 = ("bfloat16",)
_HALF_BF16 = ("float16", "bfloat16")
_ALL_FLOATS = ("float32", "float16", "bfloat16")

_ONLINE_NAMES = (
    "fp8",
    "fp8_per_tensor",
    "fp8_per_channel",
    "fp8_per_block",
    "mxfp8",
    "int8_per_channel_weight_only",
    "experts_int8",
    "nvfp4_per_token",
)

_NAMES_ONLINE_METHODS = Change(
    since=(0, 20),
    what=(
        "The argument quantization takes fp8_per_tensor and its kin, of which fp8 is "
        "the old name. Before, fp8 was the only name of 8 floating point bits."
    ),
    source=(
        "vLLM 0.20.0 `config/quantization.py`, which came with the engine argument "
        "`quantization_config`; 0.33.0 `layers/quantization/fp8.py` Fp8Config"
    ),
)


@frozen
class OnlineConfig(QuantizationConfig):
    """One method for all linear layers and one for all routed experts."""

    linear_method: LinearMethod | None = None
    experts_method: ExpertsMethod | None = None

    def linear(self, place: Place) -> LinearMethod | None:
        """Quantise every linear layer alike."""
        return self.linear_method

    def experts(self, place: Place) -> ExpertsMethod | None:
        """Quantise all routed experts alike."""
        return self.experts_method


def online_config(name: str, model_type: str) -> OnlineConfig:
    """Return the method that the engine argument `quantization` of this name applies.

    `model_type` is the language model's. "fp8" is the old name of fp8_per_tensor.

    Source: vLLM 0.33.0 `config/quantization.py` _ONLINE_SHORTHANDS;
    `model_loader/weight_utils.py` get_quant_config.
    """
    methods: dict[str, tuple[LinearMethod | None, ExpertsMethod]] = {
        "fp8_per_tensor": (
            Fp8TensorLinear(has_input_scale=False, loads_unquantised=True),
            Fp8TensorExperts(is_online=True),
        ),
        "fp8_per_channel": (Fp8ChannelLinear(), Fp8ChannelExperts(is_online=True)),
        "fp8_per_block": (
            Fp8OnlineBlockLinear(model_type=model_type),
            Fp8BlockExperts(model_type=model_type, is_online=True),
        ),
        "mxfp8": (Mxfp8Linear(), Mxfp8Experts(is_online=True)),
        "int8_per_channel_weight_only": (None, Int8OnlineExperts()),
        "experts_int8": (None, Int8OnlineExperts()),
        "nvfp4_per_token": (None, NvFp4OnlineExperts()),
    }
    linear, experts = methods["fp8_per_tensor" if name == "fp8" else name]
    return OnlineConfig(name=name, linear_method=linear, experts_method=experts)


def online_names(release: Release) -> Mapping[str, str]:
    """Return the methods that vLLM applies while loading, by their newest name.

    The values are the names that the release takes without a remark.

    >>> online_names(Release((0, 19, 1)))["fp8_per_tensor"]
    'fp8'
    """
    if not release.has(_NAMES_ONLINE_METHODS):
        return {"fp8_per_tensor": "fp8", "experts_int8": "experts_int8"}
    return {name: name for name in _ONLINE_NAMES if name != "fp8"}


def _read_online(
    name: str, _given: Mapping[str, Any], context: Context
) -> QuantizationConfig:
    """Return a method applied while loading, which reads no settings."""
    return online_config(name, context.text_model_type)


def _refused(words: str) -> Method:
    """Return a method that is refused whatever it is to read."""

    def refuse(_given: Mapping[str, Any], _context: Context) -> QuantizationConfig:
        raise Refused(words)

    return Method(refuse, (), 0)


def _read_mxfp8(given: Mapping[str, Any], context: Context) -> QuantizationConfig:
    """Read a checkpoint that calls ModelOpt's format mxfp8 (MiniMax).

    Source: vLLM 0.33.0 `layers/quantization/__init__.py` get_quantization_config.
    """
    return replace(read_modelopt("modelopt_mxfp8", given, context), name="mxfp8")


_BITSANDBYTES = Method(read_bitsandbytes, _ALL_FLOATS, 70)

_GGUF = Method(read_gguf, ("float16", "bfloat16", "float32"), 60)

METHODS: dict[str, Method] = {
    "fp8": Method(read_fp8, _BF16_HALF, 75),
    "fbgemm_fp8": Method(read_fbgemm, _BF16_HALF, 80),
    "fp_quant": Method(read_fp_quant, _BF16, 100),
    "auto_gptq": Method(read_gptq, _HALF_BF16, 60),
    "compressed-tensors": Method(read_compressed_tensors, _ALL_FLOATS, 70),
    "auto_awq": Method(read_awq, _HALF_BF16, 75),
    "bitsandbytes": _BITSANDBYTES,
    "gguf": _GGUF,
    "quark": Method(read_quark, _HALF_BF16, 70),
    "torchao": Method(read_torchao, _ALL_FLOATS, 75),
    "inc": Method(read_inc, _HALF_BF16, 60),
    **{
        name: Method(partial(read_modelopt, name), supported_dtypes, min_capability)
        for name, supported_dtypes, min_capability in (
            ("modelopt", _BF16_HALF, 80),
            ("modelopt_fp4", (*_BF16_HALF, "float8_e4m3fn"), 75),
            ("modelopt_mxfp8", _BF16, 80),
            ("modelopt_mixed", _BF16_HALF, 75),
        )
    },
    "mxfp8": Method(_read_mxfp8, _BF16, 80),
    "deepseek_v4_fp8": Method(read_deepseek_v4_fp8, _BF16_HALF, 75),
    "moe_wna16": Method(read_moe_wna16, _BF16_HALF, 70),
    "mxfp4": Method(read_mxfp4, _BF16, 80),
    "gpt_oss_mxfp4": Method(read_gpt_oss_mxfp4, _BF16, 80),
}
"""Methods of checkpoints."""

ONLINE: dict[str, Method] = {
    name: Method(
        partial(_read_online, name), _BF16_HALF, 80 if name == "experts_int8" else 75
    )
    for name in _ONLINE_NAMES
} | {
    "bitsandbytes": _BITSANDBYTES,
    "gguf": _GGUF,
    # vLLM fails with these while it looks for settings, or for weights.
    **{
        name: _refused(
            f"quantization={name!r} is for checkpoints that were quantised so, and "
            "this one is not: leave it out, or name a method that vLLM applies while "
            "loading."
        )
        for name in ("fbgemm_fp8", "fp_quant")
    },
}
"""Methods applied while loading a checkpoint that is not quantised."""

METHODS["experts_int8"] = ONLINE["experts_int8"]


def method_named(name: str, *, is_in_checkpoint: bool) -> Method:
    """Return the method of that name, for a quantised checkpoint or while loading.

    Raises:
        UnknownArchitecture: for one that is not modelled.
    """
    table = METHODS if is_in_checkpoint else ONLINE
    if name in table:
        return table[name]
    words = _refusal_of(name, is_in_checkpoint=is_in_checkpoint)
    if words is None:
        raise _not_modelled(name, table, is_in_checkpoint=is_in_checkpoint)
    return _refused(words)


def _refusal_of(name: str, *, is_in_checkpoint: bool) -> str | None:
    """Return vLLM's words where it refuses a method; None: it does not."""
    table = _IN_A_CHECKPOINT if is_in_checkpoint else _WITHOUT_SETTINGS
    return table.get(name)


def _not_modelled(
    name: str, modelled: Iterable[str], *, is_in_checkpoint: bool
) -> UnknownArchitecture:
    """Return the error of a method that is not modelled, which says what to do."""
    where = "quantization_config" if is_in_checkpoint else "quantization"
    instead = _INSTEAD.get(name, "plan a release of the model in another format")
    return UnknownArchitecture(
        f"{where}: the method {name!r} is not modelled; {instead}. "
        f"{', '.join(sorted(modelled))} are modelled."
    )
