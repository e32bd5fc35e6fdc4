"""The fewest GPUs of a kind that serve a load, over all layouts that vLLM takes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from planner.errors import UnknownArchitecture
from planner.gpu import GPU
from planner.inputs import Inputs
from planner.load import Load
from planner.result import Plan
from planner.serving import Serving, serve
from planner.solve.budgets import STEP, Shares, at_share, largest_share
from planner.solve.layouts import (
    Layout,
    Room,
    is_refused,
    keeps_given,
    spread,
    variants,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What some GPUs of a kind come to."""

    gpu: GPU
    serving: Serving | None
    """Of the fewest GPUs; None: no number of them serves."""
    short: Serving | None
    """Of the layout with fewer GPUs that comes nearest; None where there is none."""

    @property
    def gpus(self) -> int:
        """How many GPUs serve; 0 where none do."""
        return 0 if self.serving is None else self.serving.plan.gpus_total

    @property
    def total_memory_bytes(self) -> int:
        """Memory of all of them."""
        return self.gpus * self.gpu.total_memory_bytes


def fewest(inputs: Inputs, load: Load | None, gpu: GPU, room: Room) -> Machine:
    """Find the fewest GPUs of a kind that serve a load.

    Sizes of the layout that were given stay.

    Raises:
        UnknownArchitecture: where the planner knows no layout of the model.
    """
    here = inputs.changed(gpu=gpu)
    start = _alone(here)
    search = _Search(inputs=here, load=load, start=start)
    within = room.within(gpu)
    nearest: _Tried | None = None
    for count in range(_least(start, within), within.gpus + 1):
        tried: list[_Tried] = [] if nearest is None else [nearest]
        for layout in spread(count, within):
            if not keeps_given(layout, here):
                continue
            found = search.at(layout)
            if found is None:
                continue
            if found.serving.is_served and found.is_asked:
                return Machine(
                    gpu=gpu, serving=found.serving, short=search.asked(nearest)
                )
            tried.append(found)
        nearest = max(tried, key=_Tried.room, default=None)
    short = search.asked(nearest) or serve(here, load)
    return Machine(gpu=gpu, serving=None, short=short)


def _alone(inputs: Inputs) -> Plan:
    """Return the plan of one GPU; of what was given, where one is not modelled."""
    try:
        return inputs.changed(**Layout().arguments()).plan()
    except UnknownArchitecture:
        return inputs.plan()


def _least(start: Plan, room: Room) -> int:
    """Return the fewest GPUs whose memory is more than the weights alone.

    Spread over several GPUs the weights take no less together.
    """
    if start.settings.cpu_offload_gb or not start.ranks:
        return 1
    weights = sum(rank.weights_bytes for rank in start.ranks)
    return min(room.gpus, 1 + weights // start.gpu.total_memory_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """A layout, and how far it goes."""

    layout: Layout
    serving: Serving
    is_asked: bool
    """Whether the load is the whole one; else one request of it, for a bound."""

    def room(self) -> tuple[int, int]:
        """Return by which a layout comes nearer to serving than another."""
        return room_for(self.serving, self.layout.data_parallel_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """Layouts of one kind of GPU; what one of them tells of others is kept."""

    inputs: Inputs
    load: Load | None
    start: Plan
    alone: dict[Layout, Serving | None] = field(default_factory=dict)
    """One copy with one request: the most that each of several copies can hold."""
    shares: dict[bool, float] = field(default_factory=dict)
    """What is free of a GPU, alone and beside others, where vLLM's share is not."""

    def at(self, layout: Layout) -> _Tried | None:
        """Return a layout with the load; None where vLLM refuses it.

        Copies of a model without experts are alike: one that cannot hold its share
        even when it works on one request only is not planned for more.
        """
        for variant in variants(layout, self.inputs, self.start):
            bound = self._bound(variant)
            if bound is not None and not self._may_serve(variant, bound):
                return _Tried(layout=variant, serving=bound, is_asked=False)
            if bound is None and self._is_bounded:
                continue
            serving = self._serve(variant, self.load)
            if serving is not None:
                return _Tried(layout=variant, serving=serving, is_asked=True)
        return None

    def asked(self, tried: _Tried | None) -> Serving | None:
        """Return the whole load on a layout that was tried."""
        if tried is None or tried.is_asked:
            return None if tried is None else tried.serving
        return self._serve(tried.layout, self.load)

    @property
    def _is_bounded(self) -> bool:
        is_moe = self.start.model is not None and self.start.model.is_moe
        return not is_moe and self.load is not None and self.load.requests > 1

    def _bound(self, layout: Layout) -> Serving | None:
        """Return one copy with one request; None where that tells nothing."""
        if not self._is_bounded or self.load is None:
            return None
        one = replace(layout, data_parallel_size=1)
        if one not in self.alone:
            self.alone[one] = self._serve(one, replace(self.load, requests=1))
        return self.alone[one]

    def _may_serve(self, layout: Layout, bound: Serving) -> bool:
        if self.load is None or bound.held is None:
            return True
        share = -(-self.load.requests // layout.data_parallel_size)
        # Fewer sequences never leave less; CUDA graphs of odd sizes may, by little.
        return bound.plan.fits and bound.held + bound.held // 16 + 1 >= share

    def _serve(self, layout: Layout, load: Load | None) -> Serving | None:
        """Plan a layout, with a smaller share where vLLM's own is not free.

        A small GPU may have less beside the budget than a context and NCCL take.
        """
        here = self.inputs.changed(**layout.arguments())
        is_given = self.inputs.engine_args.get("gpu_memory_utilization") is not None
        is_spread = layout.tensor_parallel_size * layout.pipeline_parallel_size > 1
        if is_spread in self.shares:
            here = here.changed(gpu_memory_utilization=self.shares[is_spread])
        try:
            serving = serve(here, load)
        except UnknownArchitecture:
            return None
        if not is_given and _is_full(serving):
            shares = Shares.of(STEP)
            at = at_share(here, load, shares)
            steps = largest_share(at, shares)
            self.shares[is_spread] = shares.share(steps)
            serving = at(steps)
        return None if is_refused(serving.plan) else serving


def _is_full(serving: Serving) -> bool:
    error = serving.plan.error
    return error is not None and error.kind == "free_memory"


def room_for(serving: Serving, copies: int = 1) -> tuple[int, int]:
    """Return by which a start comes nearer to serving than another."""
    held = (serving.held or 0) * copies
    left = min(
        (rank.available_kv_cache_low_bytes for rank in serving.plan.ranks), default=0
    )
    return held if serving.plan.fits else 0, left
