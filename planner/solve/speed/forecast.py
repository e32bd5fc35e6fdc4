"""speed_forecast(): how fast a plan will be, with a range, beside the bound."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from planner.errors import PlannerError
from planner.given import named_in_errors
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.solve.speed.bound import speed_bound
from planner.solve.speed.form import Point, Times, figures_of, point_of, times_of
from planner.solve.speed.measured import (
    Near,
    near,
    own_factors,
    parameters,
    range_factors,
)
from planner.solve.speed.own import OwnSpeed, own_of
from planner.solve.speed.running import Running, Same, known_work, running
from planner.solve.speed.speed import SpeedBound
from planner.solve.speed.step import Peaks, least_latency, mean_of, missing_peaks
from planner.units import counted
from planner.values import frozen
from planner.views import Framed

FORECAST_CAUTION = (
    "A forecast: four of five measurements of sources that it was not fitted to lie in "
    "its range. It knows nothing of other load on the machine, power caps, routing and "
    "the network."
)
ONE, MODERATE, SATURATED = "one request", "moderate", "saturated"
_NOTHING = {"low": None, "value": None, "high": None}


@frozen
class Range:
    """A figure, and the range in which four of five measurements are."""

    low: float
    value: float
    high: float

    def times(self, factor: float) -> Range:
        """Return the range in another unit."""
        return Range(
            low=factor * self.low, value=factor * self.value, high=factor * self.high
        )

    def to_dict(self) -> dict[str, float]:
        """Return low, value and high."""
        return {"low": self.low, "value": self.value, "high": self.high}


@frozen
class SpeedForecast(Framed):
    """How fast a plan will be under a load; None: only a bound is known."""

    plan: Plan
    load: Load
    regime: str
    """one request, moderate (all run at once) or saturated (some wait)."""
    requests: int
    """Running at once, likely."""
    next_token_seconds: Range | None
    """Time between two tokens of a request, prompts of others included."""
    first_token_seconds: Range | None
    """From a request to its first token, where all requests come together."""
    per_request_tokens_per_second: Range | None
    """After its first token."""
    total_tokens_per_second: Range | None
    """Output tokens of all requests, over the whole time of a request."""
    near: Near
    own_measurements: int
    """The user's own measurements of this start, which correct the forecast."""
    why: str
    """The arithmetic of the next token; empty without a forecast."""
    notes: tuple[str, ...]

    @property
    def bound(self) -> SpeedBound:
        """The speed that the GPUs cannot exceed."""
        return _bound(Same(self.plan), self.load)

    @property
    def is_known(self) -> bool:
        """Whether there is a forecast, not only a bound."""
        return self.first_token_seconds is not None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: milliseconds and tokens per second, and the bound."""
        return {
            "caution": FORECAST_CAUTION,
            "model": self.plan.name,
            "gpu": self.plan.gpu.name,
            "load": self.load.to_dict(),
            "basis": "measured" if self.is_known else "bound",
            "regime": self.regime,
            "requests": self.requests,
            "tpot_ms": _plain(self.next_token_seconds, 1000),
            "ttft_ms": _plain(self.first_token_seconds, 1000),
            "output_tokens_per_s": _plain(self.total_tokens_per_second),
            "per_request_tokens_per_s": _plain(self.per_request_tokens_per_second),
            "near": {
                "measurements": self.near.measurements,
                "sources": self.near.sources,
                "of_class": self.near.of_class,
                "sources_of_class": self.near.sources_of_class,
                "words": self.near.words,
            },
            "own_measurements": self.own_measurements,
            "why": self.why,
            "notes": list(self.notes),
            "bound": self.bound.to_dict(),
        }


@named_in_errors
def speed_forecast(
    plan: Plan, load: Load | None = None, *, acceptance_length: float | None = None
) -> SpeedForecast:
    """Return how fast a plan will be under a load, with a range of 80 %.

    Few parameters, fitted to published measurements, over what a step reads and
    computes; `docs/speed.md` says how, and how far off it was.

    Args:
        plan: the plan.
        load: prompt and output tokens of a request, and the number of requests at once;
            by default the plan's own.
        acceptance_length: with speculative decoding, the tokens that a request gains in
            a step on average, which vLLM logs as "Mean acceptance length"; without it
            there is no forecast.

    Raises:
        PlannerError: without a load, for a plan or a length that vLLM refuses, for a
            GPU of unknown bandwidth, or for an acceptance length that cannot be.
    """
    load = load or plan.load
    if load is None:
        raise PlannerError(
            "speed_forecast() needs a load: give planner.Load(prompt_tokens=3000, "
            "output_tokens=1000, requests=16), or plan with load=."
        )
    drafts = _drafts(plan, acceptance_length)
    found = near(plan)
    is_open = bool(drafts) and acceptance_length is None
    at_once, times, point, own = running(plan, load), None, None, None
    if _is_known(plan, found) and not is_open and found.kind is not None:
        point = point_of(plan, load, found.kind.memory, drafts)
        times = times_of(point, parameters(), acceptance_length or 1.0)
        own = own_of(plan)
    regime = regime_of(load, at_once.likely)
    return SpeedForecast(
        plan=plan,
        load=load,
        regime=regime,
        requests=at_once.likely,
        **_ranges(plan, load, at_once, times, own),
        near=found,
        own_measurements=0 if own is None else own.measurements,
        why="" if times is None or point is None else _why(times, point),
        notes=tuple(
            _notes(plan, load, at_once, is_open=is_open, is_drafted=drafts > 0)
        ),
    )


def known_forecast(plan: Plan, load: Load | None) -> SpeedForecast | None:
    """Return the forecast of a plan that starts; None where there is none.

    That is so without a load or an answer, and where nothing near was measured.
    """
    if load is None or not load.output_tokens or not plan.fits:
        return None
    try:
        found = speed_forecast(plan, load)
    except PlannerError:
        return None
    return found if found.is_known else None


def plain_figures(plan: Plan, load: Load) -> dict[str, float]:
    """Return the forecast without own measurements, by the names of its figures.

    Raises:
        PlannerError: where there is no forecast.
    """
    found = near(plan)
    if not _is_known(plan, found) or found.kind is None or _drafts(plan, None):
        raise PlannerError(
            "There is no forecast of this start that a measurement could correct: "
            "nothing near it was measured, or it drafts tokens."
        )
    return figures_of(times_of(point_of(plan, load, found.kind.memory), parameters()))


@lru_cache(maxsize=64)  # a table asks several times for each of its rows
def _bound(plan: Same, load: Load) -> SpeedBound:
    return speed_bound(plan.plan, load)


def regime_of(load: Load, at_once: int) -> str:
    """Return the regime of a load of which so many requests run at once."""
    if load.requests == 1:
        return ONE
    return SATURATED if load.requests > at_once else MODERATE


def _peaks(plan: Plan) -> Peaks:
    resolved = plan.resolved
    return Peaks.of(plan.gpu, "bfloat16" if resolved is None else resolved.dtype)


def _drafts(plan: Plan, acceptance_length: float | None) -> int:
    """Return the tokens that a step verifies for each request besides its own.

    Raises:
        PlannerError: for an acceptance length that cannot be.
    """
    config = plan.settings.speculative_config
    given = None if config is None else config.get("num_speculative_tokens")
    drafts = 0 if config is None else given if isinstance(given, int) else 1
    if acceptance_length is not None and not 1 <= acceptance_length <= 1 + drafts:
        most = "1, without speculative decoding" if not drafts else f"{1 + drafts}"
        raise PlannerError(
            f"acceptance_length={acceptance_length!r}: from 1 to {most}."
        )
    return drafts


def _is_known(plan: Plan, found: Near) -> bool:
    """Whether something near was measured, and the GPU's peak is known."""
    missing = missing_peaks(known_work(Same(plan)), _peaks(plan))
    return bool(found.kind is not None and found.of_class and not missing)


