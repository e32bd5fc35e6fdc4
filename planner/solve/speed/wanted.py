"""A speed that a start has to reach, judged by its forecast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.errors import PlannerError
from planner.values import frozen

if TYPE_CHECKING:
    from planner.solve.speed.forecast import Range, SpeedForecast


@frozen
class WantedSpeed:
    """What each request has to get; None: anything.

    Raises:
        PlannerError: for anything but positive numbers.
    """

    tokens_per_second_each: float | None = None
    """Of a request, after its first token, at least."""
    first_token_seconds: float | None = None
    """From a request to its first token, at most."""

    def __post_init__(self) -> None:
        for name in ("tokens_per_second_each", "first_token_seconds"):
            value: object = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (is_number and getattr(self, name) > 0):
                raise PlannerError(f"{name}={value!r}: a positive number is needed.")

    @property
    def is_any(self) -> bool:
        """Whether every speed will do."""
        return self.tokens_per_second_each is None and self.first_token_seconds is None

    def lacks(self, forecast: SpeedForecast | None) -> str:
        """Return what is too slow by the value of a forecast; empty: nothing is."""
        return "; ".join(self._lacks(forecast, is_sure=False))

    def is_sure(self, forecast: SpeedForecast | None) -> bool:
        """Return whether even the slow ends of the ranges will do."""
        return not any(self._lacks(forecast, is_sure=True))

    def _lacks(self, forecast: SpeedForecast | None, *, is_sure: bool) -> Iterator[str]:
        if self.is_any:
            return
        if forecast is None or not forecast.is_known:
            yield "its speed is not known: nothing near it was measured"
            return
        least = self.tokens_per_second_each
        each = forecast.per_request_tokens_per_second
        if least is not None and not _reaches(each, least, is_sure=is_sure):
            has = "none" if each is None else f"about {each.value:,.3g}"
            yield f"{has} tokens per second for each request, {least:,.3g} are wanted"
        first, most = forecast.first_token_seconds, self.first_token_seconds
        if most is None or first is None:
            return
        if (first.high if is_sure else first.value) > most:
            has = f"about {first.value:,.3g} s"
            yield f"{has} to the first token, {most:,.3g} s is wanted"


def _reaches(found: Range | None, least: float, *, is_sure: bool) -> bool:
    if found is None:
        return False
    return (found.low if is_sure else found.value) >= least


ANY_SPEED = WantedSpeed()
"""Nothing is wanted."""
