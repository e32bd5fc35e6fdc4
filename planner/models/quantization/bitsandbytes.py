"""bitsandbytes: 4 bits (NF4, FP4) and 8 bits, of a checkpoint or made while loading.

vLLM held the method itself up to 0.27.1; since then it comes with the package
vllm-bnb-plugin, whose classes are the same.

Source: vLLM 0.27.1 `layers/quantization/bitsandbytes.py` and
`model_loader/bitsandbytes_loader.py`; vllm-bnb-plugin 0.0.3 `quantization/` and
`bitsandbytes_loader.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.engine.layout import ParallelLayout
from planner.engine.releases.shared import KEEPS_GPTQ_WORKSPACE
from planner.errors import Refused, UnknownArchitecture
from planner.models.quantization.experts.serving import served
from planner.models.quantization.interface import (
    Context,
    Place,
    QuantizationConfig,
    flag,
    listed,
)
from planner.models.quantization.padding import ceil_div
from planner.models.tensors import (
    ExpertsKernel,
    ExpertsMethod,
    ExpertsOnRank,
    LinearMethod,
    LinearOnRank,
    ServedExperts,
    Tensor,
    Tensors,
)
from planner.values import frozen

_BLOCK = 64
"""Weights that share a scale, which Transformers and vLLM leave at its default.

Source: bitsandbytes 0.49.2 `functional.py` quantize_4bit.
"""
_CODE = Tensor(16, "float32")
"""The values of the 16 codes, kept with each weight."""
_IS_DIVIDED = (
    "Prequant BitsAndBytes models with tensor parallelism is not supported. Please try "
    "with pipeline parallelism."
)
_NO_INT8_EXPERTS = (
    "Prequant BitsAndBytes 8bit models with RoutedExperts is not supported yet."
)


def _check_ranks(layout: ParallelLayout) -> None:
    """Refuse to divide weights that are quantised already.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.27.1 BitsAndBytesModelLoader._verify_model_compatibility.
    """
    if layout.tensor_parallel_size > 1:
        raise Refused(_IS_DIVIDED)


def _check_dtype(layout: ParallelLayout) -> None:
    """Reject float32, for which vLLM's packed weights have another size.

    Raises:
        UnknownArchitecture: always for it.

    Source: vLLM 0.27.1 calculate_quant_ratio.
    """
    if layout.dtype == "float32":
        raise UnknownArchitecture(
            "bitsandbytes of 4 bits with dtype float32 is not modelled: choose "
            "dtype='bfloat16' or 'float16'."
        )


@frozen
class FourBitLinear:
    """Two weights in a byte, and for each part of the layer its scales and codes.

    Scales that are quantised themselves (`bnb_4bit_use_double_quant`) are unpacked to
    float32 while loading. For many tokens, a part is unpacked before it is multiplied.

    Source: vLLM 0.27.1 BitsAndBytesLinearMethod.create_weights;
    BitsAndBytesModelLoader._dequantize_dq; bitsandbytes 0.49.2 `autograd/_functions.py`
    MatMul4Bit.
    """

    is_prequantised: bool

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight, scales and codes on a rank.

        Raises:
            Refused: in vLLM's words, for ranks that divide a quantised checkpoint.
            UnknownArchitecture: for float32.
        """
        _check_dtype(layout)
        if self.is_prequantised:
            _check_ranks(layout)
        columns = on_rank.input_size_per_partition
        parts = [rows * columns for rows in on_rank.output_partition_sizes]
        weight = Tensor(sum(parts) // 2, "uint8", unpacked=max(parts))
        scales = [Tensor(ceil_div(part, _BLOCK), "float32") for part in parts]
        return (weight, *scales, *(_CODE,) * len(parts))


@frozen
class EightBitLinear:
    """A byte for each weight, a scale for each row.

    Source: vLLM 0.27.1 BitsAndBytesLinearMethod.create_weights.
    """

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight and scales on a rank.

        Raises:
            Refused: in vLLM's words, for ranks that divide a quantised checkpoint.
        """
        _check_ranks(layout)
        rows = on_rank.output_size_per_partition
        elements = rows * on_rank.input_size_per_partition
        return (Tensor(elements, "int8"), Tensor(rows, "float32"))


@frozen
class BitsAndBytesExperts:
    """Experts in 4 bits; all of a layer are unpacked each time they are used.

    Source: vLLM 0.27.1 BitsAndBytesMoEMethod, _fuse_moe_quant_states.
    """

    is_prequantised: bool
    is_8bit: bool

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return weights, scales and codes on a rank.

        Raises:
            Refused: in vLLM's words, for 8 bits or ranks that divide a checkpoint.
            UnknownArchitecture: for float32.
        """
        if self.is_8bit:
            raise Refused(_NO_INT8_EXPERTS)
        _check_dtype(layout)
        if self.is_prequantised:
            _check_ranks(layout)
        hidden, columns = on_rank.hidden_size, on_rank.intermediate_size_per_partition
        w13 = on_rank.num_experts * on_rank.w13_rows * hidden
        w2 = on_rank.num_experts * hidden * columns
        return (
            Tensor(w13 // 2, "uint8", unpacked=w13 + w2),
            Tensor(w2 // 2, "uint8"),
            Tensor(ceil_div(w13, _BLOCK), "float32"),
            Tensor(ceil_div(w2, _BLOCK), "float32"),
            *(_CODE,) * 2,
        )

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        kernel = ExpertsKernel.TRITON
        return served(on_rank, layout, kernel, workspace=KEEPS_GPTQ_WORKSPACE)


@frozen
class BitsAndBytesConfig(QuantizationConfig):
    """bitsandbytes as read from a checkpoint, or 4 bits made while loading."""

    is_prequantised: bool
    is_8bit: bool
    skipped: tuple[str, ...]
    name: str = "bitsandbytes"

    def linear(self, place: Place) -> LinearMethod | None:
        """Quantise every linear layer that the list does not leave out."""
        if _is_skipped(place.prefix, self.skipped):
            return None
        if self.is_8bit:
            return EightBitLinear()
        return FourBitLinear(is_prequantised=self.is_prequantised)

    def experts(self, place: Place) -> ExpertsMethod | None:
        """Quantise all routed experts, whatever the list says."""
        return BitsAndBytesExperts(
            is_prequantised=self.is_prequantised, is_8bit=self.is_8bit
        )


def _is_skipped(prefix: str, skipped: tuple[str, ...]) -> bool:
    """Whether a list names a part of a layer's name, or its beginning.

    Names are compared as the checkpoint has them; a merged layer goes by its own.

    Source: vLLM 0.27.1 is_layer_skipped_bnb.
    """
    parts = prefix.split(".")
    beginnings = {".".join(parts[: count + 1]) for count in range(len(parts))}
    return any(name in parts or name in beginnings for name in skipped)


def read_bitsandbytes(given: Mapping[str, Any], context: Context) -> BitsAndBytesConfig:
    """Read `quantization_config` of a bitsandbytes checkpoint; empty: while loading.

    Raises:
        Refused: in vLLM's words, for weights stored as anything but bytes.

    Source: vLLM 0.27.1 BitsAndBytesConfig.from_config.
    """
    storage = given.get("bnb_4bit_quant_storage") or "uint8"
    if storage != "uint8":
        raise Refused(f"Unsupported bnb_4bit_quant_storage: {storage}")
    is_8bit = flag(given, "load_in_8bit")
    return BitsAndBytesConfig(
        is_prequantised=bool(given),
        is_8bit=is_8bit,
        skipped=listed(given, "llm_int8_skip_modules"),
        forces_eager=is_8bit,
    )
