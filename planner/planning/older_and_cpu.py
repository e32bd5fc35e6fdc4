"""Starts with rules of their own: vLLM's first engine (V0) and its CPU build.

vLLM 0.9.2 to 0.10.2 run some models with V0, which is not modelled. The CPU build
differs from the CUDA build before anything is loaded; its attention backends are in
`memory.kv_cache.cpu_attention`, the account of a rank's memory in `memory.cpu_account`.

Source: vLLM 0.9.2 to 0.10.2 `engine/arg_utils.py` _is_v1_supported_oracle; 0.29.0 to
0.33.0 `platforms/cpu.py` check_and_update_config.
"""

from __future__ import annotations

from planner.engine.environment import Environment
from planner.engine.generations import AMPERE, DATACENTER_BLACKWELL, HOPPER
from planner.engine.gpu import GPU
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.engine.settings import EngineSettings, attention_backend
from planner.errors import Refused, UnknownArchitecture
from planner.memory.kv_cache.kernels import Kernels
from planner.memory.kv_cache.kv_spec import AttentionSpec
from planner.models.architecture import ModelArchitecture
from planner.units import GIB

_BLOOM = "BloomForCausalLM"
_ONLY_V1 = Change(
    since=(0, 11),
    what="V1 is the only engine.",
    source="vLLM 0.9.2 to 0.10.2 `engine/arg_utils.py` _is_v1_supported_oracle",
)
_RUNS_STATES_V1 = Change(
    since=(0, 10, 2),
    what="V1 serves models with states, encoder-decoder models and GPUs before Ampere.",
    source="vLLM 0.9.2 to 0.10.2 `engine/arg_utils.py` _is_v1_supported_oracle",
)
_RUNS_ENCODERS_V1 = Change(
    since=(0, 10, 1),
    what="V1 serves encoders without a KV cache.",
    source="vLLM 0.9.2 to 0.10.2 `engine/arg_utils.py` _is_v1_supported_oracle",
)
_KEEPS_FP8_ON_BLACKWELL = Change(
    since=(0, 10),
    what="V1 supports an FP8 KV cache on B200.",
    source="vLLM 0.10.0 `platforms/cuda.py` is_kv_cache_dtype_supported",
)
_KEEPS_LATENT_FP8 = Change(
    since=(0, 10, 2),
    what="V1 supports an FP8 KV cache of latent attention on every GPU.",
    source="vLLM 0.10.2 `platforms/cuda.py` is_kv_cache_dtype_supported",
)
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


def check_engine(
    settings: EngineSettings, model: ModelArchitecture, gpu: GPU, release: Release
) -> None:
    """Reject starts that the release runs with V0.

    Raises:
        UnknownArchitecture: naming what V1 did not support yet.
    """
    if release.has(_ONLY_V1):
        return
    reason = _served_by_v0(settings, model, gpu, release)
    if reason is not None:
        raise UnknownArchitecture(
            f"vLLM {release.version} serves {reason} with its first engine (V0), which "
            "is not modelled. Plan vllm_version='0.11.0' or later."
        )


def _served_by_v0(
    settings: EngineSettings, model: ModelArchitecture, gpu: GPU, release: Release
) -> str | None:
    requested = settings.kv_cache_dtype
    if requested not in (None, "auto") and not _keeps_fp8(model, gpu, release):
        return f"kv_cache_dtype={requested!r} on {gpu.name}"
    if model.is_encoder_only and not release.has(_RUNS_ENCODERS_V1):
        return f"{model.architecture} (an encoder)"
    if release.has(_RUNS_STATES_V1):
        return None
    major, minor = gpu.compute_capability
    kinds = (
        (major < AMPERE.major, f"GPUs of compute capability {major}.{minor}"),
        (model.state_layers, f"{model.architecture} (it keeps states)"),
        (model.is_encoder_decoder, model.architecture),
        (model.architecture == _BLOOM, _BLOOM),
    )
    return next((text for is_it, text in kinds if is_it), None)


def _keeps_fp8(model: ModelArchitecture, gpu: GPU, release: Release) -> bool:
    """Whether V1's kernels support an FP8 cache: at first only those of Hopper."""
    if gpu.compute_capability == DATACENTER_BLACKWELL:
        return release.has(_KEEPS_FP8_ON_BLACKWELL)
    if model.has_latent_attention and release.has(_KEEPS_LATENT_FP8):
        return True
    return gpu.compute_capability[0] == HOPPER.major


def check_cpu_build(  # noqa: PLR0913 - what a start is made of
    gpu: GPU,
    model: ModelArchitecture,
    settings: EngineSettings,
    env: Environment,
    layout: ParallelLayout,
    release: Release,
) -> None:
    """Reject starts on a CPU that are not modelled.

    Raises:
        UnknownArchitecture: naming the release, the processor or the argument.
    """
    if not release.has(_CPU_BUILD):
        raise UnknownArchitecture(
            f"gpu='CPU' with vllm_version={release.version}: the rules of this "
            "release's CPU build are not modelled. 0.29.0 and later are."
        )
    processor = gpu.processor
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
        ("VLLM_USE_V2_MODEL_RUNNER", env.use_v2_model_runner),
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


def is_latent_plain(
    model: ModelArchitecture, gpu: GPU, settings: EngineSettings
) -> bool:
    """Whether the plain kernel of latent attention serves the model."""
    if not gpu.is_cpu:
        return False
    from planner.memory.kv_cache import cpu_attention  # noqa: PLC0415 - the CPU build only

    backend = attention_backend(settings)
    return cpu_attention.serves_latent_plainly(model, gpu, backend)


def recurrent_dtype(requested: str, model: ModelArchitecture, gpu: GPU) -> str:
    """Return mamba_ssm_cache_dtype as the device resolves it."""
    if not gpu.is_cpu:
        return requested
    from planner.memory.kv_cache import cpu_attention  # noqa: PLC0415 - the CPU build only

    return cpu_attention.state_dtype(requested, model, gpu)


def cpu_kv_cache_bytes(fixed: int | None, gpu: GPU, env: Environment) -> int | None:
    """Return the KV cache's fixed size; VLLM_CPU_KVCACHE_SPACE takes precedence."""
    if not gpu.is_cpu or env.cpu_kv_cache_gib is None:
        return fixed
    return env.cpu_kv_cache_gib * GIB


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
