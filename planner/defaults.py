"""What vLLM fills in where the user typed nothing.

Source of all rules: vLLM 0.33.0 `engine/arg_utils.py` get_batch_defaults and
_set_default_max_num_seqs_and_batched_tokens_args; `config/vllm.py`
_set_cudagraph_sizes; `config/model.py` _get_and_verify_max_len, _resolve_auto_dtype.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from planner.dtypes import canonical_dtype
from planner.engine import EngineSettings
from planner.environment import Environment
from planner.errors import PlannerError, Refused, RefusedArgument
from planner.gpu import GPU
from planner.memory.towers import least_batched_tokens
from planner.model import ModelArchitecture
from planner.parallel import DATACENTER_BLACKWELL, ParallelLayout
from planner.releases import NEWEST_RELEASE, Release
from planner.units import GIB, parse_size

ENTRYPOINTS = ("serve", "llm")
_EIGHTS_FROM, _SIXTEENS_FROM = 8, 256
_UNSCALED_ROPE = (
    "default",
    "su",
    "longrope",
    "llama3",
    "yarn",
    "deepseek_yarn",
    "deepseek_llama_scaling",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSettings:
    """Engine arguments after vLLM's defaults."""

    dtype: str
    quantization: str | None
    kv_cache_dtype: str
    max_model_len: int
    is_max_model_len_auto: bool
    """Whether vLLM shortens max_model_len to what fits."""
    max_num_seqs: int
    max_num_batched_tokens: int
    gpu_memory_utilization: float
    kv_cache_memory_bytes: int | None
    num_gpu_blocks_override: int | None
    block_size: int
    mamba_block_size: int | None
    """Tokens in a block of layers that keep states; None without such layers."""
    tensor_parallel_size: int
    pipeline_parallel_size: int
    data_parallel_size: int
    decode_context_parallel_size: int
    enable_expert_parallel: bool
    enforce_eager: bool
    cudagraph_capture_sizes: tuple[int, ...]
    max_cudagraph_capture_size: int
    performance_mode: str
    async_scheduling: bool
    enable_prefix_caching: bool
    enable_chunked_prefill: bool

    @property
    def max_concurrent_batches(self) -> int:
        """Batches between scheduling and settling: one a stage, one more in advance.

        Source: vLLM 0.33.0 `config/vllm.py` max_concurrent_batches.
        """
        return self.pipeline_parallel_size + int(self.async_scheduling)

    @property
    def world_size(self) -> int:
        """GPUs of one engine: tensor x pipeline parallel."""
        return self.tensor_parallel_size * self.pipeline_parallel_size


def layout_of(
    settings: EngineSettings, env: Environment, gpu: GPU, release: Release
) -> ParallelLayout:
    """Return the ranks that the settings ask for."""
    return ParallelLayout(
        tensor_parallel_size=settings.tensor_parallel_size or 1,
        pipeline_parallel_size=settings.pipeline_parallel_size or 1,
        data_parallel_size=settings.data_parallel_size or 1,
        decode_context_parallel_size=settings.decode_context_parallel_size or 1,
        enable_expert_parallel=bool(settings.enable_expert_parallel),
        pp_layer_partition=env.pp_layer_partition,
        compute_capability=gpu.compute_capability,
        num_sms=gpu.num_sms or 0,
        release=release,
    )


def batch_defaults(
    gpu: GPU, entrypoint: str, release: Release = NEWEST_RELEASE
) -> tuple[int, int]:
    """Return max_num_batched_tokens and max_num_seqs for a GPU and entry point.

    Raises:
        PlannerError: for an unknown entry point.
    """
    if entrypoint not in ENTRYPOINTS:
        raise PlannerError(
            f"entrypoint={entrypoint!r}: use serve (vllm serve) or llm (the LLM class)."
        )
    is_server = entrypoint == "serve"
    memory_bytes = gpu.nvml_memory_bytes or gpu.total_memory_bytes
    if release.has_large_gpu_batch and memory_bytes >= 160 * GIB:
        return 16384, 1024
    is_large = memory_bytes >= 70 * GIB and "a100" not in gpu.device_name.lower()
    if is_large and gpu.compute_capability != (12, 1):
        return (8192 if is_server else 16384), 1024
    return (2048 if is_server else 8192), 256


def resolve_dtype(asked: str | None, model: ModelArchitecture, gpu: GPU) -> str:
    """Return the dtype of weights and activations.

    Raises:
        PlannerError: for a dtype vLLM does not know.
        Refused: where vLLM refuses float16 for the model type.
    """
    supported = ["bfloat16", "float16", "float32"]
    if gpu.compute_capability < (8, 0):
        supported = ["float16", "float32"]
    if asked is None or asked.lower() == "auto":
        usable = [d for d in supported if d != "float16" or not model.float16_refusal]
        preferred = usable[0]
        if model.is_pooling and "float16" in usable:
            preferred = "float16"
        published = canonical_dtype(model.config_dtype)
        return (
            published if published != "float32" and published in usable else preferred
        )
    dtype = canonical_dtype(asked)
    if dtype == "float16" and model.float16_refusal:
        raise Refused(
            f"The model type '{model.model_type}' does not support float16. "
            f"Reason: {model.float16_refusal}"
        )
    return dtype


