"""The least time of a step: bytes over bandwidth, operations over the peak."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.planning.load import Load
from planner.solve.speed.reach import Reach
from planner.solve.speed.work import StageWork, Work
from planner.values import frozen

Seen = Callable[[Reach], float]
"""Number of earlier tokens that a layer attends to, averaged over the steps."""
_MOST_REQUESTS = 1 << 20


@frozen
class Peaks:
    """The peak rates of a GPU."""

    bandwidth: int
    """Memory bandwidth in bytes per second."""
    flops: Mapping[str, int]
    """Operations per second by dtype; empty: unknown."""
    dtype: str
    """The model's dtype, which is used where the GPU has no faster one."""

    @classmethod
    def of(cls, gpu: GPU, dtype: str) -> Peaks:
        """Return the peaks of a GPU.

        Raises:
            PlannerError: when its bandwidth is unknown.
        """
        bandwidth = gpu.memory_bandwidth_bytes_per_second
        if bandwidth is None:
            raise PlannerError(
                f"memory_bandwidth_bytes_per_second of {gpu.name} is not known, and "
                "without it there is no bound. Give it: planner.GPU(name=..., "
                "memory_bandwidth_bytes_per_second=2_000 * 10**9, ...)."
            )
        return cls(bandwidth=bandwidth, flops=dict(gpu.dense_flops), dtype=dtype)

    def peak(self, dtype: str) -> int | None:
        """Return the peak for a dtype; None: unknown.

        A GPU without units for a narrow dtype computes in the model's, and float32 gets
        the peak of float16: the bound may be too high, never too low.
        """
        for name in (dtype, self.dtype, "bfloat16", "float16"):
            if name in self.flops:
                return self.flops[name]
        return None

    def seconds(self, flops: Mapping[str, float]) -> float | None:
        """Return the least time of operations; None without a peak."""
        total = 0.0
        for dtype, count in flops.items():
            peak = self.peak(dtype)
            if peak is None:
                return None
            total += count / peak
        return total


@dataclass(frozen=True, kw_only=True)
class Step:
    """Bytes and operations of one rank in a step, by pipeline stage."""

    peaks: Peaks
    moved: tuple[float, ...]
    """Bytes moved by each pipeline stage."""
    flops: tuple[Mapping[str, float], ...]
    """Operations of each stage, by dtype."""

    @cached_property
    def memory_seconds(self) -> float:
        """Time of the bytes of all stages, one after the other."""
        return sum(self.moved) / self.peaks.bandwidth

    @cached_property
    def compute_seconds(self) -> float | None:
        """Time of their operations; None without a peak."""
        found = [self.peaks.seconds(flops) for flops in self.flops]
        known = [seconds for seconds in found if seconds is not None]
        return sum(known) if len(known) == len(found) else None

    @cached_property
    def stage_seconds(self) -> tuple[float, ...]:
        """Least time of each stage: the longer of both."""
        return tuple(
            max(moved / self.peaks.bandwidth, self.peaks.seconds(flops) or 0.0)
            for moved, flops in zip(self.moved, self.flops, strict=True)
        )

    @property
    def seconds(self) -> float:
        """Time of a token through all stages, one after the other."""
        return sum(self.stage_seconds)

    @property
    def slowest_seconds(self) -> float:
        """Time of the slowest stage."""
        return max(self.stage_seconds)


def decode_step(  # noqa: PLR0913 - what a step consists of
    work: Work,
    peaks: Peaks,
    requests: float,
    seen: Seen,
    shared_tokens: int = 0,
    *,
    tokens: int = 1,
) -> Step:
    """Return a step that computes `tokens` of each request: one, or those it verifies.

    Keys and values are read once for all tokens of a request. Replicas share the
    requests evenly; their ranks share the experts. What requests have in common need be
    read once, as cascade attention does.
    """
    each = requests / work.replicas
    again = max(each - 1, 0)
    moved = [
        stage.weight_bytes(requests * tokens)
        + each * kv_bytes(stage, seen)
        - again * _shared_bytes(stage, shared_tokens)
        for stage in work.stages
    ]
    flops = [
        _scaled(
            each * tokens,
            stage.flops,
            stage.head_flops,
            {peaks.dtype: sum(a.decode_flops * seen(a.reach) for a in stage.attention)},
        )
        for stage in work.stages
    ]
    return Step(peaks=peaks, moved=tuple(moved), flops=tuple(flops))


