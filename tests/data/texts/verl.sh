python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \
  actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \
  actor_rollout_ref.rollout.name=vllm \
  actor_rollout_ref.rollout.tensor_model_parallel_size=2 \
  actor_rollout_ref.rollout.gpu_memory_utilization=0.6 \
  data.max_prompt_length=512 data.max_response_length=1024 \
  trainer.n_gpus_per_node=8 trainer.nnodes=1
