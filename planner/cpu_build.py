"""What vLLM's CPU build does otherwise than its CUDA build, before anything is loaded.

The attention backends lie in `memory.cpu_attention`, the account of a rank's memory in
`memory.cpu_account`.

Source: vLLM 0.29.0 to 0.33.0 `platforms/cpu.py` check_and_update_config.
"""

from __future__ import annotations

from planner.engine import EngineSettings
from planner.environment import Environment
from planner.errors import Refused, UnknownArchitecture
from planner.gpu import GPU
from planner.memory.cpu_attention import (
    CPUAttention,
    check_caches,
    serves_latent_plainly,
    state_dtype,
)
from planner.memory.kernels import Kernels
from planner.memory.kv_spec import AttentionSpec
from planner.model import ModelArchitecture
from planner.parallel import ParallelLayout
from planner.releases import Release
from planner.units import GIB

_LEAST_TOKENS = 2048
"""Source: vLLM 0.33.0 `config/scheduler.py` DEFAULT_MAX_NUM_BATCHED_TOKENS."""
_KNOWN_ARCHITECTURES = ("x86_64", "amd64", "aarch64", "arm64")


def check_cpu_build(  # noqa: PLR0913 - what a start is made of
    gpu: GPU,
    model: ModelArchitecture,
    settings: EngineSettings,
    env: Environment,
    layout: ParallelLayout,
    release: Release,
) -> None:
    """Leave out what is not modelled on a processor.

    Raises:
        UnknownArchitecture: naming the argument.
    """
    if not release.has_known_cpu_build:
        raise UnknownArchitecture(
            f"gpu='CPU' with vllm_version={release.version}: the rules of this "
            "release's CPU build are not modelled. 0.29.0 and later are."
        )
    processor = gpu.processor
    if processor is not None and processor.architecture not in _KNOWN_ARCHITECTURES:
        raise UnknownArchitecture(
            f"gpu='CPU': processors of {processor.architecture} are not modelled; "
            f"{', '.join(_KNOWN_ARCHITECTURES)} are."
        )
    for name, is_asked in (
        (f"quantization={model.quantization!r}", model.quantization is not None),
        ("tensor_parallel_size", layout.tensor_parallel_size > 1),
        ("pipeline_parallel_size", layout.pipeline_parallel_size > 1),
        ("data_parallel_size", layout.data_parallel_size > 1),
        ("decode_context_parallel_size", layout.decode_context_parallel_size > 1),
        ("enable_expert_parallel", layout.enable_expert_parallel),
        ("cpu_offload_gb", settings.cpu_offload_gb),
        ("kv_cache_dtype_skip_layers", settings.kv_cache_dtype_skip_layers),
        ("VLLM_USE_V2_MODEL_RUNNER", env.use_v2_model_runner),
    ):
        if is_asked:
            raise UnknownArchitecture(
                f"{name} with gpu='CPU' is not modelled. Leave it out."
            )
    check_caches(model, release)


def whole_prompts(max_model_len: int) -> int:
    """Return max_num_batched_tokens where prompts are read in one go."""
    return max(max_model_len, _LEAST_TOKENS)


def is_latent_plain(
    model: ModelArchitecture, gpu: GPU, settings: EngineSettings
) -> bool:
    """Return whether the plain kernel of latent attention serves the model."""
    return gpu.is_cpu and serves_latent_plainly(model, gpu, settings.attention_backend)


def recurrent_dtype(asked: str, model: ModelArchitecture, gpu: GPU) -> str:
    """Return mamba_ssm_cache_dtype as the device resolves it."""
    return state_dtype(asked, model, gpu) if gpu.is_cpu else asked


def cpu_kv_cache_bytes(fixed: int | None, gpu: GPU, env: Environment) -> int | None:
    """Return the KV cache that is fixed: VLLM_CPU_KVCACHE_SPACE goes first."""
    if not gpu.is_cpu or env.cpu_kv_cache_gib is None:
        return fixed
    return env.cpu_kv_cache_gib * GIB


def check_block_size(kernels: Kernels, model: ModelArchitecture, gpu: GPU) -> None:
    """Refuse blocks that the attention kernel cannot divide.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `v1/worker/utils.py` select_common_block_size.
    """
    if not gpu.is_cpu or model.has_latent_attention:
        return
    base = CPUAttention.step.base
    for _, spec in kernels.specs:
        if isinstance(spec, AttentionSpec) and spec.block_size % base:
            raise Refused(
                f"No common block size for {spec.block_size} "
                f"({CPUAttention.name}: [MultipleOf({base})])."
            )