def resolve_kv_cache_dtype(asked: str | None, model: ModelArchitecture) -> str:
    """Return the KV cache's dtype: a quantised checkpoint may have chosen it.

    Source: vLLM 0.33.0 `utils/torch_utils.py` resolve_kv_cache_dtype_string;
    `layers/attention/attention.py` Attention.__init__ (kv_cache_scheme).
    """
    if asked is not None and asked != "auto":
        return asked
    return model.quantization_limits.kv_cache_dtype or "auto"


def model_kv_cache_dtype(
    kv_cache_dtype: str, model: ModelArchitecture, gpu: GPU
) -> str:
    """Return the KV cache dtype as a model class changes it.

    Source: vLLM 0.33.0 `models/config.py` DeepseekV32ForCausalLM, GlmMoeDsaForCausalLM,
    Glm5NextModelConfig verify_and_update_config.
    """
    name = model.architecture
    if name == "DeepseekV32ForCausalLM" and kv_cache_dtype == "bfloat16":
        return "auto"
    is_blackwell = gpu.compute_capability[0] == DATACENTER_BLACKWELL
    if name == "GlmMoeDsaForCausalLM" and kv_cache_dtype == "auto" and is_blackwell:
        return "fp8_e4m3"
    if name.startswith("Glm5Next") and kv_cache_dtype == "auto" and is_blackwell:
        return "fp8"
    return kv_cache_dtype


def derived_max_model_len(model: ModelArchitecture, release: Release) -> float:
    """Return the length the config allows, infinite when it names none."""
    derived = model.max_position_embeddings
    if "gemma3" in model.model_type:
        return derived
    scaling = 1.0
    for rope in model.rope_parameters:
        if rope.rope_type == "yarn" and release.stretches_yarn:
            derived = rope.original_max_position_embeddings or derived
        elif rope.rope_type in _UNSCALED_ROPE:
            continue
        scaling = 1.0 if rope.factor is None else rope.factor
    return derived * scaling


def resolve_max_model_len(
    asked: int | str | None,
    model: ModelArchitecture,
    env: Environment,
    release: Release = NEWEST_RELEASE,
) -> int:
    """Return max_model_len before any fitting to memory.

    Raises:
        RefusedArgument: when the user asks for more than the model was made for.
    """
    derived = derived_max_model_len(model, release)
    wanted = None if asked in (None, "auto", -1) else int(asked)
    if derived == inf:
        return wanted or 2048
    if wanted is None:
        is_longrope = any(r.rope_type == "longrope" for r in model.rope_parameters)
        if is_longrope and model.original_max_position_embeddings:
            return model.original_max_position_embeddings
        return int(derived)
    if wanted > derived:
        _refuse_long(wanted, derived, model, env)
    return wanted


def _refuse_long(
    wanted: int, derived: float, model: ModelArchitecture, env: Environment
) -> None:
    limit = model.model_max_length
    if (limit is not None and wanted <= limit) or env.allow_long_max_model_len:
        return
    raise RefusedArgument(
        f"User-specified max_model_len ({wanted}) is greater than the derived "
        f"max_model_len ({model.max_len_key}={_as_vllm_prints(derived, model)} or "
        f"model_max_length={limit} in model's config.json). To allow overriding this "
        "maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1. "
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN must be used with extreme caution. If the model "
        "uses relative position encoding (RoPE), positions exceeding "
        "derived_max_model_len lead to nan. If the model uses absolute position "
        "encoding, positions exceeding derived_max_model_len will cause a CUDA array "
        "out-of-bounds error."
    )


def _as_vllm_prints(derived: float, model: ModelArchitecture) -> str:
    # vLLM multiplies by a float scaling factor wherever the model has RoPE.
    is_scaled = model.rope_parameters and "gemma3" not in model.model_type
    return str(float(derived)) if is_scaled else str(int(derived))


def resolve_batch(
    settings: EngineSettings,
    model: ModelArchitecture,
    batch: tuple[int, int],
    max_model_len: int,
) -> tuple[int, int]:
    """Return max_num_batched_tokens and max_num_seqs.

    `batch` is the two as `batch_defaults` has them.
    """
    tokens, seqs = batch
    if settings.performance_mode == "throughput":
        tokens, seqs = 2 * tokens, 2 * seqs
    seqs = settings.max_num_seqs or seqs
    if settings.max_num_batched_tokens is not None:
        tokens = settings.max_num_batched_tokens
    else:
        if not chunked_prefill(settings, model):
            tokens = max(max_model_len, tokens)
        tokens = max(tokens, least_batched_tokens(model, settings))
        tokens = min(seqs * max_model_len, tokens)
    if settings.max_num_seqs is None:
        seqs = min(seqs, tokens)
    return tokens, seqs


