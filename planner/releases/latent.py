"""Facts of releases that decide what latent attention needs while it computes."""

from __future__ import annotations

from planner.releases.number import Numbered


class LatentFacts(Numbered):
    """How a release's profile run allows for latent attention."""

    __slots__ = ()

    @property
    def reserves_latent_context(self) -> bool:
        """Whether the profile run takes the keys and values of a chunk of context.

        Source: vLLM 0.11.0 `v1/attention/backends/mla/common.py` (dummy run).
        """
        return self.since(0, 11)

    @property
    def reserves_sparse_latent_context(self) -> bool:
        """Whether it does so for layers whose tokens attend to chosen ones, too.

        Source: vLLM 0.16.0 `layers/attention/mla_attention.py` MLAAttention.
        """
        return self.since(0, 16)

    @property
    def aligns_latent_context(self) -> bool:
        """Whether that chunk is whole blocks, not at least one block per request.

        Source: vLLM 0.28.0 `layers/attention/mla_attention.py`
        align_mla_chunked_context_workspace_size.
        """
        return self.since(0, 28)

    @property
    def keeps_indexer_workspace(self) -> bool:
        """Whether an indexer's keys of a prefill have room in the shared workspace.

        Source: vLLM 0.13.0 `models/deepseek_v2.py` sparse_attn_indexer.
        """
        return self.since(0, 13)

    @property
    def keeps_topk_workspace(self) -> bool:
        """Whether the choice of tokens has room there as well.

        Source: vLLM 0.20.0 `layers/sparse_attn_indexer.py` RADIX_TOPK_WORKSPACE_SIZE.
        """
        return self.since(0, 20)

    @property
    def shortens_indexer_workspace(self) -> bool:
        """Whether very long contexts have less room there.

        Source: vLLM 0.32.0 `config/vllm.py` sparse_mla_prefill_workspace_factor.
        """
        return self.since(0, 32)

    @property
    def reserves_indexer_logits(self) -> bool:
        """Whether the profile run takes an indexer's largest logits.

        Source: vLLM 0.19.0 `layers/sparse_attn_indexer.py`.
        """
        return self.since(0, 19)

    @property
    def shares_indexer_rows(self) -> bool:
        """Whether ranks choose tokens for some rows each and exchange the choices.

        Source: vLLM 0.32.0 `layers/sparse_attn_indexer.py`
        _reserve_row_shard_exchange_transient.
        """
        return self.since(0, 32)

    @property
    def keeps_flashmla_queries(self) -> bool:
        """Whether sparse FlashMLA's queries lie in the shared workspace.

        Source: vLLM 0.18.0 `v1/attention/backends/mla/flashmla_sparse.py`.
        """
        return self.since(0, 18)

    @property
    def prefers_sparse_flash_attention(self) -> bool:
        """Whether Hopper takes FlashAttention for chosen tokens, unless quantised.

        Source: vLLM 0.25.0 `platforms/cuda.py` _get_backend_priorities.
        """
        return self.since(0, 25)

    @property
    def keeps_flashmla_outputs(self) -> bool:
        """Whether padded queries and outputs of a quantised cache lie there.

        Source: vLLM 0.31.0 `v1/attention/backends/mla/flashmla_sparse.py`.
        """
        return self.since(0, 31)

    @property
    def keeps_triton_mla_logits(self) -> bool:
        """Whether the profile run takes what Triton's decode kernel needs.

        Source: vLLM 0.33.0 `v1/attention/backends/mla/triton_mla.py`
        reserve_workspace.
        """
        return self.since(0, 33)

    @property
    def prefers_trtllm_ragged(self) -> bool:
        """Whether B200 takes FlashInfer's prefill for heads of 192 + 64 and 256.

        Source: vLLM 0.27.0 `v1/attention/backends/mla/prefill/selector.py`.
        """
        return self.since(0, 27)
