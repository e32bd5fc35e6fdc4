"""Facts of releases that decide what the profile run holds."""

from __future__ import annotations

from planner.releases.number import Numbered


class ProfilingFacts(Numbered):
    """What a release runs to measure its peak, and what is left of it."""

    __slots__ = ()

    @property
    def sorts_to_sample(self) -> bool:
        """Whether top-k and top-p sort the whole vocabulary with PyTorch.

        Source: vLLM 0.16.0 `v1/sample/ops/topk_topp_sampler.py` apply_top_k_top_p;
        0.17.0 `v1/sample/ops/topk_topp_triton.py` (a kernel that does not sort).
        """
        return not self.since(0, 17)

    @property
    def sorts_few_requests(self) -> bool:
        """Whether fewer than eight requests are still sorted.

        Source: vLLM 0.17.0 and 0.29.0 `v1/sample/ops/topk_topp_sampler.py`.
        """
        return not self.since(0, 30)

    @property
    def samples_with_flashinfer(self) -> bool:
        """Whether FlashInfer samples unless told otherwise.

        Source: vLLM 0.21.0 `v1/sample/ops/topk_topp_sampler.py` TopKTopPSampler.
        """
        return self.since(0, 21)

    @property
    def samples_with_what_is_installed(self) -> bool:
        """Whether FlashInfer samples wherever it is installed, which pip leaves out.

        Source: vLLM 0.11.0 and 0.11.1 `v1/sample/ops/topk_topp_sampler.py`.
        """
        return not self.since(0, 11, 1)

    @property
    def v2_copies_logits(self) -> bool:
        """Whether the second runner's sampler copies logits to fp32 for defaults.

        Source: vLLM 0.25.1 and 0.26.0 `v1/worker/gpu/sample/sampler.py`.
        """
        return not self.since(0, 26)

    @property
    def v2_samples_with_all_parameters(self) -> bool:
        """Whether the second runner's profile run also draws with top-k and top-p.

        Source: vLLM 0.33.0 `v1/worker/gpu/model_runner.py` _dummy_sampler_run.
        """
        return self.since(0, 33)

    @property
    def keeps_blas_workspace(self) -> bool:
        """Whether cuBLAS takes its workspace inside what is measured.

        Source: vLLM 0.33.0 `v1/worker/gpu_worker.py` init_device (a call before the
        first snapshot).
        """
        return not self.since(0, 33)

    @property
    def counts_distributed_start(self) -> bool:
        """Whether the buffers of NCCL and all-reduce are taken off the budget.

        Source: vLLM 0.10.2 and 0.11.0 `v1/worker/gpu_worker.py` init_device.
        """
        return not self.since(0, 11)

    @property
    def counts_graph_residue(self) -> bool:
        """Whether what the graph estimate leaves behind is taken off the budget.

        Source: vLLM 0.18.0 and 0.27.0 `v1/worker/gpu_worker.py`
        determine_available_memory.
        """
        return self.since(0, 18) and not self.since(0, 27)

    @property
    def pins_segments(self) -> bool:
        """Whether freed memory may stay charged, held by a small tensor within.

        The device's loss is charged from 0.27 on; only from 0.31 on does the profile
        run keep large blocks from being split.

        Source: vLLM 0.31.0 `v1/worker/gpu_worker.py` determine_available_memory.
        """
        return self.since(0, 27) and not self.since(0, 31)

    @property
    def fuses_all_reduce(self) -> bool:
        """Whether tensor parallel fuses all-reduce and norm with FlashInfer's buffers.

        Source: vLLM 0.17.0 `config/vllm.py` enable_allreduce_rms_fusion.
        """
        return self.since(0, 17)

    @property
    def fused_buffer_granularity_bytes(self) -> int:
        """To what FlashInfer rounds each of these buffers up.

        Source: vLLM 0.28.0 and 0.29.0 requirements (FlashInfer 0.6.16 and 0.6.18); the
        512 MiB follow from 0.19 logs, equal for two and four ranks.
        """
        return (2 << 20) if self.since(0, 29) else (512 << 20)

    @property
    def v2_estimates_cudagraphs(self) -> bool:
        """Whether the second runner's estimate of graphs is more than nothing.

        Source: vLLM 0.28.0 and 0.29.0 `v1/worker/gpu/model_runner.py`
        profile_cudagraph_memory.
        """
        return self.since(0, 29)

    @property
    def captures_full_graphs(self) -> bool:
        """Whether whole decode steps are captured beside pieces.

        Source: vLLM 0.11.0 `config/vllm.py` (FULL_AND_PIECEWISE by default).
        """
        return self.since(0, 11)
