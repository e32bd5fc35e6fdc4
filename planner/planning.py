"""plan(): what vLLM would do, from what the user typed.

The order follows vLLM's start-up: resolve the arguments, refuse what it refuses, load
the weights, measure a profile run, divide what is left into KV cache blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

from planner import defaults
from planner.architectures import read
from planner.defaults import ResolvedSettings, layout_of
from planner.engine import EngineSettings, settings_from
from planner.environment import environment_from
from planner.errors import Refused, RefusedArgument
from planner.estimate import (
    Budget,
    rank_memory,
    requested_memory_bytes,
    used_lines,
)
from planner.gpu import GPU
from planner.memory import kv_cache, kv_groups
from planner.memory.kernels import Kernels
from planner.memory.kv_cache import StageCache
from planner.memory.kv_spec import Request
from planner.memory.profile_run import ProfileRun
from planner.memory.towers import built_towers, tower_layout
from planner.memory.weights import stage_weights
from planner.model import ModelArchitecture
from planner.quantization import requantised
from planner.releases import NEWEST, Release, resolve_version
from planner.resolving import Question, resolve
from planner.result import KVCacheGroup, Plan, RankMemory, VLLMError
from planner.sources.device import gpu_named
from planner.sources.load import load
from planner.units import vllm_gib


def plan(
    model: str | PathLike[str] | ModelArchitecture,
    gpu: str | GPU = "H100",
    *,
    vllm_version: str = NEWEST,
    entrypoint: str = "serve",
    env: Mapping[str, str] | None = None,
    **engine_args: Any,  # noqa: ANN401 - vLLM's own argument names and types
) -> Plan:
    """Say what vLLM would do with this model on this GPU.

    Args:
        model: Hub id, catalogue id, path of a folder or config.json, or a
            ModelArchitecture.
        gpu: catalogue name, "attached" for the first GPU of this machine, or a `GPU`.
        vllm_version: release whose rules apply.
        entrypoint: serve (`vllm serve`) or llm (the `LLM` class).
        env: vLLM's environment variables.
        engine_args: vLLM's EngineArgs by name.

    Raises:
        PlannerError: for input that cannot be planned; not fitting is no error.
        UnknownArchitecture: for a model or setting whose memory is not modelled.
    """
    settings = settings_from(engine_args)
    device = gpu if isinstance(gpu, GPU) else gpu_named(gpu)
    release, notes = resolve_version(vllm_version)
    environment = environment_from(env)
    defaults.batch_defaults(
        device, entrypoint, release
    )  # refuses an unknown entry point
    try:
        architecture = _architecture(model, settings)
    except Refused as refusal:
        return Plan.refused(
            name=str(model),
            gpu=device,
            settings=settings,
            vllm_version=release.version,
            error=VLLMError(kind="refused", message=str(refusal)),
            notes=notes,
        )
    question = Question(
        model=architecture,
        gpu=device,
        settings=settings,
        env=environment,
        layout=layout_of(settings, environment, device, release),
        entrypoint=entrypoint,
        release=release,
        notes=(*notes, *_source_notes(architecture)),
    )
    return _answer(question)


def _architecture(
    model: str | PathLike[str] | ModelArchitecture, settings: EngineSettings
) -> ModelArchitecture:
    method = settings.quantization
    if not isinstance(model, ModelArchitecture):
        trusted = bool(settings.trust_remote_code)
        return read(load(model), method, trust_remote_code=trusted)
    return model if method is None else requantised(model, method)


def _source_notes(model: ModelArchitecture) -> tuple[str, ...]:
    notes: tuple[str, ...] = ()
    if not model.is_certain:
        notes = (f"The config of {model.name} is a reconstruction: {model.source}.",)
    if model.reconciliation is not None:
        notes = (*notes, str(model.reconciliation))
    return notes


def _answer(question: Question) -> Plan:
    try:
        resolved, kernels = resolve(question)
        return _plan_resolved(question, resolved, kernels)
    except RefusedArgument as refusal:
        error = VLLMError(kind="refused", message=str(refusal))
        env = replace(question.env, allow_long_max_model_len=True)
        allowed = _answer(replace(question, is_waived=True, env=env))
        return replace(allowed, error=error)
    except Refused as refusal:
        return Plan.refused(
            name=question.model.name,
            model=question.model,
            gpu=question.gpu,
            settings=question.settings,
            vllm_version=question.release.version,
            error=VLLMError(kind="refused", message=str(refusal)),
            notes=question.notes,
        )


def _plan_resolved(
    question: Question, resolved: ResolvedSettings, kernels: Kernels
) -> Plan:
    whole = kv_groups.group(
        kernels.specs,
        has_hybrid_manager=defaults.hybrid_manager(
            question.settings, question.model, question.env
        ),
        layout=kernels.layout,
    )
    ranks, stages = _ranks(question, resolved, kernels, whole)
    stages = _with_override(stages, resolved.num_gpu_blocks_override)
    error = _memory_error(question, ranks)
    request, error = _fit_length(stages, resolved, error, question.release)
    length = request.max_model_len
    error = error or kv_cache.check(stages, request)
    holders = [stage for stage in stages if stage.bytes_per_block] or list(stages)
    limiting = min(holders, key=lambda stage: stage.num_blocks)
    if resolved.cudagraph_capture_sizes and not question.model.is_pooling:
        error = error or kv_cache.check_state_blocks(
            whole, limiting.num_blocks, resolved.max_num_seqs
        )
    figures = kv_cache.capacity(whole, limiting.num_blocks, request, question.release)
    limit = _longest_allowed(question)
    longest = min(stage.longest_request(limit, request) for stage in holders)
    return Plan(
        name=question.model.name,
        model=question.model,
        gpu=question.gpu,
        settings=question.settings,
        resolved=replace(resolved, max_model_len=length),
        vllm_version=question.release.version,
        ranks=ranks,
        kv_groups=tuple(
            KVCacheGroup(
                kind=g.spec.kind,
                num_layers=g.num_layers,
                block_size=g.spec.block_size,
                page_size_bytes=g.spec.page_size_bytes,
            )
            for g in whole
        ),
        error=error,
        blocks_per_request=figures.blocks_per_request,
        num_gpu_blocks=figures.num_gpu_blocks,
        kv_cache_size_tokens=figures.kv_cache_size_tokens,
        max_concurrency=figures.max_concurrency,
        max_model_len_that_fits=longest or None,
        needed_kv_cache_bytes=limiting.needed_bytes(request),
        notes=question.notes,
    )


def _longest_allowed(question: Question) -> int:
    """Return the longest request worth looking for: what the config allows."""
    release = question.release
    derived = defaults.derived_max_model_len(question.model, release)
    asked = defaults.resolve_max_model_len(None, question.model, question.env, release)
    return max(asked, int(min(derived, 1 << 24)))


def _ranks(
    question: Question,
    resolved: ResolvedSettings,
    kernels: Kernels,
    whole: tuple[kv_groups.LayerGroup, ...],
) -> tuple[tuple[RankMemory, ...], tuple[StageCache, ...]]:
    towers = built_towers(question.model, question.settings)
    layout = replace(
        question.layout, max_num_batched_tokens=resolved.max_num_batched_tokens
    )
    weights = stage_weights(
        question.model,
        layout,
        resolved.dtype,
        kernels.buffers,
        tuple((t, tower_layout(t, layout, question.settings)) for t in towers),
    )
    sizes = question.layout.stage_sizes(question.model.num_hidden_layers)
    requested = requested_memory_bytes(
        question.gpu.total_memory_bytes, resolved.gpu_memory_utilization
    )
    fixed = resolved.kv_cache_memory_bytes
    ranks, stages, begin = [], [], 0
    for pp_rank, (stage, size) in enumerate(zip(weights, sizes, strict=True)):
        run = _profile_run(question, resolved, pp_rank, len(sizes))
        lines = used_lines(
            run,
            stage,
            capture_sizes=resolved.cudagraph_capture_sizes,
            is_cudagraph_charged=fixed is None and question.env.estimate_cudagraphs,
            num_layers=size,
        )
        groups = tuple(group.on_stage(begin, begin + size) for group in whole)
        cache = StageCache(
            groups=groups,
            available_bytes=0,
            layout=kernels.layout,
            release=question.release,
        )
        rank = rank_memory(
            pp_rank,
            stage,
            lines,
            Budget(requested_bytes=requested, kv_cache_memory_bytes=fixed),
            cache.bytes_per_block,
        )
        ranks.append(rank)
        stages.append(replace(cache, available_bytes=rank.available_kv_cache_bytes))
        begin += size
    return tuple(ranks), tuple(stages)


def _profile_run(
    question: Question, resolved: ResolvedSettings, pp_rank: int, num_stages: int
) -> ProfileRun:
    return ProfileRun(
        model=question.model,
        gpu=question.gpu,
        layout=question.layout,
        dtype=resolved.dtype,
        max_num_batched_tokens=resolved.max_num_batched_tokens,
        max_num_seqs=resolved.max_num_seqs,
        is_first_stage=pp_rank == 0,
        is_last_stage=pp_rank == num_stages - 1,
        uses_flashinfer_sampler=question.env.use_flashinfer_sampler,
    )


def _with_override(
    stages: tuple[StageCache, ...], num_blocks: int | None
) -> tuple[StageCache, ...]:
    """Apply num_gpu_blocks_override, which replaces what was measured."""
    if num_blocks is None:
        return stages
    return tuple(
        replace(stage, available_bytes=num_blocks * stage.bytes_per_block)
        for stage in stages
    )


def _memory_error(
    question: Question, ranks: tuple[RankMemory, ...]
) -> VLLMError | None:
    """Return the error of a GPU that is too full, or too small for the weights."""
    gpu = question.gpu
    requested = ranks[0].requested_memory_bytes
    free = (
        gpu.total_memory_bytes
        if gpu.free_memory_bytes is None
        else gpu.free_memory_bytes
    )
    if free < requested:
        utilization = (
            question.settings.gpu_memory_utilization
            or question.release.gpu_memory_utilization
        )
        return VLLMError(
            kind="free_memory",
            message=f"Free memory on device cuda:0 ({vllm_gib(free)}/"
            f"{vllm_gib(gpu.total_memory_bytes)} GiB) on startup is less than desired "
            f"GPU memory utilization ({utilization}, {vllm_gib(requested)} GiB). "
            "Decrease GPU memory utilization or reduce GPU memory used by other "
            "processes.",
        )
    heaviest = max(rank.allocated_weights_bytes for rank in ranks)
    if heaviest > free:
        return VLLMError(
            kind="weights",
            # PyTorch names the tensor that was one too many; which, nobody can say.
            message="torch.OutOfMemoryError: CUDA out of memory. (The weights take "
            f"{vllm_gib(heaviest)} GiB on each GPU, of which {vllm_gib(free)} GiB are "
            "free.)",
        )
    return None


def _fit_length(
    stages: tuple[StageCache, ...],
    resolved: ResolvedSettings,
    error: VLLMError | None,
    release: Release,
) -> tuple[Request, VLLMError | None]:
    """Shorten max_model_len to the memory when the user asked for auto.

    Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py` _auto_fit_max_model_len.
    """
    length = resolved.max_model_len
    batches = resolved.max_concurrent_batches if release.keeps_tokens_in_flight else 1
    asked = Request(
        max_model_len=length,
        max_in_flight_tokens=batches * resolved.max_num_batched_tokens,
        max_num_encoder_input_tokens=resolved.max_num_batched_tokens,
        decode_context_parallel_size=resolved.decode_context_parallel_size,
    )
    if not resolved.is_max_model_len_auto or error is not None:
        return asked, error
    held = [stage for stage in stages if stage.bytes_per_block]
    fitted = min((s.longest_request(length, asked) for s in held), default=length)
    if fitted:
        return replace(asked, max_model_len=fitted), None
    return asked, VLLMError(
        kind="no_kv",
        message="Cannot auto-fit max_model_len: not enough GPU memory available to "
        "serve even a single token. Try increasing `gpu_memory_utilization`.",
    )
