%env HF_HUB_OFFLINE=1
!nvidia-smi
from vllm import LLM
llm = LLM("Qwen/Qwen3-0.6B", max_model_len=2048, gpu_memory_utilization=0.5)
