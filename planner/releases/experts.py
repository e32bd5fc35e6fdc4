"""Facts of releases that decide what routed experts need while they compute."""

from __future__ import annotations

from planner.releases.number import Numbered


class ExpertsFacts(Numbered):
    """How a release runs routed experts."""

    __slots__ = ()

    @property
    def keeps_expert_workspace(self) -> bool:
        """Whether unquantised, FP8 and NVFP4 experts share a workspace that stays.

        Before, each layer took its intermediate results and gave them back.

        Source: vLLM 0.14.0 `layers/fused_moe/unquantized_fused_moe_method.py`,
        `layers/fused_moe/oracle/fp8.py` and `nvfp4.py` (FusedMoEModularKernel);
        `v1/worker/workspace.py`.
        """
        return self.since(0, 14)

    @property
    def keeps_mxfp4_workspace(self) -> bool:
        """Whether MXFP4 experts take theirs from it.

        Source: vLLM 0.19.0 `layers/fused_moe/oracle/mxfp4.py`.
        """
        return self.since(0, 19)

    @property
    def keeps_gptq_workspace(self) -> bool:
        """Whether experts of GPTQ checkpoints and INT8 experts take theirs from it.

        Source: vLLM 0.20.0 `layers/fused_moe/oracle/int_wna16.py` and `int8.py`.
        """
        return self.since(0, 20)

    @property
    def keeps_awq_workspace(self) -> bool:
        """Whether experts of AWQ checkpoints take theirs from it.

        Source: vLLM 0.22.0 `layers/quantization/awq_marlin.py`.
        """
        return self.since(0, 22)

    @property
    def keeps_packed_workspace(self) -> bool:
        """Whether packed experts of compressed-tensors take theirs from it.

        Source: vLLM 0.23.0 `compressed_tensors_moe_wna16_marlin.py`.
        """
        return self.since(0, 23)

    @property
    def keeps_wna16_workspace(self) -> bool:
        """Whether few-bit experts that Marlin cannot serve take theirs from it.

        Source: vLLM 0.27.0 `layers/quantization/moe_wna16.py`.
        """
        return self.since(0, 27)

    @property
    def expert_chunk_tokens(self) -> int | None:
        """Tokens that experts compute at once; None: all.

        Source: vLLM 0.9.2 to 0.17.1 `envs.py` VLLM_FUSED_MOE_CHUNK_SIZE.
        """
        if self.since(0, 18):
            return None
        return 16384 if self.since(0, 12) else 32768

    @property
    def shares_expert_output(self) -> bool:
        """Whether an output larger than its workspace shares the workspace's place.

        Source: vLLM 0.15.0 `layers/fused_moe/modular_kernel.py` _allocate_buffers.
        """
        return self.since(0, 15)

    @property
    def overwrites_expert_input(self) -> bool:
        """Whether Triton's experts write their output over their input.

        Source: vLLM 0.11.1 `layers/fused_moe/utils.py` disable_inplace, for the
        PyTorch 2.9 that it and later releases need.
        """
        return not self.since(0, 11, 1)

    @property
    def flashinfer_expert_majors(self) -> tuple[int, ...]:
        """GPU generations that take FlashInfer's kernels for unquantised experts.

        Source: vLLM 0.20.0 and 0.23.0 `layers/fused_moe/oracle/unquantized.py`
        _get_priority_backends.
        """
        if not self.since(0, 20):
            return ()
        return (10, 12) if self.since(0, 23) else (9, 10, 12)

    @property
    def prefers_flashinfer_quantised_experts(self) -> bool:
        """Whether FlashInfer's kernels for FP8 and NVFP4 need no switch.

        Source: vLLM 0.15.0 `layers/fused_moe/oracle/fp8.py` and `nvfp4.py`.
        """
        return self.since(0, 15)

    @property
    def prefers_triton_block_experts(self) -> bool:
        """Whether Hopper takes Triton for block FP8 unless ranks share the experts.

        Source: vLLM 0.16.0 `layers/fused_moe/oracle/fp8.py` _get_priority_backends.
        """
        return self.since(0, 17)

    @property
    def prefers_humming(self) -> bool:
        """Whether Hopper takes Humming's kernels instead of Marlin's.

        Source: vLLM 0.32.0 `layers/quantization/utils/humming/priority.py`.
        """
        return self.since(0, 32)

    @property
    def sizes_deepgemm_in_bytes(self) -> bool:
        """Whether DeepGEMM's FP8 inputs are given bytes, not 16 bit elements.

        Source: vLLM 0.31.0 `layers/fused_moe/experts/deep_gemm_moe.py`.
        """
        return self.since(0, 31)