def chunked_prefill(settings: EngineSettings, model: ModelArchitecture) -> bool:
    """Return whether long prompts are split over several steps."""
    if settings.enable_chunked_prefill is not None:
        return settings.enable_chunked_prefill
    return not (model.is_encoder_only or model.is_encoder_decoder)


def prefix_caching(settings: EngineSettings, model: ModelArchitecture) -> bool:
    """Return whether blocks are kept for prompts with the same beginning."""
    if settings.enable_prefix_caching is not None:
        return settings.enable_prefix_caching
    return not (
        model.is_encoder_only or model.is_attention_free or model.is_encoder_decoder
    )


def async_scheduling(
    settings: EngineSettings, model: ModelArchitecture, release: Release
) -> bool:
    """Return whether a second batch is prepared while one runs."""
    if settings.async_scheduling is not None:
        return settings.async_scheduling
    return release.schedules_ahead and not model.is_pooling


def hybrid_manager(
    settings: EngineSettings, model: ModelArchitecture, env: Environment
) -> bool:
    """Return whether layers of several kinds keep what each of them needs.

    Raises:
        Refused: when it is asked for where vLLM has switched it off.

    Source: vLLM 0.33.0 `config/vllm.py` VllmConfig.__post_init__.
    """
    asked = settings.disable_hybrid_kv_cache_manager
    has_chunks = model.attention_chunk_size is not None
    is_off = has_chunks and not env.allow_chunked_local_attention
    if asked is None:
        return not is_off
    if asked is False and is_off:
        raise Refused(
            "Hybrid KV cache manager was explicitly enabled but is not supported in "
            "this configuration. Consider omitting the "
            "--enable-hybrid-kv-cache-manager flag to let vLLM decide automatically."
        )
    return not asked


def capture_sizes(
    settings: EngineSettings,
    gpu: GPU,
    *,
    max_num_seqs: int,
    max_num_batched_tokens: int,
) -> tuple[int, ...]:
    """Return the batch sizes for which CUDA graphs are captured.

    Raises:
        Refused: when both size arguments are given and disagree, or allow no graph.
    """
    if settings.enforce_eager:
        return ()
    limit = settings.max_cudagraph_capture_size
    uniform: tuple[int, ...] = ()
    if limit is None:
        is_blackwell = gpu.compute_capability[0] == DATACENTER_BLACKWELL
        ceiling = 1024 if is_blackwell else 512
        limit = min(max_num_seqs * 2, ceiling)
        uniform = (max_num_seqs,) if max_num_seqs <= limit else ()
    limit = min(max_num_batched_tokens, limit)
    if limit < 1:
        raise Refused(
            "Maximum cudagraph size should be greater than or equal to 1 when using "
            "cuda graph."
        )
    if settings.cudagraph_capture_sizes is not None:
        sizes = {
            s for s in settings.cudagraph_capture_sizes if s <= max_num_batched_tokens
        }
    else:
        sizes = _default_sizes(settings.performance_mode, limit)
        if max_num_batched_tokens <= limit:
            sizes.add(max_num_batched_tokens)
        sizes.update(size for size in uniform if size <= max_num_batched_tokens)
    _check_sizes(settings, max(sizes, default=0))
    return tuple(sorted(sizes))


def _default_sizes(performance_mode: str | None, limit: int) -> set[int]:
    if performance_mode == "interactivity":
        sizes = set(range(1, min(limit, 32) + 1))
    else:
        sizes = {size for size in (1, 2, 4) if size <= limit}
    if limit >= _EIGHTS_FROM:
        sizes.update(range(_EIGHTS_FROM, min(limit + 1, _SIXTEENS_FROM), 8))
    if limit >= _SIXTEENS_FROM:
        sizes.update(range(_SIXTEENS_FROM, limit + 1, 16))
    return sizes


def _check_sizes(settings: EngineSettings, largest: int) -> None:
    asked = settings.max_cudagraph_capture_size
    if settings.cudagraph_capture_sizes is None or asked in (None, largest):
        return
    raise Refused(
        f"customized max_cudagraph_capture_size(={asked}) should be consistent with "
        f"the max value of cudagraph_capture_sizes(={largest})"
    )


def kv_cache_bytes(asked: int | str | None) -> int | None:
    """Return kv_cache_memory_bytes as a number of bytes, None where it says nothing.

    As in vLLM 0 is the same as not given, and a negative size leaves no room.

    Raises:
        PlannerError: when the size cannot be read.

    Source: vLLM 0.33.0 `v1/worker/gpu_worker.py` determine_available_memory.
    """
    if asked is None:
        return None
    size_bytes = parse_size(asked) if isinstance(asked, str) else asked
    # A caller without a type checker may hand over anything.
    if type(size_bytes) is not int:
        raise PlannerError(
            f"kv_cache_memory_bytes={asked!r}: whole bytes are needed, or a size such "
            "as 20GiB."
        )
    return size_bytes or None
