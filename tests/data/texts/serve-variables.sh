MODEL=Qwen/Qwen3-30B-A3B-Instruct-2507
TP=${TP:-4}
VLLM_USE_V1=1 nohup vllm serve "$MODEL" --tensor-parallel-size $TP --max-num-seqs "$MAX_SEQS" > vllm.log 2>&1 &
