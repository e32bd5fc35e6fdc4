"""Summaries of yesterday's tickets."""
from vllm import LLM, SamplingParams

MODEL = "Qwen/Qwen3-14B"

llm = LLM(
    model=MODEL,
    tensor_parallel_size=2,
    max_model_len=16384,  # the longest ticket has 11,000 tokens
    gpu_memory_utilization=0.9,
    enable_prefix_caching=True,
)
answers = llm.generate(open("tickets.txt").read().split("\n\n"), SamplingParams(max_tokens=256))
