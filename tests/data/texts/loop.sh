models=("Qwen/Qwen3-0.6B" "Qwen/Qwen3-1.7B" "Qwen/Qwen3-4B")
for m in "${models[@]}"; do
    vllm serve "$m" --max-model-len 4096 &
    pid=$!
    python bench.py --model "$m"
    kill $pid
done
