"""The result of advise(): changes that help, each planned again, and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.late import late
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.solve.advice.situation import Burden

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceItem:
    """One change that helps, and its effect.

    Gains are differences to `Advice.plan`; they are exact, since `plan` is
    `that_plan.changed(**changes)`.
    """

    kind: str
    """The argument that changes; two of them for a pair."""
    title: str
    """What to do, in words."""
    changes: Mapping[str, Any]
    """Keyword arguments for `Plan.changed`; None removes an argument."""
    flags: str
    """Flags to add to the command line, or to change there; may be empty."""
    removed_flags: str
    """Flags to remove from the command line; mostly empty."""
    cost: str
    """Its cost, in one sentence."""
    plan: Plan
    """The plan with the changes."""
    gain_bytes: int
    """Gain in KV cache on the limiting rank; negative where it shrinks."""
    gain_tokens: int
    """Gain in tokens of the KV cache, as vLLM counts them."""
    gain_requests: int
    """Gain in whole requests at once, of `Advice.request_tokens` each."""
    starts: bool
    """Whether vLLM starts with it, over the whole range of the estimate."""
    serves: bool
    """Whether it serves the load; without a load, whether it starts."""
    burden: Burden
    """Its burden on the user."""

    @property
    def needs_hardware(self) -> bool:
        """Whether it requires more GPUs, or another one."""
        return self.burden is Burden.HARDWARE


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Changes that help a plan, best first."""

    plan: Plan
    """The plan to improve."""
    load: Load | None
    request_tokens: int
    """Length of the requests that are counted: the load's, else max_model_len."""
    requests: int
    """How many of them the plan holds at once as it is; 0 when it does not start."""
    items: tuple[AdviceItem, ...]
    """Single changes, best first: those that start it, by their burden."""
    pair: AdviceItem | None
    """Two changes together, where no single one suffices or they gain clearly more."""
    warnings: tuple[str, ...]
    """Warnings about common pitfalls, with this plan's figures."""

    @property
    def is_served(self) -> bool:
        """Whether the plan already starts and serves the load."""
        if self.load is None:
            return self.plan.fits
        return self.requests >= self.load.requests

    @property
    def best(self) -> AdviceItem | None:
        """Return the change to try first; None where nothing helps.

        Where something must change, a pair of settings precedes other hardware.
        """
        first, pair = self.items[0] if self.items else None, self.pair
        if first is None or pair is None or self.is_served or not pair.serves:
            return first or pair
        return first if first.serves and first.burden <= pair.burden else pair

    @property
    def offered(self) -> tuple[AdviceItem, ...]:
        """Return all changes in one list; the pair comes first where it is best."""
        if self.pair is None:
            return self.items
        if self.best is self.pair:
            return (self.pair, *self.items)
        return (*self.items, self.pair)

    @property
    def helps_to_start(self) -> bool:
        """Whether the plan starts, or any of the changes makes it start."""
        return self.plan.fits or any(item.starts for item in self.offered)

    def to_dict(self) -> dict[str, Any]:
        """Return the advice as plain values."""
        return late("Advice.to_dict", self)

    def to_frame(self) -> DataFrame:
        """Return one row per change as a pandas frame.

        Raises:
            PlannerError: when pandas is not installed.
        """
        return late("Advice.to_frame", self)

    def __str__(self) -> str:
        """Return the advice as text for a terminal."""
        return late("Advice.__str__", self)

    def _repr_mimebundle_(self, **_options: object) -> dict[str, Any]:
        html: str = late("Advice._repr_html_", self)
        return {"text/plain": str(self), "text/html": html}
