vllm bench throughput --model Qwen/Qwen3-0.6B --input-len 512 --output-len 128 --num-prompts 1000 --max-model-len 2048
