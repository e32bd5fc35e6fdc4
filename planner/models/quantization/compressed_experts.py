"""Routed experts of compressed-tensors checkpoints, by scheme.

Source: vLLM 0.33.0 `compressed_tensors_moe/compressed_tensors_moe.py` get_moe_method.
"""

from __future__ import annotations

from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.errors import Refused, UnknownArchitecture
from planner.models.quantization.compressed_args import Scheme
from planner.models.quantization.experts.fp8 import (
    Fp8BlockExperts,
    Fp8ChannelExperts,
    Fp8TensorExperts,
    Mxfp8Experts,
)
from planner.models.quantization.experts.int8 import (
    Int8ChannelExperts,
    W4A8Fp8Experts,
    W4A8Int8Experts,
)
from planner.models.quantization.experts.mxfp4 import Mxfp4Experts, Mxfp4Source
from planner.models.quantization.experts.nvfp4 import NvFp4Experts
from planner.models.quantization.experts.wna16 import PackedExperts
from planner.models.tensors import (
    ExpertsMethod,
    ExpertsOnRank,
    ServedExperts,
    Tensors,
)
from planner.values import frozen

USUAL_NAMES = ("gate_proj", "up_proj", "down_proj")
"""By which older releases look for the scheme of every model's experts."""
_LOOKS_FOR_OWN_NAMES = Change(
    since=(0, 32),
    what=(
        "vLLM looks for the scheme of experts by the names that the checkpoint gives "
        "them."
    ),
    source=(
        "vLLM 0.32.0 `compressed_tensors_moe/compressed_tensors_moe.py` "
        "get_moe_method; 0.31.0 the same, which looks for gate_proj, up_proj and "
        "down_proj"
    ),
)


@frozen
class UsuallyNamedExperts:
    """Experts that the config's targets know by their usual names only.

    Newer releases find no scheme for them. They build them unquantised, and the
    quantised weights of the checkpoint have no parameters to go to.
    """

    method: ExpertsMethod
    names: tuple[str, ...]
    """As the model's class calls an expert's layers, such as w1, w3 and w2."""

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return weights and scales on a rank, of a release that finds the scheme.

        Raises:
            Refused: for a release that does not.
        """
        if layout.release.has(_LOOKS_FOR_OWN_NAMES):
            raise Refused(
                "compressed-tensors: no target of config_groups names the routed "
                f"experts' layers {', '.join(self.names)}, by which vLLM looks for "
                f"their scheme from 0.32 on (before: {', '.join(USUAL_NAMES)}). It "
                "builds them unquantised, and the checkpoint's quantised experts "
                "cannot be loaded (KeyError)."
            )
        return self.method.tensors(on_rank, layout)

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel of the scheme."""
        return self.method.served(on_rank, layout)


def experts_of(scheme: Scheme, model_type: str) -> ExpertsMethod:
    """Return how the experts of a scheme are held.

    Raises:
        Refused: in vLLM's words, for what it does not know.
        UnknownArchitecture: for what the planner does not.
    """
    found = _few_bits(scheme) or _eight_bits(scheme, model_type)
    if found is None:
        raise Refused(f"Unsupported FusedMoe scheme: {scheme.weights}, {scheme.inputs}")
    return found


def _few_bits(scheme: Scheme) -> ExpertsMethod | None:
    """Return how floats with scales for few columns, or packed integers, are held."""
    weights, inputs = scheme.weights, scheme.inputs
    if weights.is_mxfp4:
        if inputs is not None and not inputs.is_mxfp4:
            raise UnknownArchitecture(
                "quantization_config: experts in MXFP4 with FP8 activations are not "
                "modelled."
            )
        return Mxfp4Experts(source=Mxfp4Source.COMPRESSED_TENSORS)
    if weights.is_mxfp8:
        return Mxfp8Experts()
    if scheme.is_weight_only_int:
        return _packed(scheme)
    if weights.is_nvfp4:
        return NvFp4Experts(
            is_compressed_tensors=True, has_input_scale=inputs is not None
        )
    return None


def _eight_bits(scheme: Scheme, model_type: str) -> ExpertsMethod | None:
    """Return how weights with activations of 8 bits are held."""
    inputs = scheme.inputs
    if scheme.is_w8a8_fp8:
        return _fp8(scheme, model_type)
    if inputs is not None and inputs.is_dynamic and scheme.is_w8a8_int8:
        return Int8ChannelExperts()
    if scheme.is_w4a8_fp8:
        return W4A8Fp8Experts(group_size=scheme.weights.group_size or -1)
    return W4A8Int8Experts() if scheme.is_w4a8 else None


def _packed(scheme: Scheme) -> ExpertsMethod:
    weights = scheme.weights
    if scheme.format != "pack-quantized":
        raise Refused(
            "For Fused MoE layers, only format: pack-quantized and bits: "
            "[2, 3, 4, 5, 6, 7, 8] is supported but got format: pack-quantized and "
            f"bits: {weights.num_bits}"
        )
    return PackedExperts(
        num_bits=weights.num_bits,
        group_size=weights.group_size or -1,
        has_zero_points=not weights.is_symmetric,
    )


def _fp8(scheme: Scheme, model_type: str) -> ExpertsMethod:
    weights, inputs = scheme.weights, scheme.inputs
    if weights.strategy == "block":
        return Fp8BlockExperts(model_type=model_type)
    if weights.strategy == "channel":
        return Fp8ChannelExperts()
    is_static = inputs is not None and not inputs.is_dynamic
    return Fp8TensorExperts(is_static=is_static)