def _ranges(
    plan: Plan,
    load: Load,
    at_once: Running,
    times: Times | None,
    own: OwnSpeed | None,
) -> dict[str, Range | None]:
    """Return the figures with their ranges, none beyond the bound."""
    names = (
        "next_token_seconds",
        "first_token_seconds",
        "per_request_tokens_per_second",
        "total_tokens_per_second",
    )
    if times is None:
        return dict.fromkeys(names)
    factors = dict(range_factors(regime_of(load, at_once.likely)))
    if own is not None:
        factors |= {name: own_factors()[name] for name in own.ratios}
    figures = {
        name: value if own is None else value * own.ratio(name)
        for name, value in figures_of(times).items()
    }
    first = _range(figures["first_token"], factors["first_token"])
    if not load.output_tokens:
        return {**dict.fromkeys(names), "first_token_seconds": first}
    least, most = _limits(plan, load, at_once, times)
    token = _range(figures["next_token"], factors["next_token"], least=least)
    total = _range(figures["total"], factors["total"], most=most)
    each = Range(low=1 / token.high, value=1 / token.value, high=1 / token.low)
    return dict(zip(names, (token, first, each, total), strict=True))


def _range(
    value: float,
    factor: float,
    *,
    least: float = 0.0,
    most: float = float("inf"),
) -> Range:
    value = min(max(value, least), most)
    low, high = max(value / factor, least), min(value * factor, most)
    return Range(low=low, value=value, high=high)


