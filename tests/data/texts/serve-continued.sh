#!/usr/bin/env bash
# Chat model of the support team, two cards.
set -euo pipefail

export CUDA_VISIBLE_DEVICES=0,1
export VLLM_LOGGING_LEVEL=INFO

exec vllm serve meta-llama/Llama-3.3-70B-Instruct \
  --served-model-name chat \
  --tensor-parallel-size 2 \
  --max-model-len=16k \
  --kv-cache-dtype fp8 \
  --enable-auto-tool-choice --tool-call-parser llama3_json \
  --host 0.0.0.0 --port 8001 \
  2>&1 | tee "logs/chat-$(date +%F).log"
