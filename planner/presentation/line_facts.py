"""What each memory line is, in plain words, and where vLLM decides it."""

from __future__ import annotations

from dataclasses import dataclass

SOURCES = "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/"


@dataclass(frozen=True, slots=True)
class LineFacts:
    """A memory line, for the reader who asks what it is and who says so."""

    meaning: str
    file: str = ""
    """In vLLM 0.33.0's sources; empty where no code of vLLM decides the figure."""
    symbol: str = ""

    @property
    def address(self) -> str:
        """Where the file can be read."""
        return f"{SOURCES}{self.file}" if self.file else ""


_RUNNER = "v1/worker/gpu/model_runner.py"
_WORKER = "v1/worker/gpu_worker.py"

LINE_FACTS = {
    "weights": LineFacts(
        "The model's parameters as one GPU holds them after loading.",
        _RUNNER,
        "load_model",
    ),
    "persistent buffers": LineFacts(
        "Inputs and sampling state of every request slot, made once and kept.",
        "v1/worker/gpu/states.py",
        "RequestState",
    ),
    "peak activation": LineFacts(
        "The most that one step needs beside all that stays: vLLM runs its largest "
        "batch once to find out.",
        _RUNNER,
        "profile_run",
    ),
    "non-torch": LineFacts(
        "Memory that PyTorch does not hand out: loaded kernels, NCCL, the driver.",
        "utils/mem_utils.py",
        "memory_profiling",
    ),
    "CUDA graphs": LineFacts(
        "Recorded steps that are replayed without the CPU; vLLM measures two of them "
        "and reserves for all.",
        _RUNNER,
        "profile_cudagraph_memory",
    ),
    "frontend video decoding": LineFacts(
        "Room for videos that API servers decode on the GPU, off the KV cache.",
        "multimodal/gpu_ipc_memory.py",
        "reserve_mm_ipc_gpu_memory",
    ),
    "KV cache": LineFacts(
        "What is left of the budget: keys and values of the tokens in work.",
        _WORKER,
        "determine_available_memory",
    ),
    "not planned": LineFacts(
        "Requested memory that a fixed kv_cache_memory_bytes leaves to no one.",
        _WORKER,
        "determine_available_memory",
    ),
    "CUDA context": LineFacts(
        "What the driver takes for the process before vLLM looks at the free memory.",
        _WORKER,
        "init_device",
    ),
    "block tables": LineFacts(
        "Which blocks belong to which request; made after the KV cache was sized.",
        "v1/worker/gpu/block_table.py",
        "BlockTables",
    ),
    "attention workspaces": LineFacts(
        "Scratch memory of the attention kernels, taken at their first use.",
        "envs.py",
        "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE",
    ),
}
"""By the name of the line."""
