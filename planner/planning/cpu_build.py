"""What vLLM's CPU build resolves and refuses before anything is loaded.

Its attention backends are in `memory.kv_cache.cpu_attention`, the account of a rank's
memory in `memory.cpu_account`.

Source: vLLM 0.29.0 to 0.33.0 `platforms/cpu.py` check_and_update_config.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.engine.gpu import GPU
from planner.engine.releases.change import Change
from planner.engine.settings import attention_backend
from planner.errors import Refused, UnknownArchitecture
from planner.memory.kv_cache.kernels import Kernels
from planner.memory.kv_cache.kv_spec import AttentionSpec
from planner.models.architecture import ModelArchitecture
from planner.planning.defaults import kv_cache_bytes
from planner.units import GIB

if TYPE_CHECKING:
    from planner.planning.resolve import Question

_LEAST_WHOLE_PROMPT_TOKENS = 2048
"""Least max_num_batched_tokens where prompts are not split.

Source: vLLM 0.33.0 `config/scheduler.py` DEFAULT_MAX_NUM_BATCHED_TOKENS.
"""
_CPU_ARCHITECTURES = ("x86_64", "amd64", "aarch64", "arm64")
_CPU_BUILD = Change(
    since=(0, 29),
    what=(
        "The CPU build of vLLM starts as from 0.29.0, the oldest release whose CPU "
        "build is modelled."
    ),
    source="vLLM 0.29.0 `platforms/cpu.py`, `v1/worker/cpu_worker.py`",
)


def check_cpu_build(question: Question) -> None:
    """Reject starts on a CPU that are not modelled.

    Raises:
        UnknownArchitecture: naming the release, the processor or the argument.
    """
    release, layout, settings = question.release, question.layout, question.settings
    if not release.has(_CPU_BUILD):
        raise UnknownArchitecture(
            f"gpu='CPU' with vllm_version={release.version}: the rules of this "
            "release's CPU build are not modelled. 0.29.0 and later are."
        )
    processor, model = question.gpu.processor, question.model
    if processor is not None and processor.architecture not in _CPU_ARCHITECTURES:
        raise UnknownArchitecture(
            f"gpu='CPU': processors of {processor.architecture} are not modelled; "
            f"{', '.join(_CPU_ARCHITECTURES)} are."
        )
    for name, is_given in (
        (f"quantization={model.quantization!r}", model.quantization is not None),
        ("tensor_parallel_size", layout.tensor_parallel_size > 1),
        ("pipeline_parallel_size", layout.pipeline_parallel_size > 1),
        ("data_parallel_size", layout.data_parallel_size > 1),
        ("decode_context_parallel_size", layout.decode_context_parallel_size > 1),
        ("enable_expert_parallel", layout.enable_expert_parallel),
        ("cpu_offload_gb", settings.cpu_offload_gb),
        ("kv_cache_dtype_skip_layers", settings.kv_cache_dtype_skip_layers),
        ("VLLM_USE_V2_MODEL_RUNNER", question.env.use_v2_model_runner),
    ):
        if is_given:
            raise UnknownArchitecture(
                f"{name} with gpu='CPU' is not modelled. Leave it out."
            )
    from planner.memory.kv_cache import cpu_attention  # noqa: PLC0415 - the CPU build only

    cpu_attention.check_caches(model, release)


def whole_prompts(max_model_len: int) -> int:
    """Return max_num_batched_tokens where prompts are not split."""
    return max(max_model_len, _LEAST_WHOLE_PROMPT_TOKENS)


def is_latent_plain(question: Question) -> bool:
    """Whether the plain kernel of latent attention serves the model."""
    if not question.gpu.is_cpu:
        return False
    from planner.memory.kv_cache import cpu_attention  # noqa: PLC0415 - the CPU build only

    backend = attention_backend(question.settings)
    return cpu_attention.serves_latent_plainly(question.model, question.gpu, backend)


def recurrent_dtype(question: Question) -> str:
    """Return mamba_ssm_cache_dtype as the device resolves it."""
    requested = question.settings.mamba_ssm_cache_dtype or "auto"
    if not question.gpu.is_cpu:
        return requested
    from planner.memory.kv_cache import cpu_attention  # noqa: PLC0415 - the CPU build only

    return cpu_attention.state_dtype(requested, question.model, question.gpu)


def cpu_kv_cache_bytes(question: Question) -> int | None:
    """Return the KV cache's fixed size; VLLM_CPU_KVCACHE_SPACE takes precedence."""
    given = kv_cache_bytes(question.settings.kv_cache_memory_bytes)
    size = question.env.cpu_kv_cache_gib
    return size * GIB if question.gpu.is_cpu and size is not None else given


def check_block_size(kernels: Kernels, model: ModelArchitecture, gpu: GPU) -> None:
    """Refuse block sizes that the attention kernel cannot divide.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `v1/worker/utils.py` select_common_block_size.
    """
    if not gpu.is_cpu or model.has_latent_attention:
        return
    from planner.memory.kv_cache import cpu_attention  # noqa: PLC0415 - the CPU build only

    backend = cpu_attention.CPUAttention
    base = backend.step.base
    for _, spec in kernels.specs:
        if isinstance(spec, AttentionSpec) and spec.block_size % base:
            raise Refused(
                f"No common block size for {spec.block_size} "
                f"({backend.name}: [MultipleOf({base})])."
            )
