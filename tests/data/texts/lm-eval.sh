lm_eval --model vllm \
  --model_args pretrained=Qwen/Qwen3-8B,tensor_parallel_size=2,dtype=bfloat16,gpu_memory_utilization=0.8,max_model_len=4096,add_bos_token=True \
  --tasks gsm8k --num_fewshot 5 --batch_size auto
