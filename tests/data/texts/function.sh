start_server() {
  local model=$1 tp=$2
  vllm serve "$model" --tensor-parallel-size "$tp" --port 8000
}
start_server Qwen/Qwen3-32B 4
