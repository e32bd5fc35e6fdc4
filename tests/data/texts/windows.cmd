docker run --gpus all ^
  vllm/vllm-openai:v0.19.1 ^
  --model Qwen/Qwen3-8B ^
  --max-model-len 8192
