vllm serve google/gemma-3-27b-it
  --max-model-len 8192
  --max-num-seqs 64   # enough for the team
  --enforce-eager
