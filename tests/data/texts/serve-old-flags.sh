vllm serve Qwen/Qwen2.5-7B-Instruct --swap-space 8 --num-scheduler-steps 8 --use-v2-block-manager --guided-decoding-backend xgrammar --max-model-len 8192
