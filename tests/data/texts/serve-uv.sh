uv run --with vllm==0.11.0 env VLLM_ATTENTION_BACKEND=FLASHINFER vllm serve openai/gpt-oss-20b --async-scheduling --max_num_batched_tokens 8192
