MODEL=Qwen/Qwen3-8B
TP=1
while [[ $# -gt 0 ]]; do
  case $1 in
    --model) MODEL=$2; shift 2;;
    --tp) TP=$2; shift 2;;
  esac
done
vllm serve $MODEL -tp $TP
