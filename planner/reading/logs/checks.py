"""vLLM's checks of memory, the stages of a start, and what each failure means.

Source: vLLM 0.33.0 `v1/engine/core.py` EngineCore (the order of the stages),
`v1/worker/gpu_worker.py` Worker; Docker 28, Kubernetes 1.34 and Ray 2 for what is
around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from planner.values import frozen


class Check(StrEnum):
    """What stopped a start, or a running engine."""

    FREE_MEMORY = "free memory"
    NO_KV = "no KV cache"
    MAX_MODEL_LEN = "max_model_len"
    TOO_LONG = "max_model_len refused"
    MAMBA = "Mamba cache blocks"
    GRAPHS = "CUDA graphs"
    WARM_UP = "warm-up"
    ALLOCATION = "allocation"
    CUDA = "CUDA out of memory"
    NEIGHBOUR = "another program on the GPU"
    NCCL = "NCCL"
    GPUS = "GPUs"
    PLACEMENT = "Ray placement"
    KILLED = "killed"
    OTHER = "other"


class StartStage(StrEnum):
    """How far a start came."""

    BEFORE = "before anything is loaded"
    LOADING = "while the weights are loaded"
    PROFILE = "in the profile run"
    SIZING = "when the KV cache is sized, after the profile run"
    CAPTURE = "after the KV cache was allocated: graph capture and warm-up"
    SERVING = "while it served requests"
    UNKNOWN = "at a stage that the text does not tell"


@frozen
class Failure:
    """Why a start, or a running engine, stopped."""

    check: Check
    stage: StartStage
    sentence: str
    """Which check failed, in one sentence."""
    arithmetic: tuple[str, ...] = ()
    """The check with the text's own figures."""
    others: tuple[str, ...] = ()
    """What else was on the GPU."""
    hints: tuple[str, ...] = ()
    """What to do that is no flag of vLLM."""
    missing_bytes: int | None = None
    """How much memory was short; None if the text does not tell."""


SENTENCES: Mapping[Check, str] = {
    Check.FREE_MEMORY: (
        "Before loading, vLLM compares the GPU's free memory with its budget, "
        "gpu_memory_utilization x the total: less was free."
    ),
    Check.NO_KV: (
        "After the profile run nothing of the budget is left for the KV cache: "
        "weights, activations and graphs take all of it."
    ),
    Check.MAX_MODEL_LEN: (
        "The KV cache must hold at least one request of max_model_len tokens: it is "
        "smaller than that."
    ),
    Check.TOO_LONG: "max_model_len is longer than the model's own configuration says.",
    Check.MAMBA: (
        "A block of the Mamba cache holds the state of one sequence, and each sequence "
        "that runs needs one to itself: there are fewer blocks than max_num_seqs."
    ),
    Check.GRAPHS: (
        "With the KV cache allocated, vLLM captures its CUDA graphs: they had no room. "
        "Only their estimate is charged to the budget, or nothing before 0.21; the "
        "rest has to be free outside of it."
    ),
    Check.WARM_UP: (
        "With everything allocated, vLLM samples for max_num_seqs requests at once: "
        "their logits had no room. This memory is outside of the budget."
    ),
    Check.ALLOCATION: "PyTorch could not allocate: the GPU was full.",
    Check.CUDA: "CUDA itself could not allocate: the GPU was full.",
    Check.NEIGHBOUR: (
        "While vLLM profiled, another program gave memory of the same GPU back. vLLM "
        "measures the whole GPU, and takes the difference for its own use."
    ),
    Check.NCCL: "NCCL, which connects the GPUs, failed.",
    Check.GPUS: "vLLM was asked to use more GPUs than it sees.",
    Check.PLACEMENT: "Ray could not place the workers: no node has what they ask for.",
    Check.KILLED: (
        "The system ended the process (SIGKILL), as it does when the CPU memory of "
        "the machine or the container is full. The GPU's memory is not the cause."
    ),
    Check.OTHER: "vLLM stopped, and not at one of its checks of memory.",
}

NEIGHBOUR_HINT = (
    "Start one after the other: the second when the first answers, and with what is "
    "then free. Or set --kv-cache-memory-bytes: vLLM then takes that much for the KV "
    "cache, whatever is measured."
)

HINTS: Mapping[Check, tuple[str, ...]] = {
    Check.KILLED: (
        "Give the container more memory (docker run --memory, "
        "resources.limits.memory) and shared memory (--ipc=host, --shm-size 16g, an "
        "emptyDir of medium Memory at /dev/shm): all workers together read the "
        "checkpoint, and its pages count.",
        "Fewer workers load at once with --max-parallel-loading-workers; "
        "--safetensors-load-strategy lazy does not read a checkpoint ahead.",
        "Exit code 137 without OOMKilled may also be a liveness or startup probe that "
        "waits for less time than the start takes.",
    ),
    Check.NEIGHBOUR: (NEIGHBOUR_HINT,),
    Check.NCCL: (
        "NCCL_DEBUG=INFO names the cause. Usual: too little shared memory (--ipc=host "
        "or --shm-size 16g), a GPU that another process filled, no route between the "
        "GPUs (--disable-custom-all-reduce, NCCL_P2P_DISABLE=1 to find out).",
    ),
    Check.GPUS: (
        "Grant the container all of its GPUs (docker run --gpus all, nvidia.com/gpu), "
        "or lower --tensor-parallel-size.",
    ),
    Check.PLACEMENT: (
        "`ray status` shows what the nodes have. Each worker needs a GPU of its own; "
        "tensor parallel x pipeline parallel of them must be free at once.",
    ),
}
