docker run --runtime nvidia --gpus all \
    --name qwen \
    -v ~/.cache/huggingface:/root/.cache/huggingface \
    --env "HF_TOKEN=$HF_TOKEN" \
    -e VLLM_SLEEP_WHEN_IDLE=1 \
    -p 8000:8000 \
    --ipc=host \
    vllm/vllm-openai:v0.19.1 \
    --model Qwen/Qwen3-14B \
    --tensor-parallel-size 2 \
    --gpu-memory-utilization 0.85   # the reranker needs the rest
