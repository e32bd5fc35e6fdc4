vllm serve Qwen/Qwen3-8B --max-model-len 32768 --gpu-memory-utilization 0.9 --port 8000
