"""How long a step takes at least: bytes over bandwidth, operations over the peak."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from planner.errors import PlannerError
from planner.gpu import GPU
from planner.load import Load
from planner.roofline.reach import Reach
from planner.roofline.work import StageWork, Work

Seen = Callable[[Reach], float]
"""How many earlier tokens a layer looks at, on average over the steps meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """What a GPU can do at most."""

    bandwidth: int
    """Bytes of its memory per second."""
    flops: Mapping[str, int]
    """Operations per second by dtype; empty: not known."""
    dtype: str
    """Of the model, in which is computed what no faster dtype is there for."""

    @classmethod
    def of(cls, gpu: GPU, dtype: str) -> Peaks:
        """Return the peaks of a GPU.

        Raises:
            PlannerError: when its bandwidth is not known.
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
        """Return the peak for a dtype; None: not known.

        A GPU without units for a narrow dtype computes in the model's, and float32 is
        allowed what float16 is: a bound may promise too much, never too little.
        """
        for name in (dtype, self.dtype, "bfloat16", "float16"):
            if name in self.flops:
                return self.flops[name]
        return None

    def seconds(self, flops: Mapping[str, float]) -> float | None:
        """Return how long operations take at least; None without a peak."""
        total = 0.0
        for dtype, count in flops.items():
            peak = self.peak(dtype)
            if peak is None:
                return None
            total += count / peak
        return total


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one rank moves and computes in a step, stage by stage."""

    peaks: Peaks
    moved: tuple[float, ...]
    """Bytes of each pipeline stage."""
    flops: tuple[Mapping[str, float], ...]
    """Operations of each, by dtype."""

    @cached_property
    def memory_seconds(self) -> float:
        """How long the bytes of all stages take, one after the other."""
        return sum(self.moved) / self.peaks.bandwidth

    @cached_property
    def compute_seconds(self) -> float | None:
        """How long their operations take; None without a peak."""
        found = [self.peaks.seconds(flops) for flops in self.flops]
        known = [seconds for seconds in found if seconds is not None]
        return sum(known) if len(known) == len(found) else None

    @cached_property
    def stage_seconds(self) -> tuple[float, ...]:
        """How long each stage takes at least: the longer of both."""
        return tuple(
            max(moved / self.peaks.bandwidth, self.peaks.seconds(flops) or 0.0)
            for moved, flops in zip(self.moved, self.flops, strict=True)
        )

    @property
    def seconds(self) -> float:
        """How long a token takes through all stages, one after the other."""
        return sum(self.stage_seconds)

    @property
    def slowest_seconds(self) -> float:
        """How long the slowest stage takes, while the others do something else."""
        return max(self.stage_seconds)


def decode_step(work: Work, peaks: Peaks, requests: float, seen: Seen) -> Step:
    """Return a step in which each of so many requests gets one token.

    Replicas share the requests evenly; their ranks share the experts.
    """
    each = requests / work.replicas
    moved = [
        stage.weight_bytes(requests) + each * kv_bytes(stage, seen)
        for stage in work.stages
    ]
    flops = [
        _scaled(
            each,
            stage.flops,
            stage.head_flops,
            {peaks.dtype: sum(a.decode_flops * seen(a.reach) for a in stage.attention)},
        )
        for stage in work.stages
    ]
    return Step(peaks=peaks, moved=tuple(moved), flops=tuple(flops))


def kv_bytes(stage: StageWork, seen: Seen) -> float:
    """Bytes of the KV cache and states that one request reads on a stage's rank."""
    return sum(
        layers.state_bytes + layers.token_bytes * seen(layers.reach)
        for layers in stage.attention
    )


def prompt_steps(work: Work, peaks: Peaks, tokens: int, most_tokens: int) -> Step:
    """Return all steps together that read one prompt, at most so many tokens in each.

    Every step reads the weights; keys and values are written once.
    """
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
                    a.prefill_flops * a.reach.total(tokens) for a in stage.attention
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
    """Return what is looked at on average while the answer is written."""
    begin, end = load.prompt_tokens, load.request_tokens
    if end == begin:
        return lambda reach: float(reach.at(begin))
    return lambda reach: (reach.total(end) - reach.total(begin)) / (end - begin)


def end_of(load: Load) -> Seen:
    """Return what is looked at when the last token is written."""
    return lambda reach: float(reach.at(load.request_tokens))


def compute_limits_from(work: Work, peaks: Peaks, seen: Seen) -> int | None:
    """Return the fewest requests at once whose computing outlasts their reading.

    Bytes grow at most evenly with requests, operations evenly: once computing takes
    longer it stays so, and halving finds the first. None: never, or not known.
    """

    def is_beyond(requests: int) -> bool:
        step = decode_step(work, peaks, requests, seen)
        computing = step.compute_seconds
        return computing is not None and computing >= step.memory_seconds

    if not is_beyond(_MOST_REQUESTS):
        return None
    low, high = 0, _MOST_REQUESTS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_beyond(middle) else (middle, high)
    return high


_MOST_REQUESTS = 1 << 20


def missing_peaks(work: Work, peaks: Peaks) -> tuple[str, ...]:
    """Return the dtypes that are computed in and have no peak."""
    names: Iterable[str] = dict.fromkeys(
        name
        for stage in work.stages
        for name in (*stage.flops, *stage.head_flops, peaks.dtype)
    )
    return tuple(name for name in names if peaks.peak(name) is None)
