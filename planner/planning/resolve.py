"""The arguments as vLLM resolves them, and its refusals on the way.

Checks run in vLLM's order, because the user sees only its first complaint.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from planner.engine.environment import Environment
from planner.engine.gpu import GPU
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.engine.releases.shared import (
    FILLS_IN_ANY_BATCH,
    HEEDS_TOKENS_OF_WHOLE_PROMPTS,
)
from planner.engine.settings import (
    EngineSettings,
    attention_backend,
    check_keys,
    table,
)
from planner.errors import UnknownArchitecture
from planner.memory.compilation import GraphMode, resolve_compilation
from planner.memory.kv_cache.cache_context import CacheContext
from planner.memory.kv_cache.choosing import skipped_layers
from planner.memory.kv_cache.flash_attention import for_mixed_head_sizes
from planner.memory.kv_cache.kernels import Kernels, resolve_kernels, runner_mode
from planner.memory.lines.eplb import check_eplb
from planner.memory.media.frontend import check_frontend
from planner.memory.media.media_limits import check_limits
from planner.memory.media.pixels import check_pixels
from planner.memory.media.towers import is_prefix_lm, tower_layout
from planner.memory.runner import (
    check_before_layers,
    check_deepstack,
    check_kv_sources,
    uses_v2_runner,
)
from planner.models.architecture import ModelArchitecture
from planner.models.drafts.config import requested_speculation
from planner.models.files import ModelFiles
from planner.models.layers import Part
from planner.models.lengths import resolve_max_model_len, scheduled_length
from planner.planning import batches, defaults
from planner.planning.calibrations.dry import DryFigures
from planner.planning.capture_sizes import capture_sizes, in_whole_requests
from planner.planning.cpu_build import (
    check_block_size,
    check_cpu_build,
    cpu_kv_cache_bytes,
    is_latent_plain,
    recurrent_dtype,
    whole_prompts,
)
from planner.planning.defaults import ResolvedSettings
from planner.planning.dtypes import (
    check_kv_cache_dtype,
    check_latent_cache_dtype,
    check_quantization,
    check_quantization_argument,
    has_kv_scales,
)
from planner.planning.first_engine import check_engine
from planner.planning.load import Load
from planner.planning.profile_refusals import check_profile_run
from planner.planning.refusals import (
    check_architecture,
    check_batch,
    check_device_dtype,
    check_kv_offloading,
    check_mamba_block_size,
    check_parallel,
    check_speculation,
    check_states,
    check_window,
)
from planner.values import frozen

_OLDER_POOLING_TOKENS = 32768
_OLDER_IMAGE_TOKENS = 5120


@frozen
class Question:
    """All inputs of a plan, read and checked."""

    model: ModelArchitecture
    gpu: GPU
    settings: EngineSettings
    env: Environment
    layout: ParallelLayout
    entrypoint: str
    release: Release
    notes: tuple[str, ...]
    given_env: tuple[tuple[str, str], ...] = ()
    """Environment variables as given, vLLM's and others."""
    draft: ModelFiles | None = None
    """Files of the model that speculative_config names."""
    uncounted_draft: str = ""
    """Why the draft of speculative_config is not counted; empty where it is."""
    is_waived: bool = False
    """Whether arguments that vLLM refuses by themselves are accepted."""
    dry: DryFigures | None = None
    """What vLLM itself measured of this start without a GPU."""
    load: Load | None = None
    """What the start must serve; arguments that follow from it are in `settings`."""


def with_speculation(question: Question) -> Question:
    """Return the question with its draft model, where one is requested.

    A draft that is not modelled is left out of the account, which the plan says.

    Raises:
        PlannerError: for arguments that vLLM cannot parse.
        Refused: in vLLM's words.
    """
    requested = requested_speculation(question.settings, question.release)
    is_known = bool(question.uncounted_draft or question.model.speculation)
    if requested is None or is_known:
        return question
    length = resolve_max_model_len(
        question.settings.max_model_len, question.model, question.env, question.release
    )
    from planner.models.drafts.attaching import speculating  # noqa: PLC0415 - drafts only

    try:
        model = speculating(
            question.model, requested, question.draft, length, question.layout
        )
    except UnknownArchitecture as unknown:
        return replace(question, uncounted_draft=str(unknown))
    return replace(question, model=model)


def _max_model_len(question: Question) -> int:
    """Return max_model_len, lowered to the draft's where the model runner needs it.

    Source: vLLM 0.33.0 `config/vllm.py` _limit_max_model_len_to_draft.
    """
    model, release = question.model, question.release
    length = resolve_max_model_len(
        question.settings.max_model_len, model, question.env, release
    )
    found = model.speculation
    is_first = question.env.use_v2_model_runner is False
    if found is None or found.longest is None or is_first:
        return length
    return min(length, found.longest)


