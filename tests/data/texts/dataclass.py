from dataclasses import dataclass
@dataclass
class Args:
    model: str = "mistralai/Mistral-7B-Instruct-v0.3"
    gpu_util: float = 0.8
a = Args()
llm = LLM(model=a.model, gpu_memory_utilization=a.gpu_util, enforce_eager=not True)
