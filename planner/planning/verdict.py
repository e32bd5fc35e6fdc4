"""Whether vLLM would start: its own errors, and how certain the estimate is of them.

The KV cache gets what the estimate leaves, within a range. Where one end of the range
starts and the other does not, the plan is too close to call and names what decides it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.engine.releases.shared import GROUPS_ALL_RANKS
from planner.memory.account import Variant, VLLMError
from planner.memory.compilation import GraphMode
from planner.memory.estimate import RankMemory, open_bytes
from planner.memory.kv_cache import capacity
from planner.memory.kv_cache.capacity import StageCache
from planner.memory.kv_cache.kv_groups import LayerGroup
from planner.memory.kv_cache.kv_spec import Request
from planner.memory.lines.outside import CUDA_CONTEXT
from planner.memory.media.frontend import DECODING
from planner.memory.media.frontend import no_room as no_room_to_decode
from planner.planning.after_sizing import OUTSIDE_BUDGET, shortage
from planner.planning.defaults import ResolvedSettings
from planner.planning.resolve import Question
from planner.planning.result import Alternative, Outcome
from planner.planning.stages import Stage
from planner.units import GIB, counted, format_gib, vllm_gib
from planner.values import frozen

if TYPE_CHECKING:
    from planner.memory.cpu_account import Share

_NOT_HELD_YET = ("KV cache", "not planned")
"""Lines of a rank that are not allocated yet when the cache is sized."""
_KEEPS_TOKENS_IN_FLIGHT = Change(
    since=(0, 26),
    what=(
        "Layers with a sliding window keep the tokens of all scheduled batches, not "
        "only of one."
    ),
    source="vLLM 0.26.0 `v1/kv_cache_interface.py` SlidingWindowSpec",
)
_LIMITS_REQUESTS_TO_STATES = Change(
    since=(0, 20),
    what=(
        "A max_num_seqs above the number of state blocks is refused where CUDA graphs "
        "are captured."
    ),
    source="vLLM 0.20.0 `config/compilation.py`",
)
_NAMES_THE_DEVICE = Change(
    since=(0, 14),
    what="The error for too little free memory names the device.",
    source="vLLM 0.14.0 `v1/worker/utils.py` request_memory",
)


@frozen
class Verdict:
    """The outcome of a start."""

    request: Request
    """The request that the KV cache must hold."""
    error: VLLMError | None
    outcome: Outcome
    safe_utilization: float | None = None
    """The largest gpu_memory_utilization that leaves enough outside the budget, where
    the given one may not."""

    @property
    def depends_on_length(self) -> bool:
        """Whether the length of a request could change the outcome."""
        kind = None if self.error is None else self.error.kind
        if kind == OUTSIDE_BUDGET and self.outcome is Outcome.DOES_NOT_FIT:
            return False
        return kind not in ("free_memory", "weights")


def judge(
    question: Question,
    resolved: ResolvedSettings,
    stages: Sequence[Stage],
    whole: Sequence[LayerGroup],
) -> Verdict:
    """Check a start as vLLM does, at the estimate and at both ends of its range."""
    middle = [stage.cache for stage in stages]
    error = _memory_error(question, resolved, stages)
    request, error = _fit_length(middle, resolved, error, question.release)
    if error is not None:
        error = _in_device_words(error, question, resolved, stages)
        return Verdict(request=request, error=error, outcome=Outcome.DOES_NOT_FIT)
    seqs = 0
    is_limited = question.release.has(_LIMITS_REQUESTS_TO_STATES)
    if GraphMode(resolved.cudagraph_mode).has_full and is_limited:
        seqs = resolved.max_num_seqs
    error, at_low, at_high = (
        _cache_error(caches, request, whole, seqs)
        for caches in (
            middle,
            [stage.low for stage in stages],
            [stage.high for stage in stages],
        )
    )
    if error is None and at_low is None:
        outcome = Outcome.FITS
    elif error is None or at_high is None:
        outcome = Outcome.TOO_CLOSE
        error = error or _too_close(
            stages, request, "machine" if question.gpu.is_cpu else "GPU", whole
        )
    else:
        outcome = Outcome.DOES_NOT_FIT
    if error is not None:
        error = _in_device_words(error, question, resolved, stages)
    made = Verdict(request=request, error=error, outcome=outcome)
    return _after_sizing(made, question, resolved, stages)


def _after_sizing(
    verdict: Verdict,
    question: Question,
    resolved: ResolvedSettings,
    stages: Sequence[Stage],
) -> Verdict:
    """Return the verdict with what is allocated after the KV cache was sized."""
    if verdict.outcome is Outcome.DOES_NOT_FIT:
        return verdict
    short = shortage(question.gpu, resolved, [stage.rank for stage in stages])
    if short is None:
        return verdict
    if verdict.outcome is Outcome.TOO_CLOSE and not short.is_certain:
        return verdict
    kind = OUTSIDE_BUDGET if short.is_certain else "too_close"
    return replace(
        verdict,
        error=VLLMError(kind=kind, message=short.message),
        outcome=Outcome.DOES_NOT_FIT if short.is_certain else Outcome.TOO_CLOSE,
        safe_utilization=short.safe_utilization,
    )


def _in_device_words(
    error: VLLMError,
    question: Question,
    resolved: ResolvedSettings,
    stages: Sequence[Stage],
) -> VLLMError:
    """Return the error as the device reports it; a CPU worker checks first."""
    for stage in stages:
        reported = _out_of_video_memory(error, question, stage.rank)
        if reported is not None:
            return reported
    rank = stages[0].rank
    is_full = rank.available_kv_cache_bytes <= 0 and error.kind == "no_kv"
    is_measured = question.gpu.is_cpu and resolved.kv_cache_memory_bytes is None
    if not (is_measured and is_full):
        return error
    from planner.memory.cpu_account import no_room  # noqa: PLC0415 - the CPU build only

    return no_room(_share(question, resolved, rank))


def _out_of_video_memory(
    error: VLLMError, question: Question, rank: RankMemory
) -> VLLMError | None:
    """Return the error where video decoding takes the memory of the KV cache.

    Source: vLLM 0.33.0 `multimodal/gpu_ipc_memory.py` reserve_mm_ipc_gpu_memory.
    """
    taken = sum(line.size_bytes for line in rank.lines if line.name == DECODING)
    available = rank.available_kv_cache_bytes + taken
    if not taken or error.kind != "no_kv" or available <= 0 or available > taken:
        return None
    frames = int((question.settings.mm_ipc_gpu_memory_gb or 0) * GIB)
    return replace(error, message=no_room_to_decode(taken, available, frames))


def _share(question: Question, resolved: ResolvedSettings, rank: RankMemory) -> Share:
    """Return a CPU worker's share of its memory node."""
    from planner.memory.cpu_account import Share  # noqa: PLC0415 - the CPU build only

    fixed = resolved.kv_cache_memory_bytes
    taken = [line.size_bytes for line in rank.lines if line.name not in _NOT_HELD_YET]
    return Share(
        gpu=question.gpu,
        release=question.release,
        utilization=resolved.gpu_memory_utilization,
        requested_bytes=rank.requested_memory_bytes,
        consumed_bytes=sum(taken),
        kv_cache_memory_bytes=fixed,
    )


