"""What advise() answers: changes that help, each planned again, and what to mind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.advice.candidate import Burden
from planner.load import Load
from planner.result import Plan

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceItem:
    """One change that helps, and what it comes to.

    Gains are differences to the plan that advice was asked for; they are exact, since
    `plan` is `that_plan.changed(**changes)`.
    """

    kind: str
    """The argument that changes; two of them for a pair."""
    title: str
    """What to do, in words."""
    changes: Mapping[str, Any]
    """Keyword arguments for `Plan.changed`; None takes an argument back."""
    flags: str
    """What to add to the command line, or to write there instead; may be empty."""
    removed_flags: str
    """What to leave out of the command line; mostly empty."""
    cost: str
    """What one gives for it, in one sentence."""
    plan: Plan
    """Planned again with the changes."""
    gain_bytes: int
    """More KV cache on the limiting rank; negative where it shrinks."""
    gain_tokens: int
    """More tokens in the KV cache, as vLLM counts them."""
    gain_requests: int
    """More whole requests at once, of the length that `Advice.request_tokens` says."""
    starts: bool
    """Whether vLLM starts with it, at every point of the estimate's range."""
    serves: bool
    """Whether it serves the load; without a load, whether it starts."""
    burden: Burden
    """How much it asks of its user."""

    @property
    def needs_hardware(self) -> bool:
        """Whether it takes more GPUs, or another one."""
        return self.burden is Burden.HARDWARE


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Changes that help a plan, best first."""

    plan: Plan
    """What advice was asked for."""
    load: Load | None
    request_tokens: int
    """Length of the requests that are counted: the load's, else max_model_len."""
    requests: int
    """How many of them the plan holds at once as it is; 0 when it does not start."""
    items: tuple[AdviceItem, ...]
    """Single changes: first those that start it, the least costly of them first."""
    pair: AdviceItem | None
    """Two changes together, where no single one suffices or both gain clearly more."""
    warnings: tuple[str, ...]
    """What people learn the hard way, with this plan's figures."""

    @property
    def is_served(self) -> bool:
        """Whether nothing needs to change: the plan starts, and serves the load."""
        if self.load is None:
            return self.plan.fits
        return self.requests >= self.load.requests

    @property
    def best(self) -> AdviceItem | None:
        """Return what to try first; None where nothing helps.

        Where something must change, two settings come before other hardware.
        """
        first, pair = self.items[0] if self.items else None, self.pair
        if first is None or pair is None or self.is_served or not pair.serves:
            return first or pair
        return first if first.serves and first.burden <= pair.burden else pair

    @property
    def offered(self) -> tuple[AdviceItem, ...]:
        """Return every change as a list of its own; the pair first where it is best."""
        if self.pair is None:
            return self.items
        if self.best is self.pair:
            return (self.pair, *self.items)
        return (*self.items, self.pair)

    @property
    def helps_to_start(self) -> bool:
        """Whether the plan starts, or a change here makes it start."""
        return self.plan.fits or any(item.starts for item in self.offered)

    def to_dict(self) -> dict[str, Any]:
        """Return the advice as plain values."""
        from planner.presentation.advice import advice_dict  # noqa: PLC0415

        return advice_dict(self)

    def to_frame(self) -> DataFrame:
        """Return one row per change as a pandas frame.

        Raises:
            PlannerError: when pandas is not installed.
        """
        from planner.presentation.advice import advice_frame  # noqa: PLC0415

        return advice_frame(self)

    def __str__(self) -> str:
        """Return the advice as text for a terminal."""
        from planner.presentation.advice_text import advice_text  # noqa: PLC0415

        return advice_text(self)

    def _repr_mimebundle_(self, **_options: object) -> dict[str, Any]:
        from planner.presentation.advice_html import advice_html  # noqa: PLC0415

        return {"text/plain": str(self), "text/html": advice_html(self)}
