docker run --gpus 1 -it --entrypoint vllm registry.example.org/ml/vllm:0.25.1-cu129 serve Qwen/Qwen3-8B --quantization fp8
