from trl import GRPOConfig, GRPOTrainer
cfg = GRPOConfig(output_dir="x", use_vllm=True, vllm_mode="colocate", vllm_gpu_memory_utilization=0.3, max_prompt_length=512, max_completion_length=512)
t = GRPOTrainer(model="Qwen/Qwen2.5-1.5B-Instruct", args=cfg)
