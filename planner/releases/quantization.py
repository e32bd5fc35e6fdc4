"""Facts of releases that decide which kernels hold quantised layers, and how."""

from __future__ import annotations

from planner.releases.number import Numbered


class QuantizationFacts(Numbered):
    """How a release repacks the weights of a checkpoint."""

    __slots__ = ()

    @property
    def unpacks_fp8_with_humming(self) -> bool:
        """Whether Humming serves FP8 weights with 16 bit activations, not Marlin.

        Source: vLLM 0.25.0 `kernels/linear/__init__.py` _POSSIBLE_WFP8A16_KERNELS.
        """
        return self.since(0, 25)

    @property
    def pads_for_marlin(self) -> bool:
        """Whether weights are padded to Marlin's tiles; before, they had to fill them.

        Source: vLLM 0.24.0 `layers/quantization/utils/marlin_utils.py`
        marlin_padded_nk.
        """
        return self.since(0, 24)

    @property
    def pads_experts_for_marlin(self) -> bool:
        """Whether experts are padded too.

        Source: vLLM 0.25.0 `layers/quantization/utils/marlin_utils.py`
        marlin_moe_padded_intermediate.
        """
        return self.since(0, 25)

    @property
    def pads_for_cutlass(self) -> bool:
        """Whether FP8 weights are padded to sixteens for CUTLASS.

        Source: vLLM 0.21.0 `kernels/linear/scaled_mm/cutlass.py`.
        """
        return self.since(0, 21)

    @property
    def pads_nvfp4(self) -> bool:
        """Whether NVFP4 weights are padded for CUTLASS.

        Source: vLLM 0.16.0 `layers/quantization/utils/nvfp4_utils.py`
        pad_nvfp4_weight_for_cutlass.
        """
        return self.since(0, 16)

    @property
    def keeps_raw_nvfp4_scales(self) -> bool:
        """Whether ModelOpt's scales stay beside those laid out for the kernel.

        Source: vLLM 0.10.1 and 0.10.2 `layers/quantization/modelopt.py`
        (weight_scale_swizzled).
        """
        return not self.since(0, 10, 2)

    @property
    def refines_fp8_blocks(self) -> bool:
        """Whether ranks may cut through blocks of FP8 experts, whose scales repeat.

        Source: vLLM 0.29.0 `layers/fused_moe/oracle/fp8.py`
        refine_fp8_moe_block_shape.
        """
        return self.since(0, 29)

    @property
    def prefers_trtllm_for_plain_experts(self) -> bool:
        """Whether TRT-LLM serves unquantised experts without being asked to.

        Source: vLLM 0.20.0 `layers/fused_moe/oracle/unquantized.py`
        _get_priority_backends.
        """
        return self.since(0, 20)

    @property
    def pads_plain_experts(self) -> bool:
        """Whether unquantised experts are padded for TRT-LLM, gated or not.

        Source: vLLM 0.24.0 `layers/fused_moe/oracle/unquantized.py`
        (min_alignment), `layers/fused_moe/experts/trtllm_bf16_moe.py`.
        """
        return self.since(0, 24)

    @property
    def trtllm_mxfp4_columns(self) -> int:
        """To how many columns MXFP4 experts are padded for TRT-LLM.

        Source: vLLM 0.27.0 `layers/fused_moe/oracle/mxfp4.py`
        mxfp4_round_up_hidden_size_and_intermediate_size.
        """
        return 128 if self.since(0, 27) else 256

    @property
    def keeps_raw_mxfp4_scales(self) -> bool:
        """Whether scales as published stay beside those of Triton's kernel.

        Source: vLLM 0.24.0 and 0.25.0 `layers/fused_moe/oracle/mxfp4.py`.
        """
        return not self.since(0, 25)

    @property
    def triton_mxfp4_groups(self) -> int:
        """To how many groups the scales of Triton's kernel are padded on Hopper.

        Source: vLLM 0.26.0 `layers/quantization/utils/mxfp4_utils.py` _swizzle_mxfp4.
        """
        return 4 if self.since(0, 26) else 2

    @property
    def runs_triton_mxfp4_on_rtx(self) -> bool:
        """Whether Triton serves gpt-oss on RTX Blackwell too.

        Source: vLLM 0.12.0 `layers/quantization/mxfp4.py` get_mxfp4_backend.
        """
        return not self.since(0, 12)