def limiting_cache(caches: Sequence[StageCache]) -> StageCache:
    """Return the stage with the fewest blocks; vLLM uses its number on all stages."""
    holders = [cache for cache in caches if cache.bytes_per_block] or list(caches)
    return min(holders, key=lambda cache: cache.num_blocks)


def longest_request(caches: Sequence[StageCache], limit: int, request: Request) -> int:
    """Return the largest length up to `limit` that every stage holds; 0 when none."""
    holders = [cache for cache in caches if cache.bytes_per_block] or caches
    return min(cache.longest_request(limit, request) for cache in holders)


def _cache_error(
    caches: Sequence[StageCache],
    request: Request,
    whole: Sequence[LayerGroup],
    max_num_seqs: int,
) -> VLLMError | None:
    error = capacity.check(caches, request)
    if error is not None or not max_num_seqs:
        return error
    num_blocks = limiting_cache(caches).num_blocks
    return capacity.check_state_blocks(whole, num_blocks, max_num_seqs)


def _too_close(
    stages: Sequence[Stage],
    request: Request,
    device: str,
    whole: Sequence[LayerGroup],
) -> VLLMError:
    """Describe a start whose request does not fit at the low end of the range."""
    tight = limiting_cache([stage.low for stage in stages])
    wide = limiting_cache([stage.high for stage in stages])
    longest = longest_request(
        [stage.low for stage in stages], request.max_model_len, request
    )
    sure = (
        f"max_model_len={longest} starts even then"
        if longest
        else "no length starts then"
    )
    return VLLMError(
        kind="too_close",
        message="Too close to call: one request of "
        f"{counted(request.max_model_len, 'tokens')} needs "
        f"{format_gib(tight.needed_bytes(request))} of KV cache, and between "
        f"{format_gib(tight.usable_bytes)} and {format_gib(wide.usable_bytes)} are "
        f"expected to be left. At the low end it does not start; {sure}. "
        f"{_first_start(stages, request, whole)}A start on the {device} itself decides "
        "it.",
    )


def _first_start(
    stages: Sequence[Stage], request: Request, whole: Sequence[LayerGroup]
) -> str:
    """Say that only a first start is in doubt, where that is so."""
    if not any(open_bytes(stage.rank.variants) for stage in stages):
        return ""
    later = [
        stage.cache.holding(stage.rank.of("compile_cache", "warm")[1])
        for stage in stages
    ]
    if _cache_error(later, request, whole, 0) is not None:
        return ""
    return (
        "Only a first start is in doubt, which compiles the model: its compiled model "
        "stays, so that the next start has more room. "
    )


