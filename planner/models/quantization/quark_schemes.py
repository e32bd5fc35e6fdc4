"""How Quark's settings of weights and activations are held.

`fp8_linear` and its kin return the method of a linear layer for a setting of their
format, None for any other; `experts_of` that of routed experts.

Source: vLLM 0.33.0 `layers/quantization/quark/schemes/`, `quark.py` QuarkConfig,
`quark_moe.py` QuarkMoEMethod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.engine.generations import ADA
from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
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
from planner.models.quantization.linear_kernels import Mxfp4Linear, Mxfp8Linear
from planner.models.quantization.packed_ints import repacked
from planner.models.quantization.padding import Packing
from planner.models.tensors import (
    ExpertsMethod,
    LinearMethod,
    LinearOnRank,
    Tensors,
)
from planner.values import frozen

FP8 = "fp8_e4m3"
_FP4, _INT8 = "fp4", "int8"
_MX_GROUP, _NV_GROUP = 32, 16
_BLOCK = [128, 128]
_TENSOR, _CHANNEL, _GROUPS = "per_tensor", "per_channel", "per_group"
_KNOWS_INT4 = Change(
    since=(0, 31),
    what="Quark's packed INT4 weights are served.",
    source="vLLM 0.30.0 and 0.31.0 `quark/schemes/`",
)


@frozen
class QuarkFp8Linear:
    """FP8 weights with a scale per tensor or row, on GPUs with FP8 arithmetic only.

    Source: vLLM 0.33.0 `quark/schemes/quark_w8a8_fp8.py`.
    """

    is_channel: bool
    is_static: bool
    """Whether activations have published scales."""

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight and scales on a rank.

        Raises:
            Refused: in vLLM's words, on older GPUs.
        """
        check_capability(layout, ADA)
        rows = on_rank.output_size_per_partition
        return fp8_kernels.scaled_tensors(
            on_rank,
            layout,
            num_scales=rows if self.is_channel else 1,
            is_act_per_tensor=self.is_static,
            has_input_scale=self.is_static,
        )


@frozen
class QuarkMxLinear:
    """MXFP4 or MXFP8, whose groups no rank cuts through.

    Source: vLLM 0.33.0 `quark/schemes/quark_ocp_mx.py`.
    """

    method: LinearMethod

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
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


@frozen
class QuarkInt4Linear:
    """INT4 weights with 16 bit activations; zero points stay, needed or not.

    Source: vLLM 0.33.0 `quark/schemes/quark_w4a16_int4.py`.
    """

    packing: Packing

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight, scales and zero points on a rank.

        Raises:
            Refused: in vLLM's words, where ranks cut through a group.
            UnknownArchitecture: in releases before it.
        """
        if not layout.release.has(_KNOWS_INT4):
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


def is_list(given: Any) -> bool:  # noqa: ANN401 - untyped border
    """Whether a setting has several entries, of which all are applied."""
    return isinstance(given, list) and len(given) > 1


def single(given: Any) -> Mapping[str, Any]:  # noqa: ANN401 - untyped border
    """Return a table, also where it is the only one of a list; empty for none."""
    if isinstance(given, list):
        given = given[0] if given else None
    return given if isinstance(given, Mapping) else {}


def check_outputs(setting: Mapping[str, Any]) -> None:
    """Refuse quantised outputs and biases.

    Raises:
        Refused: in vLLM's words.
    """
    if setting.get("output_tensors") or setting.get("bias"):
        raise Refused(
            "Currently, Quark models with output_tensors and bias quantized are not "
            "supported"
        )


def is_nvfp4(weight: Any, inputs: Any) -> bool:  # noqa: ANN401 - untyped border
    """Whether both have FP4 with a scale for 16, and an FP8 one for all."""
    pairs = (weight, inputs)
    if not all(is_list(pair) for pair in pairs):
        return False
    return all(
        pair[0].get("dtype") == _FP4
        and pair[0].get("qscheme") == _GROUPS
        and pair[0].get("group_size") == _NV_GROUP
        and pair[1].get("dtype") == FP8
        and pair[1].get("qscheme") == _TENSOR
        for pair in pairs
    )


def _is_fp8(weight: Mapping[str, Any], inputs: Mapping[str, Any]) -> bool:
    """Whether weights and activations are FP8; source: _is_fp8_w8a8."""
    if weight.get("dtype") != FP8 or inputs.get("dtype") != FP8:
        return False
    if weight.get("is_dynamic"):
        return False
    is_by_row = weight.get("qscheme") in (_TENSOR, _CHANNEL)
    is_static = inputs.get("qscheme") == _TENSOR
    return is_by_row and bool(inputs.get("is_dynamic") or is_static)


def _is_fp8_block(weight: Mapping[str, Any], inputs: Mapping[str, Any]) -> bool:
    return (
        weight.get("dtype") == inputs.get("dtype") == FP8
        and weight.get("qscheme") == "per_block"
        and list(weight.get("block_size") or ()) == _BLOCK
        and bool(inputs.get("is_dynamic"))
        and inputs.get("group_size") == _BLOCK[1]
    )


def fp8_linear(
    weight: Mapping[str, Any], inputs: Mapping[str, Any], model_type: str
) -> LinearMethod | None:
    """Return how FP8 is held, None for any other format."""
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


def int8_linear(
    weight: Mapping[str, Any], inputs: Mapping[str, Any]
) -> LinearMethod | None:
    """Return how INT8 is held, None for any other format."""
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
    widths = {_FP4: 4, "fp6_e3m2": 6, "fp6_e2m3": 6, FP8: 8}
    return widths.get(str(weight.get("dtype")), 0) if is_group else 0


def mx_linear(
    weight: Mapping[str, Any], inputs: Mapping[str, Any]
) -> LinearMethod | None:
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


def experts_of(setting: Mapping[str, Any]) -> ExpertsMethod:
    """Return how routed experts are held.

    Raises:
        Refused: in vLLM's words.
        UnknownArchitecture: for what the planner does not model.

    Source: vLLM 0.33.0 QuarkMoEMethod.get_moe_method_target.
    """
    check_outputs(setting)
    weight, inputs = (
        single(setting.get("weight")),
        single(setting.get("input_tensors")),
    )
    is_pair = is_list(setting.get("weight"))
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