def resolve(question: Question) -> tuple[ResolvedSettings, Kernels]:
    """Fill in vLLM's defaults and refuse what vLLM refuses, in its order."""
    model, gpu, settings = question.model, question.gpu, question.settings
    check_architecture(model, question.release)
    for name in ("attention_config", "kernel_config"):
        if getattr(settings, name) is not None:
            check_keys(name, table(settings, name), question.release)
    check_engine(settings, model, gpu, question.release)
    if gpu.is_cpu:
        check_cpu_build(question)
    dtype = defaults.resolve_dtype(settings.dtype, model, gpu)
    release = question.release
    length = _max_model_len(question)
    check_window(settings, model, release)
    if not question.is_waived:
        check_quantization_argument(model, settings, release)
    kv_dtype = defaults.resolve_kv_cache_dtype(settings.kv_cache_dtype, model, release)
    check_kv_cache_dtype(kv_dtype, dtype, release)
    kv_dtype = defaults.model_kv_cache_dtype(kv_dtype, model, gpu, release)
    tokens, seqs = _batch_sizes(question, length)
    # An encoder-decoder model never splits prompts, even if the user requests it.
    chunked = not model.is_encoder_decoder and batches.chunked_prefill(
        settings, model, release
    )
    check_batch(tokens, seqs, length, has_chunked_prefill=chunked)
    caching = defaults.prefix_caching(settings, model, release)
    if is_latent_plain(question):
        tokens, chunked, caching = whole_prompts(length), False, False
    if model.state_layers:
        check_states(has_prefix_caching=caching, has_chunked_prefill=chunked)
    check_speculation(model, tokens, seqs, question.layout)
    check_parallel(model, question.layout)
    check_eplb(settings, model, question.layout)
    check_kv_offloading(settings, gpu, release)
    check_limits(settings, model, release)
    check_frontend(settings, model, release)
    check_pixels(settings, model, release)
    _check_shared_experts(question)
    check_quantization(model, dtype, gpu, release)
    check_latent_cache_dtype(kv_dtype, model)
    compilation = resolve_compilation(settings, model, gpu, release)
    sizes = capture_sizes(settings, model, gpu, (tokens, seqs), release)
    # The second runner needs a Triton that the CPU build does not install.
    is_v2 = not gpu.is_cpu and uses_v2_runner(
        model,
        release,
        forced=question.env.use_v2_model_runner,
        pipeline_parallel_size=question.layout.pipeline_parallel_size,
    )
    if not is_v2:
        sizes = in_whole_requests(sizes, compilation.graph_mode, model.query_len)
    check_mamba_block_size(
        settings.mamba_block_size, length, has_prefix_caching=caching
    )
    check_device_dtype(dtype, gpu)
    layout = question.layout
    before = ResolvedSettings(
        dtype=dtype,
        quantization=model.quantization,
        kv_cache_dtype=kv_dtype,
        max_model_len=length,
        is_max_model_len_auto=settings.max_model_len in ("auto", -1),
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        gpu_memory_utilization=settings.gpu_memory_utilization
        or defaults.gpu_memory_utilization(release),
        kv_cache_memory_bytes=cpu_kv_cache_bytes(question),
        num_gpu_blocks_override=settings.num_gpu_blocks_override,
        tensor_parallel_size=layout.tensor_parallel_size,
        pipeline_parallel_size=layout.pipeline_parallel_size,
        data_parallel_size=layout.data_parallel_size,
        decode_context_parallel_size=layout.decode_context_parallel_size,
        enable_expert_parallel=layout.enable_expert_parallel,
        enforce_eager=bool(settings.enforce_eager),
        cudagraph_capture_sizes=sizes,
        max_cudagraph_capture_size=max(sizes, default=0),
        is_compiled=compilation.is_compiled,
        may_fuse_all_reduce=compilation.may_fuse_all_reduce,
        performance_mode=settings.performance_mode or "balanced",
        async_scheduling=not gpu.is_cpu
        and (is_v2 or not _waits_for_draft_tokens(model))
        and defaults.async_scheduling(
            settings,
            model,
            release,
            pipeline_parallel_size=layout.pipeline_parallel_size,
        ),
        uses_v2_model_runner=is_v2,
        enable_prefix_caching=caching,
        enable_chunked_prefill=chunked,
    )
    _check_build(question, before)
    kernels = resolve_kernels(model, _context(question, before))
    check_block_size(kernels, model, gpu)
    check_profile_run(question, before, kernels)
    mode = runner_mode(compilation, kernels, gpu) if sizes else GraphMode.NONE
    resolved = replace(
        before,
        block_size=kernels.sizes.block_size,
        mamba_block_size=kernels.sizes.mamba_block_size,
        cudagraph_mode=str(mode),
    )
    return resolved, kernels


def _batch_sizes(question: Question, max_model_len: int) -> tuple[int, int]:
    """Return max_num_batched_tokens and max_num_seqs."""
    settings, model, release = question.settings, question.model, question.release
    if question.entrypoint == "engine" and not release.has(FILLS_IN_ANY_BATCH):
        return _older_engine_batch(question, max_model_len)
    batch = batches.batch_defaults(question.gpu, question.entrypoint, release)
    length = scheduled_length(settings.max_model_len, model, max_model_len, release)
    return batches.resolve_batch(settings, model, batch, length, release)