def least_latency(
    work: Work, peaks: Peaks, requests: float, seen: Seen, shared_tokens: int = 0
) -> float:
    """Return the least time between two tokens of a request.

    There are as many batches as pipeline stages: a token passes all stages, and each
    stage serves every request in the meantime.
    """
    share = decode_step(work, peaks, requests / len(work.stages), seen, shared_tokens)
    whole = decode_step(work, peaks, requests, seen, shared_tokens)
    return max(share.seconds, whole.slowest_seconds)


def kv_bytes(stage: StageWork, seen: Seen) -> float:
    """Return the KV cache and states that one request reads on a stage's rank."""
    return sum(
        layers.state_bytes + layers.token_bytes * seen(layers.reach)
        for layers in stage.attention
    )


def _shared_bytes(stage: StageWork, tokens: int) -> float:
    """Return the KV cache of a common beginning, of layers that attend to all of it."""
    whole = (one for one in stage.attention if one.reach.limit is None)
    return tokens * sum(layers.token_bytes for layers in whole)


def prompt_steps(
    work: Work, peaks: Peaks, tokens: int, most_tokens: int, cached_tokens: int = 0
) -> Step:
    """Return all prefill steps of a prompt, each with at most `most_tokens`.

    Every step reads the weights; keys and values are written once. Of the beginning
    that is found in the cache, nothing is computed.
    """
    whole_tokens, tokens = tokens, tokens - cached_tokens
    whole, rest = divmod(tokens, most_tokens)
    sizes = [(most_tokens, whole), (rest, 1 if rest else 0)]
    moved = [
        sum(count * stage.weight_bytes(size) for size, count in sizes if count)
        + tokens * sum(layers.token_bytes for layers in stage.attention)
        for stage in work.stages
    ]
    flops = [
        _scaled(
            1.0,
            {dtype: tokens * count for dtype, count in stage.flops.items()},
            stage.head_flops,
            {
                peaks.dtype: sum(
                    a.prefill_flops
                    * (a.reach.total(whole_tokens) - a.reach.total(cached_tokens))
                    for a in stage.attention
                )
            },
        )
        for stage in work.stages
    ]
    return Step(peaks=peaks, moved=tuple(moved), flops=tuple(flops))


def _scaled(times: float, *parts: Mapping[str, float]) -> dict[str, float]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: times * sum(p.get(name, 0.0) for p in parts) for name in names}


def mean_of(load: Load) -> Seen:
    """Return the tokens attended to, averaged over the generation of the answer.

    Of requests with a mean, those of the request that is as long as the mean.
    """
    begin, end = load.mean_prompt, load.mean_prompt + load.mean_output
    if end == begin:
        return lambda reach: float(reach.at(begin))
    return lambda reach: (reach.total(end) - reach.total(begin)) / (end - begin)


def end_of(load: Load) -> Seen:
    """Return the tokens attended to when the last token is generated."""
    return lambda reach: float(reach.at(load.request_tokens))


def compute_limits_from(
    work: Work, peaks: Peaks, seen: Seen, shared_tokens: int = 0
) -> int | None:
    """Return the fewest requests at once for which computing takes longer than reading.

    Operations grow linearly with requests, bytes at most linearly: once computing takes
    longer, it stays so, and bisection finds the first. None: never, or unknown.
    """

    def is_beyond(requests: int) -> bool:
        step = decode_step(work, peaks, requests, seen, shared_tokens)
        computing = step.compute_seconds
        return computing is not None and computing >= step.memory_seconds

    if not is_beyond(_MOST_REQUESTS):
        return None
    low, high = 0, _MOST_REQUESTS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_beyond(middle) else (middle, high)
    return high


def missing_peaks(work: Work, peaks: Peaks) -> tuple[str, ...]:
    """Return the dtypes of the computation that have no known peak."""
    names: Iterable[str] = dict.fromkeys(
        name
        for stage in work.stages
        for name in (*stage.flops, *stage.head_flops, peaks.dtype)
    )
    return tuple(name for name in names if peaks.peak(name) is None)
