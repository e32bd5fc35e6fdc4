"""Facts of releases that decide the sizes of blocks and of what is kept in them."""

from __future__ import annotations

from planner.releases.number import Numbered

_HOPPER, _BLACKWELL = 9, 10
_FLASHINFER_NOPE = 128


class BlockFacts(Numbered):
    """How large a block of a release is, and in which dtype it keeps what."""

    __slots__ = ()

    @property
    def asks_backends_for_block_size(self) -> bool:
        """Whether blocks are as the attention backend prefers, not fixed by GPU.

        Source: vLLM 0.18.0 `platforms/interface.py` update_block_size_for_backend.
        """
        return self.since(0, 18)

    def latent_block_size(self, major: int, qk_nope_head_dim: int) -> int:
        """Return what blocks of latent attention are a multiple of, before 0.18.0.

        `major` is the GPU's compute capability.

        Source: vLLM 0.17.1, 0.14.1 and 0.10.0 `platforms/cuda.py`
        check_and_update_config.
        """
        if major == _HOPPER:
            return 64
        if major != _BLACKWELL or not self.since(0, 10, 1):
            return 16
        has_flashinfer = self.since(0, 15) and qk_nope_head_dim == _FLASHINFER_NOPE
        return 64 if has_flashinfer else 128

    @property
    def aligns_by_backend(self) -> bool:
        """Whether blocks of hybrids are a multiple of what their backend takes.

        Source: vLLM 0.20.0 `platforms/interface.py` _align_hybrid_block_size.
        """
        return self.since(0, 20)

    @property
    def aligns_wide_heads(self) -> bool:
        """Whether those with heads of 256 are multiples of 32 on Blackwell.

        Source: vLLM 0.11.1 to 0.17.1 `models/config.py`
        HybridAttentionMambaModelConfig.
        """
        return self.since(0, 11, 1) and not self.since(0, 18)

    @property
    def latent_hybrid_step(self) -> int:
        """Tokens of which blocks of hybrids with latent attention are a multiple.

        Source: vLLM 0.27.0 `platforms/interface.py` _align_hybrid_block_size.
        """
        return 128 if self.since(0, 27) else 64

    @property
    def aligns_prefill_checkpoints(self) -> bool:
        """Whether those are multiples of what prefill kernels save states at.

        Source: vLLM 0.33.0 `platforms/interface.py` _align_hybrid_block_size.
        """
        return self.since(0, 33)

    @property
    def checks_aligned_blocks(self) -> bool:
        """Whether blocks are refused that were aligned to what a backend cannot take.

        Source: vLLM 0.32.0 `platforms/interface.py` _check_aligned_block_size.
        """
        return self.since(0, 32)

    @property
    def saves_kda_states(self) -> bool:
        """Whether Kimi's prefill saves states on its way, in a block beside.

        Source: vLLM 0.29.0 `models/kimi_k3/nvidia/kda.py`.
        """
        return self.since(0, 29)

    @property
    def saves_mamba2_states(self) -> bool:
        """Whether Mamba2's prefill does so.

        Source: vLLM 0.32.0 `layers/mamba/mamba_mixer2.py`.
        """
        return self.since(0, 32)

    @property
    def sizes_gdn_recurrence(self) -> bool:
        """Whether the recurrence of gated delta nets has a dtype of its own.

        Source: vLLM 0.17.0 `layers/mamba/mamba_utils.py` gated_delta_net_state_dtype.
        """
        return self.since(0, 17)

    @property
    def reads_recurrent_dtype(self) -> bool:
        """Whether the dtype of a recurrence is what the model asks for.

        Source: vLLM 0.13.0 `models/config.py` NemotronHForCausalLMConfig.
        """
        return self.since(0, 13)

    @property
    def recurrent_dtype(self) -> str:
        """What such a model asks for whose config is silent.

        Source: vLLM 0.20.0 `models/config.py` NemotronHForCausalLMConfig.
        """
        return "float32" if self.since(0, 20) else "float16"

    @property
    def reads_modelopt_kv_dtype(self) -> bool:
        """Whether kv_cache_dtype auto is what a ModelOpt checkpoint says.

        Source: vLLM 0.14.0 `utils/torch_utils.py` resolve_kv_cache_dtype_string.
        """
        return self.since(0, 14)

    @property
    def reads_modelopt_nvfp4_kv_dtype(self) -> bool:
        """Whether it is so for NVFP4 too.

        Source: vLLM 0.20.0 `utils/torch_utils.py` resolve_kv_cache_dtype_string.
        """
        return self.since(0, 20)

    @property
    def reads_compressed_kv_dtype(self) -> bool:
        """Whether it is what a compressed-tensors checkpoint says.

        Source: vLLM 0.15.0 `attention/layer.py` Attention.
        """
        return self.since(0, 15)

    @property
    def asked_kv_dtype_wins(self) -> bool:
        """Whether kv_cache_dtype as asked wins over a compressed-tensors checkpoint.

        Source: vLLM 0.22.0 `layers/attention/attention.py` Attention.
        """
        return self.since(0, 22)

    @property
    def packs_sparse_by_default(self) -> bool:
        """Whether DeepSeek's sparse attention keeps fp8_ds_mla unless told otherwise.

        Source: vLLM 0.11.0 `models/config.py` DeepseekV32ForCausalLM.
        """
        return not self.since(0, 11, 1)

    @property
    def packs_sparse_fp8(self) -> bool:
        """Whether it keeps fp8_ds_mla for every fp8 that is asked for.

        Source: vLLM 0.17.1 `models/config.py` DeepseekV32ForCausalLM.
        """
        return not self.since(0, 18)

    @property
    def keeps_glm_fp8_on_blackwell(self) -> bool:
        """Whether GLM's sparse attention keeps FP8 on B200 unless told otherwise.

        Source: vLLM 0.32.0 `models/config.py` GlmMoeDsaForCausalLM.
        """
        return self.since(0, 32)

    @property
    def has_head_256_pages(self) -> bool:
        """Whether FlashAttention 4 has pages of 128 tokens for heads of 256.

        Source: vLLM 0.29.0 `v1/attention/backends/flash_attn.py`.
        """
        return self.since(0, 29)

    @property
    def has_fp8_pages(self) -> bool:
        """Whether it has pages of 64 tokens for FP8 and heads of 512 on Hopper.

        Source: vLLM 0.31.0 `v1/attention/backends/flash_attn.py`.
        """
        return self.since(0, 31)

    @property
    def serves_mixed_heads_by_v4(self) -> bool:
        """Whether it serves heads of several sizes (Gemma 4), where it runs.

        Source: vLLM 0.24.0 `models/config.py` Gemma4Config.
        """
        return self.since(0, 24)
