"""Two small releases of a made-up vLLM, as folders of sources."""

from __future__ import annotations

from pathlib import Path

OLD = {
    "envs.py": """
environment_variables: dict = {
    "VLLM_KEPT": lambda: 1,
    "VLLM_GONE": lambda: 2,
}
""",
    "engine/arg_utils.py": """
class EngineArgs:
    max_model_len: int | None = None
    swap_space: float = 4

    def get_batch_defaults(self, memory):
        if memory >= 70:
            default_max_num_seqs = {"server": 1024}
        else:
            default_max_num_seqs = {"server": 256}
        return default_max_num_seqs
""",
    "config/cache.py": '''
CacheDType = Literal["auto", "fp8"]

class CacheConfig:
    """Docstring."""

    gpu_memory_utilization: float = 0.9

    def room(self, total):
        """Docstring."""
        return total * self.gpu_memory_utilization  # a comment
''',
    "model_executor/models/registry.py": """
_TEXT_GENERATION_MODELS = {
    "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),
    "OldForCausalLM": ("old", "OldForCausalLM"),
}
_PREVIOUSLY_SUPPORTED_MODELS = {}
""",
    "model_executor/models/interfaces.py": """
class SupportsLoRA:
    supports_lora = True
""",
    "model_executor/models/llama.py": """
from .interfaces import SupportsLoRA

class LlamaForCausalLM(SupportsLoRA):
    packed_modules_mapping = {"qkv_proj": ["q_proj", "k_proj", "v_proj"]}
""",
    "model_executor/layers/quantization/__init__.py": """
QuantizationMethods = Literal["awq", "fp8"]
""",
    "v1/attention/backends/registry.py": """
class AttentionBackendEnum(Enum):
    FLASH_ATTN = "vllm.v1.attention.backends.flash_attn.FlashAttentionBackend"
""",
    "v1/worker/gpu_worker.py": """
def determine_available_memory(log, size):
    log("Available KV cache memory: %s GiB", size)

def request_memory(total):
    return total
""",
}
NEW = {
    **OLD,
    "envs.py": """
environment_variables: dict = {
    "VLLM_KEPT": lambda: 1,
    "VLLM_NEW": lambda: 3,
}
""",
    "engine/arg_utils.py": OLD["engine/arg_utils.py"]
    .replace("    swap_space: float = 4\n", "    new_argument: bool = False\n")
    .replace("256", "128"),
    "config/cache.py": '''
CacheDType = Literal["auto", "fp8", "nvfp4"]

class CacheConfig:
    """Another docstring."""

    gpu_memory_utilization: float = 0.92

    def room(self, total):
        # Another comment, and another layout.
        return (
            total * self.gpu_memory_utilization
        )
''',
    "model_executor/models/registry.py": """
_TEXT_GENERATION_MODELS = {
    "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),
    "NewForCausalLM": ("llama", "LlamaForCausalLM"),
}
_PREVIOUSLY_SUPPORTED_MODELS = {"OldForCausalLM": "0.1.0"}
""",
    "model_executor/models/llama.py": """
from .interfaces import SupportsLoRA

class LlamaForCausalLM(SupportsLoRA):
    packed_modules_mapping = {"qkv_proj": ["q_proj", "k_proj", "v_proj"]}
    embedding_modules = {"embed_tokens": "input_embeddings"}
""",
    "model_executor/layers/quantization/__init__.py": """
QuantizationMethods = Literal["fp8", "humming"]
""",
    "v1/worker/gpu_worker.py": """
def determine_available_memory(log, size):
    log("KV cache memory: %s GiB", size)
""",
    "v1/worker/memory.py": """
def request_memory(total):
    return total
""",
}


def package(folder: Path, files: dict[str, str]) -> Path:
    """Write a package `vllm`, and return its folder."""
    root = folder / "vllm"
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root
