"""The defaults that vLLM fills in for arguments that are not given.

Source of all rules: vLLM 0.33.0 `config/model.py` _resolve_auto_dtype.
"""

from __future__ import annotations

from planner.engine.dtypes import canonical_dtype
from planner.engine.environment import Environment
from planner.engine.generations import AMPERE, DATACENTER_BLACKWELL
from planner.engine.gpu import GPU
from planner.engine.layout import ParallelLayout
from planner.engine.releases import NEWEST_RELEASE, Release
from planner.engine.releases.change import Change
from planner.engine.settings import EngineSettings, moe_backend
from planner.errors import PlannerError, Refused, UnknownArchitecture
from planner.memory.lines.eplb import redundant_experts
from planner.models.architecture import ModelArchitecture
from planner.models.states import Mamba1State, Mamba2State
from planner.units import parse_size
from planner.values import frozen

_SCHEDULES_AHEAD = Change(
    since=(0, 14),
    what="Async scheduling is on by default.",
    source="vLLM 0.14.0 `config/vllm.py` (async_scheduling)",
)
_STATE_PREFIX_CACHING = Change(
    since=(0, 11, 1),
    what="Prefix caching may keep the states of recurrent layers.",
    source="vLLM 0.11.1 `models/config.py` MambaModelConfig",
)
_ALIGNS_STATES = Change(
    since=(0, 15),
    what="With prefix caching requested, states at block boundaries are kept.",
    source="vLLM 0.15.0 `models/config.py` MambaModelConfig",
)
_ALIGNS_ALL_STATES = Change(
    since=(0, 28),
    what=(
        "With prefix caching requested, states at block boundaries are kept for every "
        "kind of layer with states."
    ),
    source="vLLM 0.28.0 `models/config.py` MambaModelConfig",
)
_CACHES_HYBRID_PREFIXES = Change(
    since=(0, 28),
    what="Hybrid models (attention and states) cache prefixes by default.",
    source="vLLM 0.28.0 `config/model.py` is_prefix_caching_supported",
)
_SCHEDULES_POOLING_AHEAD = Change(
    until=(0, 20),
    what="Pooling models use async scheduling, like others.",
    source="vLLM 0.20.0 `config/vllm.py` (async_scheduling), which ended it",
)
_SCHEDULES_STAGES_AHEAD = Change(
    since=(0, 15),
    what="Async scheduling is on by default with pipeline stages too.",
    source="vLLM 0.15.0 `config/vllm.py` (async_scheduling)",
)
_READS_MODELOPT_KV_DTYPE = Change(
    since=(0, 14),
    what="kv_cache_dtype auto follows a ModelOpt checkpoint.",
    source="vLLM 0.14.0 `utils/torch_utils.py` resolve_kv_cache_dtype_string",
)
_READS_MODELOPT_NVFP4_KV_DTYPE = Change(
    since=(0, 20),
    what="kv_cache_dtype auto also follows a ModelOpt checkpoint that specifies NVFP4.",
    source="vLLM 0.20.0 `utils/torch_utils.py` resolve_kv_cache_dtype_string",
)
_READS_COMPRESSED_KV_DTYPE = Change(
    since=(0, 15),
    what="kv_cache_dtype auto follows a compressed-tensors checkpoint.",
    source="vLLM 0.15.0 `attention/layer.py` Attention",
)
_GIVEN_KV_DTYPE_WINS = Change(
    since=(0, 22),
    what="A given kv_cache_dtype overrides a compressed-tensors checkpoint.",
    source="vLLM 0.22.0 `layers/attention/attention.py` Attention",
)
_PACKS_SPARSE = Change(
    until=(0, 11, 1),
    what="DeepSeek's sparse attention stores fp8_ds_mla by default.",
    source="vLLM 0.11.0 `models/config.py` DeepseekV32ForCausalLM",
)
_PACKS_SPARSE_FP8 = Change(
    until=(0, 18),
    what="DeepSeek's sparse attention stores fp8_ds_mla for every requested fp8 dtype.",
    source="vLLM 0.17.1 `models/config.py` DeepseekV32ForCausalLM",
)
_KEEPS_GLM_FP8_ON_BLACKWELL = Change(
    since=(0, 32),
    what="GLM's sparse attention stores FP8 on B200 by default.",
    source="vLLM 0.32.0 `models/config.py` GlmMoeDsaForCausalLM",
)
_RAISES_UTILIZATION = Change(
    since=(0, 20),
    what="gpu_memory_utilization is 0.92 by default. Before, it was 0.9.",
    source="vLLM 0.20.0 `config/cache.py` CacheConfig.gpu_memory_utilization",
)