def _older_engine_batch(question: Question, max_model_len: int) -> tuple[int, int]:
    """Return max_num_batched_tokens and max_num_seqs of an async engine before 0.11.1.

    The scheduler's configuration filled them in: enough for pooling models and images,
    and at most the tokens of all requests.

    Source: vLLM 0.11.0 `config/scheduler.py` SchedulerConfig.__post_init__; 0.10.0
    `engine/arg_utils.py` _set_default_args_v1 (prompts that are not split).
    """
    settings, model, release = question.settings, question.model, question.release
    default, seqs = batches.ENGINE_BATCH
    seqs = settings.max_num_seqs or seqs
    splits = batches.chunked_prefill(settings, model, release)
    if not (splits or release.has(HEEDS_TOKENS_OF_WHOLE_PROMPTS)):
        return max_model_len, seqs
    if settings.max_num_batched_tokens is not None:
        return settings.max_num_batched_tokens, seqs
    tokens = default if splits else max(max_model_len, default)
    if model.is_pooling:
        tokens = max(tokens, _OLDER_POOLING_TOKENS)
    if model.is_multimodal:
        tokens = max(tokens, _OLDER_IMAGE_TOKENS)
    return min(seqs * max_model_len, tokens), seqs


def _waits_for_draft_tokens(model: ModelArchitecture) -> bool:
    """Whether the first model runner cannot schedule before draft tokens are known.

    Source: vLLM 0.33.0 `config/vllm.py` VllmConfig (v1_async_sched_incompat).
    """
    found = model.speculation
    return found is not None and (found.draft is None or found.method == "medusa")


def _check_build(question: Question, resolved: ResolvedSettings) -> None:
    model, tokens = question.model, resolved.max_num_batched_tokens
    layout = _typed(question.layout, resolved.dtype, tokens)
    # Towers that are switched off are still constructed, without weights.
    towers = tuple(
        (tower, tower_layout(tower, layout, question.settings))
        for tower in model.towers
    )
    check_before_layers(model, layout, towers)
    check_deepstack(model, layout)
    check_kv_sources(model, layout)


@lru_cache(maxsize=64)
def _typed(layout: ParallelLayout, dtype: str, tokens: int) -> ParallelLayout:
    return replace(layout, dtype=dtype, max_num_batched_tokens=tokens)


def _context(question: Question, resolved: ResolvedSettings) -> CacheContext:
    model, settings = question.model, question.settings
    context = CacheContext(
        gpu=question.gpu,
        layout=question.layout,
        dtype=resolved.dtype,
        kv_cache_dtype=resolved.kv_cache_dtype,
        requested_block_size=settings.block_size,
        requested_backend=attention_backend(settings) or question.env.attention_backend,
        skip_layers=skipped_layers(
            settings.kv_cache_dtype_skip_layers or (), resolved.kv_cache_dtype, model
        ),
        requested_mamba_block_size=settings.mamba_block_size,
        mamba_cache_dtype=settings.mamba_cache_dtype or "auto",
        mamba_ssm_cache_dtype=recurrent_dtype(question),
        gdn_prefill_backend=settings.gdn_prefill_backend,
        offloads_blocks=settings.kv_offloading_size is not None,
        max_model_len=resolved.max_model_len,
        max_num_batched_tokens=resolved.max_num_batched_tokens,
        max_num_seqs=resolved.max_num_seqs,
        num_speculative_tokens=model.query_len - 1,
        has_prefix_caching=defaults.prefix_caching(settings, model, question.release),
        has_kv_cache_scales=has_kv_scales(model, question.release),
        head_size=model.head_size,
        num_heads=model.num_attention_heads,
        num_kv_heads=model.num_kv_heads,
        has_softcap=model.has_softcap,
        is_mm_prefix_lm=is_prefix_lm(model, settings),
    )
    return for_mixed_head_sizes(context) if model.mixes_head_sizes else context


def _check_shared_experts(question: Question) -> None:
    """Reject layouts in which some model classes replicate shared experts.

    Raises:
        UnknownArchitecture: naming the arguments.

    Source: vLLM 0.33.0 `config/parallel.py` use_sequence_parallel_moe.
    """
    layout = question.layout
    is_sequence_parallel = (
        layout.enable_expert_parallel
        and layout.tensor_parallel_size > 1
        and layout.data_parallel_size > 1
    )
    has_shared_experts = any(
        module.part is Part.SHARED_EXPERTS
        for kind in question.model.layer_kinds
        for module in kind.modules
    )
    if is_sequence_parallel and has_shared_experts:
        raise UnknownArchitecture(
            "enable_expert_parallel with data_parallel_size and tensor_parallel_size "
            "above 1: how each rank then holds shared experts is not modelled. Leave "
            "one of the three out."
        )
