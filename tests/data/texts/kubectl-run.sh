kubectl run qwen --image=vllm/vllm-openai:v0.33.0 --env=VLLM_SLEEP_WHEN_IDLE=1 --restart=Never -- --model Qwen/Qwen3-8B --kv-cache-dtype fp8
