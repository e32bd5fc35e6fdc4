ssh gpu01 "cd /srv/llm && numactl --cpunodebind=0 vllm serve 'Qwen/Qwen3-32B-FP8' --max-model-len 40960 --enable-lora --max-lora-rank 32 --lora-modules 'sql=/adapters/sql' 'mail=/adapters/mail'"
