"""What vLLM fills in where the user typed nothing.

Source of all rules: vLLM 0.33.0 `engine/arg_utils.py` get_batch_defaults and
_set_default_max_num_seqs_and_batched_tokens_args; `config/model.py`
_resolve_auto_dtype.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.dtypes import canonical_dtype
from planner.engine import EngineSettings
from planner.environment import Environment
from planner.errors import PlannerError, Refused, UnknownArchitecture
from planner.gpu import GPU
from planner.memory.eplb import redundant_experts
from planner.memory.towers import least_batched_tokens
from planner.model import ModelArchitecture
from planner.parallel import DATACENTER_BLACKWELL, UNIFIED, ParallelLayout
from planner.releases import NEWEST_RELEASE, Release
from planner.states import Mamba1State, Mamba2State
from planner.units import GIB, parse_size

ENTRYPOINTS = ("serve", "llm", "engine")
ENGINE_BATCH = (2048, 128)
"""What the scheduler's configuration has, whatever the GPU."""


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
    cudagraph_mode: str
    """Of what CUDA graphs are captured, by vLLM's name."""
    is_compiled: bool
    """Whether vLLM compiles the model."""
    may_fuse_all_reduce: bool
    """Whether compilation may fuse all-reduce with the norm behind it."""
    performance_mode: str
    async_scheduling: bool
    uses_v2_model_runner: bool
    """Which of vLLM's two model runners serves the model."""
    enable_prefix_caching: bool
    enable_chunked_prefill: bool

    @property
    def max_concurrent_batches(self) -> int:
        """Batches between scheduling and settling: one a stage, one more in advance.

        The first model runner prepares none in advance where there are stages.

        Source: vLLM 0.33.0 `config/vllm.py` max_concurrent_batches.
        """
        stages = self.pipeline_parallel_size
        is_ahead = self.uses_v2_model_runner or stages == 1
        return stages + int(self.async_scheduling and is_ahead)

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
        enable_eplb=bool(settings.enable_eplb),
        num_redundant_experts=redundant_experts(settings),
        pp_layer_partition=env.pp_layer_partition,
        compute_capability=gpu.compute_capability,
        num_sms=gpu.num_sms or 0,
        enable_lora=bool(settings.enable_lora),
        release=release,
    )


def check_entrypoint(entrypoint: str) -> None:
    """Refuse an entry point that vLLM does not have.

    Raises:
        PlannerError: naming those that there are.
    """
    if entrypoint not in ENTRYPOINTS:
        raise PlannerError(
            f"entrypoint={entrypoint!r}: use serve (vllm serve), llm (the LLM class) "
            "or engine (the async engine itself, as Ray Data LLM starts it)."
        )


def batch_defaults(
    gpu: GPU, entrypoint: str, release: Release = NEWEST_RELEASE
) -> tuple[int, int]:
    """Return max_num_batched_tokens and max_num_seqs for a GPU and entry point.

    vLLM looks at the GPU for its server and its class alone: who starts the async
    engine gets the scheduler's own defaults.

    Raises:
        PlannerError: for an unknown entry point.

    Source: vLLM 0.33.0 `v1/engine/async_llm.py` AsyncLLM.from_engine_args
    (UsageContext.ENGINE_CONTEXT); `config/scheduler.py` SchedulerConfig.
    """
    check_entrypoint(entrypoint)
    if entrypoint == "engine":
        return ENGINE_BATCH
    is_server = entrypoint == "serve"
    if gpu.is_cpu:
        return (2048, 128) if is_server else (4096, 256)
    memory_bytes = gpu.nvml_memory_bytes or gpu.total_memory_bytes
    if gpu.compute_capability in UNIFIED:
        memory_bytes = 0  # NVML cannot tell it there, and vLLM goes on without
    if release.has_large_gpu_batch and memory_bytes >= 160 * GIB:
        return 16384, 1024
    is_large = memory_bytes >= 70 * GIB and "a100" not in gpu.device_name.lower()
    if is_large:
        return (8192 if is_server else 16384), 1024
    return (2048 if is_server else 8192), 256


def resolve_dtype(asked: str | None, model: ModelArchitecture, gpu: GPU) -> str:
    """Return the dtype of weights and activations.

    Raises:
        PlannerError: for a dtype vLLM does not know.
        Refused: where vLLM refuses float16 for the model type.
    """
    supported = ["bfloat16", "float16", "float32"]
    if not gpu.is_cpu and gpu.compute_capability < (8, 0):
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


def resolve_kv_cache_dtype(
    asked: str | None, model: ModelArchitecture, release: Release = NEWEST_RELEASE
) -> str:
    """Return the KV cache's dtype: a quantised checkpoint may have chosen it.

    Source: vLLM 0.33.0 `utils/torch_utils.py` resolve_kv_cache_dtype_string;
    `layers/attention/attention.py` Attention.__init__ (kv_cache_scheme).
    """
    chosen = model.quantization_limits.kv_cache_dtype or "auto"
    if model.quantization == "compressed-tensors":
        is_read = release.reads_compressed_kv_dtype
        if is_read and chosen != "auto" and not release.asked_kv_dtype_wins:
            return chosen
    elif chosen.startswith("nvfp4"):
        is_read = release.reads_modelopt_nvfp4_kv_dtype
    else:
        is_read = release.reads_modelopt_kv_dtype
    if asked is not None and asked != "auto":
        return asked
    return chosen if is_read else "auto"


