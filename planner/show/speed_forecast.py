"""A forecast of speed with its ranges, and the bound beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.show import speed
from planner.show.frames import make_frame
from planner.show.sheet import Answer, Listing, Part, Sheet, Table
from planner.show.speed import rate_text, seconds_text
from planner.show.verdict import subject
from planner.solve.speed.forecast import FORECAST_CAUTION
from planner.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pandas as pd

    from planner.solve.speed.forecast import Range, SpeedForecast

TITLES = ("Figure", "Forecast", "Range", "Bound")
_COLUMNS = (
    "Figure",
    ("Forecast", "pl-number"),
    ("Range", "pl-number"),
    ("Bound", "pl-number"),
)


_FIGURES = {
    "total_tokens_per_second": (
        "Tokens per second in total",
        "total_at_most_tokens_per_second",
    ),
    "per_request_tokens_per_second": (
        "Tokens per second and request",
        "per_request_at_most_tokens_per_second",
    ),
    "next_token_seconds": ("Next token", "decode_at_least_seconds"),
    "first_token_seconds": ("First token", "prefill_at_least_seconds"),
}
"""Name of a figure: what a reader sees instead, and the bound of the same."""


def frame(forecast: SpeedForecast) -> pd.DataFrame:
    """Return one row per figure that is forecast, in seconds and tokens per second."""
    rows = [
        (name, found.low, found.value, found.high)
        for name in _FIGURES
        if (found := _figure(forecast, name)) is not None
    ]
    return make_frame(rows, ("figure", "low", "value", "high"))


def headline(forecast: SpeedForecast) -> str:
    """Write the forecast for the load in one line; else the bound."""
    total, each = (
        forecast.total_tokens_per_second,
        forecast.per_request_tokens_per_second,
    )
    if total is None or each is None:
        return speed.headline(forecast.bound)
    wanted = forecast.load.requests
    of = f"{forecast.requests:,} of " if forecast.requests != wanted else ""
    return (
        f"About {_of(total, rate_text)} tokens per second, "
        f"{of}{counted(wanted, 'requests')} at once: "
        f"{_of(each, rate_text)} for each"
    )


def sheet(forecast: SpeedForecast) -> Sheet:
    """Say the forecast with its ranges, what was measured near it, and the bound."""
    return Sheet(tuple(_parts(forecast)))


def _parts(forecast: SpeedForecast) -> Iterator[Part]:
    bound = speed.sheet(forecast.bound)
    if not forecast.is_known:
        lacks = () if forecast.near.of_class else (forecast.near.words,)
        yield Listing((*lacks, *forecast.notes), sign="Note: ")
        yield from bound.parts
        return
    load = forecast.load
    yield Answer(
        tone="tight",
        symbol="≈",
        headline=headline(forecast),
        subject=(
            f"Forecast of the speed of {subject(forecast.plan)}: prompts of "
            f"{counted(load.prompt_tokens, 'tokens')}, answers of "
            f"{load.output_tokens:,}; {forecast.regime}"
        ),
        sentence=FORECAST_CAUTION,
    )
    yield Table(
        "Forecast, with ranges of 80 % and the bound",
        _COLUMNS,
        rows(forecast),
    )
    yield Listing(
        (*_own(forecast), forecast.near.words, f"Next token: {forecast.why}.")
    )
    yield Listing(forecast.notes, sign="Note: ")
    _, *rest = bound.parts
    yield "The bound is what no start exceeds; its arithmetic:"
    yield from rest


def rows(forecast: SpeedForecast) -> list[tuple[str, str, str, str]]:
    """Return figure, value, range and bound of everything that is forecast."""
    found = (_row(forecast, name) for name in _FIGURES)
    return [row for row in found if row is not None]


def _own(forecast: SpeedForecast) -> tuple[str, ...]:
    if not forecast.own_measurements:
        return ()
    count = counted(forecast.own_measurements, "measurements")
    return (f"Corrected by {count} of your own of this start.",)


def _row(forecast: SpeedForecast, name: str) -> tuple[str, str, str, str] | None:
    label, limit = _FIGURES[name]
    found, bound = _figure(forecast, name), getattr(forecast.bound, limit)
    if found is None:
        return None
    write = seconds_text if name.endswith("_seconds") else rate_text
    side = "at least" if name.endswith("_seconds") else "at most"
    low_to_high = f"{write(found.low)} to {write(found.high)}"
    return label, write(found.value), low_to_high, f"{side} {write(bound)}"


def _figure(forecast: SpeedForecast, name: str) -> Range | None:
    found: Range | None = getattr(forecast, name)
    return found


def _of(found: Range, write: Callable[[float], str]) -> str:
    return f"{write(found.value)} ({write(found.low)} to {write(found.high)})"