def _limits(
    plan: Plan, load: Load, at_once: Running, times: Times
) -> tuple[float, float]:
    """Return the least time of a next token, and the most tokens per second."""
    work, peaks, seen = known_work(Same(plan)).least(), _peaks(plan), mean_of(load)
    cached = load.reused_tokens if _caches_prefixes(plan) else 0
    gained = times.gained
    least = least_latency(work, peaks, at_once.least, seen, cached) / gained
    slowest = least_latency(work, peaks, at_once.most, seen, cached) / gained
    return least, at_once.most / slowest


def _caches_prefixes(plan: Plan) -> bool:
    return plan.resolved is not None and plan.resolved.enable_prefix_caching


def _why(times: Times, point: Point) -> str:
    parts = times.parts
    each = f" for {times.gained:g} tokens" if times.gained > 1 else ""
    texts = [
        f"a step of {counted(point.running, 'requests')}{each}: reading "
        f"{_ms(parts.reading)} and computing {_ms(parts.computing)}, "
        "as the root of the sum of their squares",
        f"{counted(point.layers, 'layers')} {_ms(parts.layers)}",
        f"requests {_ms(parts.requests)}",
    ]
    if parts.reducing:
        texts.append(f"all-reduces over {point.link} {_ms(parts.reducing)}")
    if times.others_seconds:
        texts.append(f"prompts of others {_ms(times.others_seconds)}")
    return " + ".join(texts)


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms"


def _notes(
    plan: Plan, load: Load, at_once: Running, *, is_open: bool, is_drafted: bool
) -> Iterator[str]:
    if not plan.fits:
        yield f"The plan itself does not start: {plan.outcome}."
    if at_once.likely < load.requests:
        yield (
            f"About {at_once.likely:,} of {counted(load.requests, 'requests')} run at "
            "once, the others wait for their first token."
        )
    if is_open:
        yield (
            "With speculative decoding the speed depends on how many drafted tokens "
            "are accepted: give acceptance_length, which vLLM logs as "
            '"Mean acceptance length".'
        )
    elif is_drafted:
        yield (
            "The time in which drafts are made is not counted, and the bound is that "
            "of one token a step."
        )


def _plain(
    range_: Range | None, factor: float = 1.0
) -> dict[str, float] | dict[str, None]:
    return dict(_NOTHING) if range_ is None else range_.times(factor).to_dict()
