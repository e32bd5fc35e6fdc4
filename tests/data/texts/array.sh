#!/usr/bin/env bash
set -euo pipefail
MODEL="${MODEL:-Qwen/Qwen3-14B}"
TP=${TP:-2}
LEN=$(( 16 * 1024 ))
ARGS=( --tensor-parallel-size "$TP" --max-model-len "$LEN" )
if [[ "${EAGER:-0}" == 1 ]]; then ARGS+=( --enforce-eager ); fi
exec python3 -m vllm.entrypoints.openai.api_server --model "$MODEL" "${ARGS[@]}" "$@"
