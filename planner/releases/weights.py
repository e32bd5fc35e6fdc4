"""Facts of releases that decide what the ranks hold once a model is loaded."""

from __future__ import annotations

from planner.releases.number import Numbered


class WeightsFacts(Numbered):
    """How a release lays out weights, buffers and the workspaces of its kernels."""

    __slots__ = ()

    @property
    def imports_flashinfer_mla_workspace(self) -> bool:
        """Whether FLASHINFER_MLA takes its workspace when its module is imported.

        Later releases take it at the first step.

        Source: vLLM 0.10.2 and 0.25.0 `v1/attention/backends/mla/flashinfer_mla.py`.
        """
        return self.since(0, 10, 2) and not self.since(0, 25)

    @property
    def has_cutlass_mla_workspace(self) -> bool:
        """Whether CUTLASS_MLA takes a workspace when its module is imported.

        Source: vLLM 0.10.0 `v1/attention/backends/mla/cutlass_mla.py`.
        """
        return self.since(0, 10)

    @property
    def imports_all_mla_candidates(self) -> bool:
        """Whether every candidate for latent attention is imported to be asked.

        Before, a chain of conditions named the one to import.

        Source: vLLM 0.11.1 `platforms/cuda.py` get_valid_backends.
        """
        return self.since(0, 11, 1)

    @property
    def has_short_mla_list(self) -> bool:
        """Whether RTX Blackwell has candidates of its own, without FLASHINFER_MLA.

        Source: vLLM 0.24.0 `platforms/cuda.py` _get_backend_priorities.
        """
        return self.since(0, 24)

    @property
    def lays_scales_out_for_deep_gemm(self) -> bool:
        """Whether DeepGEMM's layout of block scales is made while a model is loaded.

        Source: vLLM 0.11.1 `layers/quantization/utils/fp8_utils.py`
        deepgemm_post_process_fp8_weight_block.
        """
        return self.since(0, 11, 1)

    @property
    def knows_blackwell_family(self) -> bool:
        """Whether B300 is asked about together with B200, as one family of GPUs.

        Source: vLLM 0.13.0 `utils/deep_gemm.py` is_deep_gemm_supported,
        `layers/quantization/mxfp4.py` get_mxfp4_backend.
        """
        return self.since(0, 13)

    @property
    def runs_deep_gemm_on_rtx(self) -> bool:
        """Whether DeepGEMM serves RTX Blackwell.

        Source: vLLM 0.24.0 `platforms/cuda.py` support_deep_gemm.
        """
        return self.since(0, 24)

    @property
    def chooses_mrope_rows(self) -> bool:
        """Whether a model says how far its tables of image positions reach.

        Before, all of them held four times the positions of the text.

        Source: vLLM 0.32.0 `layers/rotary_embedding/mrope.py` (positions_factor).
        """
        return self.since(0, 32)

    @property
    def may_keep_deepseek_rope_in_float32(self) -> bool:
        """Whether FlashInfer may rotate DeepSeek's stretched positions, in float32.

        Source: vLLM 0.14.0 `layers/rotary_embedding/deepseek_scaling_rope.py`
        (use_flashinfer).
        """
        return self.since(0, 14)

    @property
    def shards_pixtral(self) -> bool:
        """Whether Pixtral's tower in Mistral's format is cut over the ranks.

        Source: vLLM 0.20.0 `models/pixtral.py` (disable_tp).
        """
        return self.since(0, 20)

    @property
    def has_query_projections(self) -> bool:
        """Whether Gemma 4's layers without a cache project queries alone.

        Source: vLLM 0.30.0 `models/gemma4.py` Gemma4Attention.
        """
        return self.since(0, 30)

    @property
    def has_kv_counter(self) -> bool:
        """Whether FlashInfer's layers hold a counter for TRT-LLM's kernels.

        Source: vLLM 0.33.0 `v1/attention/backends/flashinfer.py`
        _get_multi_ctas_kv_counter_buffer.
        """
        return self.since(0, 33)

    @property
    def has_sparse_index_groups(self) -> bool:
        """Whether layers that share chosen tokens hold the places of these.

        Source: vLLM 0.30.0 `v1/attention/backends/mla/index_group.py`.
        """
        return self.since(0, 30)

    @property
    def prefers_mistral_format(self) -> bool:
        """Whether params.json is read before config.json where both are published.

        Source: vLLM 0.12.0 `transformers_utils/config.py` get_config.
        """
        return self.since(0, 12)
