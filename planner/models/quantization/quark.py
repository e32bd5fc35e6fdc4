"""Checkpoints of AMD's Quark: `quant_method: quark`.

A setting for all layers, or for those that a pattern names: FP8, INT8, INT4, MXFP4,
MXFP8 and NVFP4.

Source: vLLM 0.33.0 `layers/quantization/quark/quark.py`, `quark_moe.py` and `schemes/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from typing import Any

from planner.engine.layout import ParallelLayout
from planner.errors import Refused, UnknownArchitecture
from planner.models.quantization import fp8_kernels
from planner.models.quantization.compressed_schemes import Int8Linear, check_capability
from planner.models.quantization.experts.fp8 import (
    Fp8ChannelExperts,
    Fp8TensorExperts,
    Mxfp8Experts,
)
from planner.models.quantization.experts.int8 import Int8ChannelExperts
from planner.models.quantization.experts.mxfp4 import Mxfp4Experts
from planner.models.quantization.fp8 import Fp8BlockLinear
from planner.models.quantization.interface import BaseConfig, Context, Place, listed
from planner.models.quantization.linear_kernels import (
    Mxfp4Linear,
    Mxfp8Linear,
    NvFp4Linear,
)
from planner.models.quantization.matching import should_ignore
from planner.models.quantization.packed_ints import repacked
from planner.models.quantization.padding import SM89, Packing
from planner.models.tensors import ExpertsMethod, LinearMethod, LinearOnRank, Tensor

_FP8, _FP4, _INT8 = "fp8_e4m3", "fp4", "int8"
_MX_GROUP, _NV_GROUP = 32, 16
_BLOCK = [128, 128]
_TENSOR, _CHANNEL, _GROUPS = "per_tensor", "per_channel", "per_group"
_INT4 = ("int4", "uint4")
_PACKED = ("order", "reorder")
_KNOWS_INT4_SINCE = (0, 31)
"""Packed INT4 weights are served; source: vLLM 0.30.0 and 0.31.0 `quark/schemes/`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarkFp8Linear:
    """FP8 weights with a scale per tensor or row, on GPUs with FP8 arithmetic only.

    Source: vLLM 0.33.0 `quark/schemes/quark_w8a8_fp8.py`.
    """

    is_channel: bool
    is_static: bool
    """Whether activations have published scales."""

    def tensors(
        self, on_rank: LinearOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weight and scales on a rank.

        Raises:
            Refused: in vLLM's words, on older GPUs.
        """
        check_capability(layout, SM89)
        rows = on_rank.output_size_per_partition
        return fp8_kernels.scaled_tensors(
            on_rank,
            layout,
            num_scales=rows if self.is_channel else 1,
            is_act_per_tensor=self.is_static,
            has_input_scale=self.is_static,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarkMxLinear:
    """MXFP4 or MXFP8, whose groups no rank cuts through.

    Source: vLLM 0.33.0 `quark/schemes/quark_ocp_mx.py`.
    """

    method: LinearMethod

    def tensors(
        self, on_rank: LinearOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weight and scales on a rank.

        Raises:
            Refused: in vLLM's words, where ranks cut through a group.
        """
        columns = on_rank.input_size_per_partition
        if columns % _MX_GROUP:
            raise Refused(
                f"OCP MX linear layer {on_rank.name!r} has an input size per partition "
                f"of {columns}, which must be divisible by the OCP MX group size "
                f"{_MX_GROUP}. Choose a compatible tensor-parallel size or avoid "
                "tensor-parallel sharding for this layer."
            )
        return self.method.tensors(on_rank, layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarkInt4Linear:
    """INT4 weights with 16 bit activations; zero points stay, needed or not.

    Source: vLLM 0.33.0 `quark/schemes/quark_w4a16_int4.py`.
    """

    packing: Packing

    def tensors(
        self, on_rank: LinearOnRank, layout: ParallelLayout
    ) -> tuple[Tensor, ...]:
        """Return weight, scales and zero points on a rank.

        Raises:
            Refused: in vLLM's words, where ranks cut through a group.
            UnknownArchitecture: in releases before it.
        """
        if layout.release < _KNOWS_INT4_SINCE:
            raise UnknownArchitecture(
                "quantization_config: Quark's INT4 weights are not modelled for vLLM "
                f"{layout.release.version}: 0.31 and newer are."
            )
        columns, size = on_rank.input_size_per_partition, self.packing.group_size
        if columns % size:
            raise Refused(
                "The input size is not aligned with the quantized weight shape. This "
                "can be caused by too large tensor parallel size. "
                f"input_size_per_partition={columns}, group_size={size}."
            )
        made = repacked(self.packing, on_rank, layout)
        if self.packing.has_zero_points:
            return made
        return (*made, self.packing.zero_points(on_rank))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarkConfig(BaseConfig):
    """Quark as read from a checkpoint."""

    whole: Mapping[str, Any]
    """The setting of all layers that no pattern names."""
    patterns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()
    pack_method: str = "reorder"
    model_type: str = ""
    name: str = "quark"
    has_kv_scales: bool = True

    def linear(self, place: Place) -> LinearMethod | None:
        """Quantise every linear layer that the list does not leave out."""
        if should_ignore(place, self.excluded):
            return None
        return self._scheme(self._setting(place))

    def experts(self, place: Place) -> ExpertsMethod | None:
        """Quantise routed experts, unless any of them is left out."""
        own = Place(prefix=place.prefix)
        below = f"{place.prefix}."
        if should_ignore(own, self.excluded) or any(
            name.startswith(below) for name in self.excluded
        ):
            return None
        return _experts(self._setting(own))

    def _setting(self, place: Place) -> Mapping[str, Any]:
        """Return the setting of a layer.

        Raises:
            Refused: in vLLM's words, where packed layers differ.

        Source: vLLM 0.33.0 QuarkConfig._find_matched_config.
        """
        found = [self._named(prefix) for prefix in place.shard_prefixes]
        if any(setting != found[0] for setting in found):
            shards = list(place.shards)
            raise Refused(
                f"Found a different quantization configuration for {shards} in "
                f"{place.prefix}. vLLM requires all to use the same scheme."
            )
        return found[0]

    def _named(self, prefix: str) -> Mapping[str, Any]:
        for pattern, setting in self.patterns.items():
            if fnmatch(prefix, pattern) if "*" in pattern else prefix in pattern:
                return setting
        return self.whole

    def _scheme(self, setting: Mapping[str, Any]) -> LinearMethod:
        """Return how a linear layer is held.

        Raises:
            Refused: in vLLM's words.
            UnknownArchitecture: for what the planner does not model.

        Source: vLLM 0.33.0 QuarkConfig._get_scheme_cls_from_config.
        """
        _check_outputs(setting)
        weight, inputs = setting.get("weight"), setting.get("input_tensors")
        if _is_list(weight) or _is_list(inputs):
            if _is_nvfp4(weight, inputs):
                return NvFp4Linear()
            raise Refused(
                "Multi-entry weight or activation quantization configs are only "
                "supported for NVFP4."
            )
        weight, inputs = _single(weight), _single(inputs)
        made = (
            _fp8(weight, inputs, self.model_type)
            or _int8(weight, inputs)
            or self._int4(weight, inputs)
            or _mx(weight, inputs)
        )
        if made is None:
            raise Refused(
                "No quark compatible scheme was found. Weight config: "
                f"{weight}, Input config: {inputs}"
            )
        return made

    def _int4(
        self, weight: Mapping[str, Any], inputs: Mapping[str, Any]
    ) -> LinearMethod | None:
        is_packed = weight.get("dtype") in _INT4 and self.pack_method in _PACKED
        if inputs or not is_packed:
            return None
        size, is_symmetric = weight.get("group_size"), weight.get("symmetric")
        if not isinstance(size, int) or size <= 0:
            raise Refused(
                f"Quark W4A16 weight.group_size must be a positive int, got {size!r}"
            )
        return QuarkInt4Linear(
            packing=Packing(
                num_bits=4, group_size=size, has_zero_points=not is_symmetric
            )
        )


def _is_list(given: Any) -> bool:  # noqa: ANN401 - untyped border
    return isinstance(given, list) and len(given) > 1


def _single(given: Any) -> Mapping[str, Any]:  # noqa: ANN401 - untyped border
    """Return a table, also where it is the only one of a list; empty for none."""
    if isinstance(given, list):
        given = given[0] if given else None
    return given if isinstance(given, Mapping) else {}


def _check_outputs(setting: Mapping[str, Any]) -> None:
    """Refuse quantised outputs and biases.

    Raises:
        Refused: in vLLM's words.
    """
    if setting.get("output_tensors") or setting.get("bias"):
        raise Refused(
            "Currently, Quark models with output_tensors and bias quantized are not "
            "supported"
        )


def _is_nvfp4(weight: Any, inputs: Any) -> bool:  # noqa: ANN401 - untyped border
    """Whether both have FP4 with a scale for 16, and an FP8 one for all."""
    pairs = (weight, inputs)
    if not all(_is_list(pair) for pair in pairs):
        return False
    return all(
        pair[0].get("dtype") == _FP4
        and pair[0].get("qscheme") == _GROUPS
        and pair[0].get("group_size") == _NV_GROUP
        and pair[1].get("dtype") == _FP8
        and pair[1].get("qscheme") == _TENSOR
        for pair in pairs
    )


def _is_fp8(weight: Mapping[str, Any], inputs: Mapping[str, Any]) -> bool:
    """Whether weights and activations are FP8; source: _is_fp8_w8a8."""
    if weight.get("dtype") != _FP8 or inputs.get("dtype") != _FP8:
        return False
    if weight.get("is_dynamic"):
        return False
    is_by_row = weight.get("qscheme") in (_TENSOR, _CHANNEL)
    is_static = inputs.get("qscheme") == _TENSOR
    return is_by_row and bool(inputs.get("is_dynamic") or is_static)


def _is_fp8_block(weight: Mapping[str, Any], inputs: Mapping[str, Any]) -> bool:
    return (
        weight.get("dtype") == inputs.get("dtype") == _FP8
        and weight.get("qscheme") == "per_block"
        and list(weight.get("block_size") or ()) == _BLOCK
        and bool(inputs.get("is_dynamic"))
        and inputs.get("group_size") == _BLOCK[1]
    )


def _fp8(
    weight: Mapping[str, Any], inputs: Mapping[str, Any], model_type: str
) -> LinearMethod | None:
    if _is_fp8_block(weight, inputs):
        return Fp8BlockLinear(model_type=model_type)
    if not _is_fp8(weight, inputs):
        return None
    return QuarkFp8Linear(
        is_channel=weight["qscheme"] == _CHANNEL,
        is_static=not inputs.get("is_dynamic"),
    )


def _is_int8(weight: Mapping[str, Any], inputs: Mapping[str, Any]) -> bool:
    """Whether weights and activations are INT8; source: _is_w8a8_int8."""
    is_dynamic = bool(inputs.get("is_dynamic"))
    expected = _CHANNEL if is_dynamic else _TENSOR
    return (
        weight.get("dtype") == inputs.get("dtype") == _INT8
        and weight.get("qscheme") in (_TENSOR, _CHANNEL)
        and weight.get("symmetric") is True
        and inputs.get("qscheme") == expected
    )


def _int8(weight: Mapping[str, Any], inputs: Mapping[str, Any]) -> LinearMethod | None:
    if not _is_int8(weight, inputs):
        return None
    return Int8Linear(
        is_channel=weight["qscheme"] == _CHANNEL,
        is_static=not inputs.get("is_dynamic"),
        is_symmetric=inputs.get("symmetric") is True,
    )


def _mx_bits(weight: Mapping[str, Any]) -> int:
    """Return the bits of a weight with a power of two for 32; 0 for any other.

    Source: vLLM 0.33.0 `layers/quantization/utils/ocp_mx_utils.py`
    ocp_mx_weight_dtype_and_rows.
    """
    is_group = (
        weight.get("qscheme") == _GROUPS
        and weight.get("group_size") == _MX_GROUP
        and weight.get("scale_format") == "e8m0"
    )
    widths = {_FP4: 4, "fp6_e3m2": 6, "fp6_e2m3": 6, _FP8: 8}
    return widths.get(str(weight.get("dtype")), 0) if is_group else 0


def _mx(weight: Mapping[str, Any], inputs: Mapping[str, Any]) -> LinearMethod | None:
    """Return how OCP's formats are held.

    Raises:
        UnknownArchitecture: for six bits, and static FP8 activations.
    """
    bits = _mx_bits(weight)
    if not bits:
        return None
    if bits not in (4, 8) or (inputs and not inputs.get("is_dynamic")):
        raise UnknownArchitecture(
            f"quantization_config: Quark's weights of {bits} bits with activations "
            f"{dict(inputs)} are not modelled: MXFP4 and MXFP8 weights with dynamic "
            "activations or none are."
        )
    return QuarkMxLinear(method=Mxfp4Linear() if bits == 4 else Mxfp8Linear())  # noqa: PLR2004 - bits


def _experts(setting: Mapping[str, Any]) -> ExpertsMethod:
    """Return how routed experts are held.

    Raises:
        Refused: in vLLM's words.
        UnknownArchitecture: for what the planner does not model.

    Source: vLLM 0.33.0 QuarkMoEMethod.get_moe_method_target.
    """
    _check_outputs(setting)
    weight, inputs = (
        _single(setting.get("weight")),
        _single(setting.get("input_tensors")),
    )
    is_pair = _is_list(setting.get("weight"))
    if _is_fp8(weight, inputs) and not is_pair:
        if weight["qscheme"] == _CHANNEL:
            return Fp8ChannelExperts()
        return Fp8TensorExperts(is_static=not inputs.get("is_dynamic"))
    if _is_int8(weight, inputs):
        return Int8ChannelExperts()
    bits = 0 if is_pair else _mx_bits(weight)
    if bits == 4:  # noqa: PLR2004 - of MXFP4
        return Mxfp4Experts()
    if bits == 8:  # noqa: PLR2004 - of MXFP8
        return Mxfp8Experts()
    raise UnknownArchitecture(
        f"quantization_config: Quark's experts with the weights {setting['weight']} "
        "are not modelled: FP8, INT8, MXFP4 and MXFP8 are."
    )


def read_quark(given: Mapping[str, Any], context: Context) -> QuarkConfig:
    """Read `quantization_config` of a Quark checkpoint.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 QuarkConfig.from_config.
    """
    export = given.get("export")
    if not isinstance(export, Mapping):
        raise Refused(
            "The export key should be included in the configurations of Quark "
            "quantized model"
        )
    patterns = {
        context.vllm_name(name): dict(setting)
        for name, setting in (given.get("layer_quant_config") or {}).items()
    }
    groups = export.get("kv_cache_group") or ()
    made = QuarkConfig(
        whole=given.get("global_quant_config") or {},
        patterns=patterns,
        excluded=context.vllm_names(listed(given, "exclude")),
        pack_method=str(export.get("pack_method") or ""),
        model_type=context.text_model_type,
    )
    return _without_cache(made, tuple(groups)) if groups else made


def _without_cache(config: QuarkConfig, groups: tuple[str, ...]) -> QuarkConfig:
    """Check the KV cache's setting, and take it from the layers that carry it.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 QuarkConfig.from_config, QuarkKVCacheMethod.
    """
    patterns = dict(config.patterns)
    found = [
        name
        for name in patterns
        if name in groups or any(fnmatch(name, group) for group in groups)
    ]
    if not found:
        raise Refused(
            "The Quark quantized model has the kv_cache_group parameter setting, but "
            "no kv_cache quantization settings were found in the quantization "
            "configuration."
        )
    cache = patterns[found[0]].get("output_tensors") or {}
    if cache.get("dtype") != _FP8:
        raise Refused(
            "Currently supported kv cache quantization is dtype=fp8_e4m3, however "
            f"received {cache.get('dtype')}"
        )
    for name in (*found, *({"*q_proj"} & patterns.keys())):
        patterns[name] = {**patterns[name], "output_tensors": None}
    return replace(config, patterns=patterns)