def _free_bytes(question: Question, stages: Sequence[Stage]) -> int:
    """Return the free memory at vLLM's first check: as given, or less the context.

    The least that published starts had in use there: only what is certain is refused.
    """
    gpu = question.gpu
    if gpu.free_memory_bytes is not None:
        return gpu.free_memory_bytes
    taken = [
        line.low_bytes
        for stage in stages
        for line in stage.rank.outside
        if line.name == CUDA_CONTEXT
    ]
    return gpu.total_memory_bytes - max(taken, default=0)


def _memory_error(
    question: Question, resolved: ResolvedSettings, stages: Sequence[Stage]
) -> VLLMError | None:
    """Return the error for too little free memory, or none left for the weights."""
    gpu = question.gpu
    if gpu.is_cpu:
        rank = stages[0].rank
        from planner.memory.cpu_account import memory_error  # noqa: PLC0415 - the CPU build only

        return memory_error(_share(question, resolved, rank), rank.weights_bytes)
    requested = stages[0].rank.requested_memory_bytes
    free = _free_bytes(question, stages)
    if free < requested:
        utilization = resolved.gpu_memory_utilization
        device = "cuda:0 " if question.release.has(_NAMES_THE_DEVICE) else ""
        return VLLMError(
            kind="free_memory",
            message=f"Free memory on device {device}({vllm_gib(free)}/"
            f"{vllm_gib(gpu.total_memory_bytes)} GiB) on startup is less than desired "
            f"GPU memory utilization ({utilization}, {vllm_gib(requested)} GiB). "
            "Decrease GPU memory utilization or reduce GPU memory used by other "
            "processes.",
        )
    heaviest = max(stage.rank.allocated_weights_bytes for stage in stages)
    if heaviest > free:
        return VLLMError(
            kind="weights",
            # PyTorch also names the failing allocation, which cannot be predicted.
            message="torch.OutOfMemoryError: CUDA out of memory. (The weights take "
            f"{vllm_gib(heaviest)} GiB on each GPU, of which {vllm_gib(free)} GiB are "
            "free.)",
        )
    return None


def _fit_length(
    caches: Sequence[StageCache],
    resolved: ResolvedSettings,
    error: VLLMError | None,
    release: Release,
) -> tuple[Request, VLLMError | None]:
    """Shorten max_model_len to what fits, where it is auto.

    Source: vLLM 0.33.0 `v1/core/kv_cache_planning.py` _auto_fit_max_model_len.
    """
    length = resolved.max_model_len
    keeps_all = release.has(_KEEPS_TOKENS_IN_FLIGHT)
    batches = resolved.max_concurrent_batches if keeps_all else 1
    requested = Request(
        max_model_len=length,
        max_in_flight_tokens=batches * resolved.max_num_batched_tokens,
        max_num_encoder_input_tokens=resolved.max_num_batched_tokens,
        decode_context_parallel_size=resolved.decode_context_parallel_size,
    )
    if not resolved.is_max_model_len_auto or error is not None:
        return requested, error
    held = [cache for cache in caches if cache.bytes_per_block]
    fitted = min((c.longest_request(length, requested) for c in held), default=length)
    if fitted:
        return replace(requested, max_model_len=fitted), None
    return requested, VLLMError(
        kind="no_kv",
        message="Cannot auto-fit max_model_len: not enough GPU memory available to "
        "serve even a single token. Try increasing `gpu_memory_utilization`.",
    )


def alternatives(
    stages: Sequence[Stage],
    request: Request,
    whole: Sequence[LayerGroup],
    release: Release,
) -> tuple[Alternative, ...]:
    """Return what the KV cache is in either case; empty where nothing differs."""
    return tuple(
        _alternative(stages, request, whole, release, variant)
        for variant in _variants(stages)
    )


def _variants(stages: Sequence[Stage]) -> Iterator[Variant]:
    """Yield each argument and value once, of the first stage where it differs."""
    found: dict[tuple[str, str], Variant] = {}
    for stage in stages:
        for variant in stage.rank.variants:
            found.setdefault((variant.argument, variant.value), variant)
    yield from found.values()


def _alternative(
    stages: Sequence[Stage],
    request: Request,
    whole: Sequence[LayerGroup],
    release: Release,
    variant: Variant,
) -> Alternative:
    named = (variant.argument, variant.value)
    caches = [stage.with_variant(*named) for stage in stages]
    limiting = limiting_cache(caches)
    groups = whole if release.has(GROUPS_ALL_RANKS) else limiting.groups
    figures = capacity.capacity(groups, limiting.num_blocks, request, release)
    sizes = [stage.rank.of(*named) for stage in stages]
    return Alternative(
        argument=variant.argument,
        value=variant.value,
        is_planned=not variant.more_bytes,
        starts=capacity.check(caches, request) is None,
        available_kv_cache_bytes=min(size for size, _low, _high in sizes),
        available_kv_cache_low_bytes=min(low for _size, low, _high in sizes),
        available_kv_cache_high_bytes=min(high for _size, _low, high in sizes),
        num_gpu_blocks=figures.num_gpu_blocks,
        kv_cache_size_tokens=figures.kv_cache_size_tokens,
        max_concurrency=figures.max_concurrency,
    )