def model_kv_cache_dtype(
    kv_cache_dtype: str,
    model: ModelArchitecture,
    gpu: GPU,
    release: Release = NEWEST_RELEASE,
) -> str:
    """Return the KV cache dtype as a model class changes it.

    Source: vLLM 0.33.0 `models/config.py` DeepseekV32ForCausalLM, GlmMoeDsaForCausalLM,
    Glm5NextModelConfig verify_and_update_config.
    """
    name = model.architecture
    if name == "DeepseekV32ForCausalLM" and kv_cache_dtype == "bfloat16":
        return "auto"
    if name == "DeepseekV32ForCausalLM":
        is_packed = release.packs_sparse_by_default and kv_cache_dtype == "auto"
        if is_packed or (release.packs_sparse_fp8 and kv_cache_dtype.startswith("fp8")):
            return "fp8_ds_mla"
    is_blackwell = gpu.compute_capability[0] == DATACENTER_BLACKWELL
    is_auto_fp8 = is_blackwell and release.keeps_glm_fp8_on_blackwell
    if name == "GlmMoeDsaForCausalLM" and kv_cache_dtype == "auto" and is_auto_fp8:
        return "fp8_e4m3"
    if name.startswith("Glm5Next") and kv_cache_dtype == "auto" and is_blackwell:
        return "fp8"
    return kv_cache_dtype


def resolve_batch(
    settings: EngineSettings,
    model: ModelArchitecture,
    batch: tuple[int, int],
    max_model_len: int,
    release: Release = NEWEST_RELEASE,
) -> tuple[int, int]:
    """Return max_num_batched_tokens and max_num_seqs.

    `batch` is the two as `batch_defaults` has them.
    """
    tokens, seqs = batch
    if settings.performance_mode == "throughput":
        tokens, seqs = 2 * tokens, 2 * seqs
    seqs = settings.max_num_seqs or seqs
    splits = chunked_prefill(settings, model, release)
    if not (splits or release.heeds_tokens_of_whole_prompts):
        tokens = max_model_len
    elif settings.max_num_batched_tokens is not None:
        tokens = settings.max_num_batched_tokens
    else:
        if not splits:
            is_exact = not release.limits_tokens_to_requests
            tokens = max_model_len if is_exact else max(max_model_len, tokens)
        if release.raises_tokens_for_images:
            tokens = max(tokens, least_batched_tokens(model, settings))
        if release.limits_tokens_to_requests:
            tokens = min(seqs * max_model_len, tokens)
    if settings.max_num_seqs is None and release.limits_requests_to_tokens:
        seqs = min(seqs, tokens)
    return tokens, seqs


def chunked_prefill(
    settings: EngineSettings,
    model: ModelArchitecture,
    release: Release = NEWEST_RELEASE,
) -> bool:
    """Return whether long prompts are split over several steps."""
    if not model.is_pooling and not release.may_keep_prompts_whole:
        return True
    if settings.enable_chunked_prefill is not None:
        return settings.enable_chunked_prefill
    is_whole = model.is_encoder_decoder and release.keeps_encoder_prompts_whole
    return not (model.is_encoder_only or is_whole)


def prefix_caching(
    settings: EngineSettings,
    model: ModelArchitecture,
    release: Release = NEWEST_RELEASE,
) -> bool:
    """Return whether blocks are kept for prompts with the same beginning.

    Raises:
        UnknownArchitecture: for states kept in a way that is not modelled.
    """
    if model.state_layers and not release.has_state_prefix_caching:
        return False
    if settings.enable_prefix_caching is not None:
        return settings.enable_prefix_caching and _keeps_states(model, release)
    is_hybrid = bool(model.state_layers) and not release.caches_hybrid_prefixes
    return not (
        model.is_encoder_only
        or model.is_attention_free
        or model.is_encoder_decoder
        or is_hybrid
    )


def _keeps_states(model: ModelArchitecture, release: Release) -> bool:
    """Whether states are kept for other requests where the user asks for it.

    Source: vLLM 0.11.1 to 0.27.1 `models/config.py` MambaModelConfig; classes with
    SupportsMambaPrefixCaching are those of Mamba and Mamba2.
    """
    if not model.state_layers or release.aligns_all_states:
        return True
    kinds = Mamba1State | Mamba2State
    if any(isinstance(layer, kinds) for layer in model.state_layers):
        raise UnknownArchitecture(
            f"enable_prefix_caching: vLLM {release.version} keeps states of Mamba "
            "layers for every block, which is not modelled. Leave it out."
        )
    return release.aligns_states


def async_scheduling(
    settings: EngineSettings,
    model: ModelArchitecture,
    release: Release,
    *,
    pipeline_parallel_size: int = 1,
) -> bool:
    """Return whether a second batch is prepared while one runs."""
    if settings.async_scheduling is not None:
        return settings.async_scheduling
    if model.is_pooling and not release.schedules_pooling_ahead:
        return False
    is_alone = pipeline_parallel_size == 1
    return release.schedules_ahead and (is_alone or release.schedules_stages_ahead)


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
    is_fed = model.speculation is not None and model.speculation.reads_target
    is_off = has_chunks and (is_fed or not env.allow_chunked_local_attention)
    if asked is None:
        return not is_off
    if asked is False and is_off:
        raise Refused(
            "Hybrid KV cache manager was explicitly enabled but is not supported in "
            "this configuration. Consider omitting the "
            "--enable-hybrid-kv-cache-manager flag to let vLLM decide automatically."
        )
    return not asked


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
