"""The result of advise(): changes that help, each planned again, and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.planning.load import Load
from planner.planning.result import Plan
from planner.solve.advice.situation import Burden, CostClass
from planner.solve.speed.forecast import SpeedForecast, known_forecast
from planner.values import frozen
from planner.views import Framed, views_of


@frozen
class AdviceItem:
    """One change that helps, and its effect.

    Gains are differences to `Advice.plan`; they are exact, since `plan` is
    `that_plan.changed(**changes)`.
    """

    kind: str
    """The argument that changes; two of them for a combination."""
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
    """Gain in tokens of one engine's KV cache, as vLLM logs them."""
    gain_tokens_all_engines: int
    """Gain in tokens over all engines; with one engine, `gain_tokens`."""
    gain_requests: int
    """Gain in whole requests at once over all engines, of `Advice.request_tokens`."""
    starts: bool
    """Whether vLLM starts with it, over the whole range of the estimate."""
    serves: bool
    """Whether it serves the load; without a load, whether it starts."""
    burden: Burden
    """Its burden on the user."""

    @property
    def cost_class(self) -> CostClass:
        """The class of its cost, under which it is shown."""
        return self.burden.cost_class

    @property
    def is_estimated(self) -> bool:
        """Whether its model is an estimated checkpoint, whose name must be found."""
        model = self.plan.model
        files = None if model is None else model.files
        return "model" in self.changes and files is not None and files.is_estimated

    @property
    def needs_hardware(self) -> bool:
        """Whether it requires more GPUs, or another one."""
        return self.burden is Burden.HARDWARE


@frozen
class AdviceGroup:
    """Changes of one cost class, those that gain most first.

    Of more hardware that serves a load, the fewest GPUs come first.
    """

    cost_class: CostClass
    suffices: bool
    """Whether each of them serves; without a load, whether vLLM starts with it."""
    items: tuple[AdviceItem, ...]


@frozen
class Advice(Framed):
    """Changes that help a plan, best first."""

    plan: Plan
    """The plan to improve."""
    load: Load | None
    """The requests that it must serve; None: any number of the longest ones."""
    request_tokens: int
    """Length of the requests that are counted: the load's, else max_model_len."""
    requests: int
    """How many of them the plan holds at once as it is; 0 when it does not start."""
    items: tuple[AdviceItem, ...]
    """Single changes, best first: those that start it, by their burden."""
    combinations: tuple[AdviceItem, ...]
    """Changes together, the best of each cost class, that of least burden first."""
    warnings: tuple[str, ...]
    """Warnings about common pitfalls, with this plan's figures."""

    @property
    def pair(self) -> AdviceItem | None:
        """The combination of least burden; None without any."""
        return self.combinations[0] if self.combinations else None

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

    def forecast(self, item: AdviceItem | None = None) -> SpeedForecast | None:
        """Return how fast a change makes the load; None for the change: as it is.

        Returns None without a load or an answer, for what does not start, and where
        nothing near it was measured.
        """
        return known_forecast(self.plan if item is None else item.plan, self.load)

    @property
    def groups(self) -> tuple[AdviceGroup, ...]:
        """Return all changes by what they cost: those that suffice, then the others."""
        found = sorted((*self.items, *self.combinations), key=_by_gain)
        if self.load is not None:
            found.sort(key=_gpus_bought)
        groups = (
            AdviceGroup(
                cost_class=cost_class,
                suffices=suffices,
                items=tuple(
                    item
                    for item in found
                    if item.cost_class is cost_class and item.serves is suffices
                ),
            )
            for suffices in (True, False)
            for cost_class in CostClass
        )
        return tuple(group for group in groups if group.items)

    @property
    def offered(self) -> tuple[AdviceItem, ...]:
        """Return all changes in one list: the best, then the others as in `groups`."""
        best = self.best
        if best is None:
            return ()
        others = (item for group in self.groups for item in group.items)
        return (best, *(item for item in others if item is not best))

    @property
    def helps_to_start(self) -> bool:
        """Whether the plan starts, or any of the changes makes it start."""
        return self.plan.fits or any(item.starts for item in self.offered)

    def to_dict(self) -> dict[str, Any]:
        """Return the advice as plain values."""
        return views_of(self).as_dict(self)


def _gpus_bought(item: AdviceItem) -> int:
    """Return the GPUs of more hardware that serves the load; 0 of other changes."""
    return item.plan.gpus_total if item.needs_hardware and item.serves else 0


def _by_gain(item: AdviceItem) -> tuple[object, ...]:
    return (
        not item.starts,
        -item.gain_requests,
        # Tokens count what a change of the KV cache's dtype gains too.
        -item.gain_tokens_all_engines,
        -item.gain_bytes,
        item.title,
    )
