"""Variables, as vLLM reads them."""

VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS = True