@frozen
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
    block_size: int = 0
    """Tokens; as the next one and `cudagraph_mode`, it follows from the kernels."""
    mamba_block_size: int | None = None
    """Tokens in a block of layers that keep states; None without such layers."""
    tensor_parallel_size: int
    pipeline_parallel_size: int
    data_parallel_size: int
    decode_context_parallel_size: int
    enable_expert_parallel: bool
    enforce_eager: bool
    cudagraph_capture_sizes: tuple[int, ...]
    max_cudagraph_capture_size: int
    cudagraph_mode: str = ""
    """vLLM's name for what CUDA graphs are captured of."""
    is_compiled: bool
    """Whether vLLM compiles the model."""
    may_fuse_all_reduce: bool
    """Whether compilation may fuse all-reduce with the norm that follows it."""
    performance_mode: str
    async_scheduling: bool
    uses_v2_model_runner: bool
    """Which of vLLM's two model runners serves the model."""
    enable_prefix_caching: bool
    enable_chunked_prefill: bool

    @property
    def max_concurrent_batches(self) -> int:
        """Batches in flight: one per stage, and one more with async scheduling.

        The first model runner schedules none ahead with several pipeline stages.

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
    """Return the parallel layout that the settings request."""
    return ParallelLayout(
        tensor_parallel_size=settings.tensor_parallel_size or 1,
        pipeline_parallel_size=settings.pipeline_parallel_size or 1,
        data_parallel_size=settings.data_parallel_size or 1,
        decode_context_parallel_size=settings.decode_context_parallel_size or 1,
        prefill_context_parallel_size=_prefill_ranks(settings),
        enable_expert_parallel=bool(settings.enable_expert_parallel),
        enable_eplb=bool(settings.enable_eplb),
        num_redundant_experts=redundant_experts(settings),
        pp_layer_partition=env.pp_layer_partition,
        compute_capability=gpu.compute_capability,
        num_sms=gpu.num_sms or 0,
        enable_lora=bool(settings.enable_lora),
        moe_backend=moe_backend(settings),
        uses_deep_gemm=env.uses_deep_gemm,
        experts_use_deep_gemm=env.experts_use_deep_gemm,
        release=release,
    )


def _prefill_ranks(settings: EngineSettings) -> int:
    """Return the ranks that share prompts, of which plans count little else."""
    given = dict(settings.others).get("prefill_context_parallel_size")
    return given if isinstance(given, int) else 1


def resolve_dtype(requested: str | None, model: ModelArchitecture, gpu: GPU) -> str:
    """Return the dtype of weights and activations.

    Raises:
        PlannerError: for a dtype that vLLM does not know.
        Refused: where vLLM refuses float16 for the model type.
    """
    supported = ["bfloat16", "float16", "float32"]
    if not gpu.is_cpu and gpu.compute_capability < AMPERE:
        supported = ["float16", "float32"]
    if requested is None or requested.lower() == "auto":
        usable = [d for d in supported if d != "float16" or not model.float16_refusal]
        preferred = usable[0]
        if model.is_pooling and "float16" in usable:
            preferred = "float16"
        published = canonical_dtype(model.config_dtype)
        return (
            published if published != "float32" and published in usable else preferred
        )
    dtype = canonical_dtype(requested)
    if dtype == "float16" and model.float16_refusal:
        raise Refused(
            f"The model type '{model.model_type}' does not support float16. "
            f"Reason: {model.float16_refusal}"
        )
    return dtype


def resolve_kv_cache_dtype(
    requested: str | None, model: ModelArchitecture, release: Release = NEWEST_RELEASE
) -> str:
    """Return the KV cache's dtype; a quantised checkpoint may specify it.

    Source: vLLM 0.33.0 `utils/torch_utils.py` resolve_kv_cache_dtype_string;
    `layers/attention/attention.py` Attention.__init__ (kv_cache_scheme).
    """
    chosen = model.quantization_limits.kv_cache_dtype or "auto"
    if model.quantization == "compressed-tensors":
        is_read = release.has(_READS_COMPRESSED_KV_DTYPE)
        if is_read and chosen != "auto" and not release.has(_GIVEN_KV_DTYPE_WINS):
            return chosen
    elif chosen.startswith("nvfp4"):
        is_read = release.has(_READS_MODELOPT_NVFP4_KV_DTYPE)
    else:
        is_read = release.has(_READS_MODELOPT_KV_DTYPE)
    if requested is not None and requested != "auto":
        return requested
    return chosen if is_read else "auto"


def model_kv_cache_dtype(
    kv_cache_dtype: str,
    model: ModelArchitecture,
    gpu: GPU,
    release: Release = NEWEST_RELEASE,
) -> str:
    """Return the KV cache dtype after the model class has overridden it.

    Source: vLLM 0.33.0 `models/config.py` DeepseekV32ForCausalLM, GlmMoeDsaForCausalLM,
    Glm5NextModelConfig verify_and_update_config.
    """
    name = model.architecture
    if name == "DeepseekV32ForCausalLM" and kv_cache_dtype == "bfloat16":
        return "auto"
    if name == "DeepseekV32ForCausalLM":
        is_packed = kv_cache_dtype == "auto" and release.has(_PACKS_SPARSE)
        is_fp8 = kv_cache_dtype.startswith("fp8")
        if is_packed or (is_fp8 and release.has(_PACKS_SPARSE_FP8)):
            return "fp8_ds_mla"
    is_blackwell = gpu.compute_capability[0] == DATACENTER_BLACKWELL.major
    is_auto_fp8 = is_blackwell and release.has(_KEEPS_GLM_FP8_ON_BLACKWELL)
    if name == "GlmMoeDsaForCausalLM" and kv_cache_dtype == "auto" and is_auto_fp8:
        return "fp8_e4m3"
    if name.startswith("Glm5Next") and kv_cache_dtype == "auto" and is_blackwell:
        return "fp8"
    return kv_cache_dtype


_ATTENTION_FREE = frozenset(
    {"FalconMambaForCausalLM", "Mamba2ForCausalLM", "MambaForCausalLM"}
)
"""Classes that vLLM marks so; a hybrid without an attention layer stays a hybrid.

Source: vLLM 0.33.0 `models/interfaces.py` IsAttentionFree.
"""


def prefix_caching(
    settings: EngineSettings,
    model: ModelArchitecture,
    release: Release = NEWEST_RELEASE,
) -> bool:
    """Whether blocks are kept for prompts that share a prefix.

    Raises:
        UnknownArchitecture: for cached states that are not modelled.
    """
    if model.state_layers and not release.has(_STATE_PREFIX_CACHING):
        return False
    if any(layer.reference_window for layer in model.attention_layers):
        return False
    if settings.enable_prefix_caching is not None:
        return settings.enable_prefix_caching and _keeps_states(model, release)
    is_hybrid = bool(model.state_layers) and not release.has(_CACHES_HYBRID_PREFIXES)
    return not (
        model.is_encoder_only
        or model.architecture in _ATTENTION_FREE
        or model.is_encoder_decoder
        or is_hybrid
    )


def _keeps_states(model: ModelArchitecture, release: Release) -> bool:
    """Whether states are kept for other requests when prefix caching is requested.

    Source: vLLM 0.11.1 to 0.27.1 `models/config.py` MambaModelConfig; classes with
    SupportsMambaPrefixCaching are those of Mamba and Mamba2.
    """
    if not model.state_layers or release.has(_ALIGNS_ALL_STATES):
        return True
    kinds = Mamba1State | Mamba2State
    if any(isinstance(layer, kinds) for layer in model.state_layers):
        raise UnknownArchitecture(
            f"enable_prefix_caching: vLLM {release.version} keeps states of Mamba "
            "layers for every block, which is not modelled. Leave it out."
        )
    return release.has(_ALIGNS_STATES)


def async_scheduling(
    settings: EngineSettings,
    model: ModelArchitecture,
    release: Release,
    *,
    pipeline_parallel_size: int = 1,
) -> bool:
    """Whether the next batch is scheduled while one runs."""
    if settings.async_scheduling is not None:
        return settings.async_scheduling
    if model.is_pooling and not release.has(_SCHEDULES_POOLING_AHEAD):
        return False
    is_alone = pipeline_parallel_size == 1
    return release.has(_SCHEDULES_AHEAD if is_alone else _SCHEDULES_STAGES_AHEAD)


def hybrid_manager(
    settings: EngineSettings, model: ModelArchitecture, env: Environment
) -> bool:
    """Whether each kind of layer keeps only the tokens that it needs.

    Raises:
        Refused: when it is requested where vLLM has switched it off.

    Source: vLLM 0.33.0 `config/vllm.py` VllmConfig.__post_init__.
    """
    requested = settings.disable_hybrid_kv_cache_manager
    has_chunks = model.attention_chunk_size is not None
    is_fed = model.speculation is not None and model.speculation.reads_target
    is_off = has_chunks and (is_fed or not env.allow_chunked_local_attention)
    if requested is None:
        return not is_off
    if requested is False and is_off:
        raise Refused(
            "Hybrid KV cache manager was explicitly enabled but is not supported in "
            "this configuration. Consider omitting the "
            "--enable-hybrid-kv-cache-manager flag to let vLLM decide automatically."
        )
    return not requested


def gpu_memory_utilization(release: Release) -> float:
    """Return the default gpu_memory_utilization of a release."""
    return 0.92 if release.has(_RAISES_UTILIZATION) else 0.90


def kv_cache_bytes(given: int | str | None) -> int | None:
    """Return kv_cache_memory_bytes as a number of bytes; None where it is not set.

    As in vLLM, 0 counts as not given, and a negative size leaves no room.

    Raises:
        PlannerError: when the size cannot be read.

    Source: vLLM 0.33.0 `v1/worker/gpu_worker.py` determine_available_memory.
    """
    if given is None:
        return None
    size_bytes = parse_size(given) if isinstance(given, str) else given
    # A caller without a type checker may pass any type.
    if type(size_bytes) is not int:
        raise PlannerError(
            f"kv_cache_memory_bytes={given!r}: whole bytes are needed, or a size such "
            "as 20GiB."
        )
    return size_bytes or None
