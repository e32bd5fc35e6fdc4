"""The fewest GPUs of one kind that serve a load, over all layouts that vLLM accepts."""

from __future__ import annotations

from dataclasses import field, replace

from planner.engine.gpu import GPU
from planner.errors import UnknownArchitecture
from planner.planning.inputs import Inputs
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.planning.serving import Serving, serve
from planner.solve.layouts import (
    Layout,
    Room,
    keeps_given,
    spread,
    variants,
)
from planner.solve.search import STEP, Shares, at_share, largest_share
from planner.values import frozen


@frozen
class Machine:
    """The result for one kind of GPU."""

    gpu: GPU
    serving: Serving | None
    """The start on the fewest GPUs that serve; None: no number of them serves."""
    short: Serving | None
    """The best start on fewer GPUs, which does not serve; None where there is none."""

    @property
    def gpus(self) -> int:
        """Number of GPUs that serve; 0 where none do."""
        return 0 if self.serving is None else self.serving.plan.gpus_total

    @property
    def total_memory_bytes(self) -> int:
        """Memory of all GPUs together."""
        return self.gpus * self.gpu.total_memory_bytes


def fewest(inputs: Inputs, load: Load | None, gpu: GPU, room: Room) -> Machine:
    """Find the fewest GPUs of a kind that serve a load.

    Given sizes of the layout stay.

    Raises:
        UnknownArchitecture: where no layout of the model is modelled.
    """
    here = inputs.changed(gpu=gpu)
    start = one_gpu(here)
    search = Search(inputs=here, load=load, start=start)
    within = room.within(gpu)
    nearest: _Tried | None = None
    for count in range(_fewest_for_weights(start, within), within.gpus + 1):
        tried: list[_Tried] = [] if nearest is None else [nearest]
        for layout in spread(count, within):
            if not keeps_given(layout, here):
                continue
            found = search.at(layout)
            if found is None:
                continue
            if found.serving.is_served and found.is_whole_load:
                return Machine(
                    gpu=gpu, serving=found.serving, short=search.with_load(nearest)
                )
            tried.append(found)
        nearest = max(tried, key=_Tried.room, default=None)
    short = search.with_load(nearest) or serve(here, load)
    return Machine(gpu=gpu, serving=None, short=short)


def one_gpu(inputs: Inputs) -> Plan:
    """Return the plan for one GPU; for the given layout, where one is not modelled."""
    try:
        return inputs.changed(**Layout().arguments()).plan()
    except UnknownArchitecture:
        return inputs.plan()


def _fewest_for_weights(start: Plan, room: Room) -> int:
    """Return the fewest GPUs with more memory than the weights alone.

    Spread over several GPUs, the weights take at least as much in total.
    """
    if start.settings.cpu_offload_gb or not start.ranks:
        return 1
    weights = sum(rank.weights_bytes for rank in start.ranks)
    return min(room.gpus, 1 + weights // start.gpu.total_memory_bytes)


@frozen
class _Tried:
    """A layout that was tried, and its start."""

    layout: Layout
    serving: Serving
    is_whole_load: bool
    """Whether it was planned with the whole load; else with one request, as a bound."""

    def room(self) -> tuple[int, int]:
        """Return the key that orders layouts by how near they are to serving."""
        return room_for(self.serving, self.layout.data_parallel_size)


@frozen
class Search:
    """The layouts of one kind of GPU, with cached results that bound other layouts."""

    inputs: Inputs
    load: Load | None
    start: Plan
    alone: dict[Layout, Serving | None] = field(default_factory=dict)
    """One replica with one request: the most that each of several replicas can hold."""
    shares: dict[bool, float] = field(default_factory=dict)
    """Free share of a GPU, by whether the model is spread, where the default is not."""
    refusals: dict[Layout, str] = field(default_factory=dict)
    """What vLLM says of the layouts that it refuses."""

    def at(self, layout: Layout) -> _Tried | None:
        """Return a layout with the load; None where vLLM refuses it.

        Replicas of a model without experts are identical: one that cannot hold its
        share even when started for one request is not planned for more.
        """
        for variant in variants(layout, self.inputs, self.start):
            bound = self._bound(variant)
            if bound is not None and not self._may_serve(variant, bound):
                return _Tried(layout=variant, serving=bound, is_whole_load=False)
            if bound is None and self._is_bounded:
                continue
            serving = self.serve(variant, self.load)
            if serving is not None:
                return _Tried(layout=variant, serving=serving, is_whole_load=True)
        return None

    def with_load(self, tried: _Tried | None) -> Serving | None:
        """Return the start of a tried layout with the whole load."""
        if tried is None or tried.is_whole_load:
            return None if tried is None else tried.serving
        return self.serve(tried.layout, self.load)

    @property
    def _is_bounded(self) -> bool:
        is_moe = self.start.model is not None and self.start.model.is_moe
        return not is_moe and self.load is not None and self.load.requests > 1

    def _bound(self, layout: Layout) -> Serving | None:
        """Return one replica with one request; None where that is not a bound."""
        if not self._is_bounded or self.load is None:
            return None
        one = replace(layout, data_parallel_size=1)
        if one not in self.alone:
            self.alone[one] = self.serve(one, replace(self.load, requests=1))
        return self.alone[one]

    def _may_serve(self, layout: Layout, bound: Serving) -> bool:
        if self.load is None or bound.held is None:
            return True
        share = -(-self.load.requests // layout.data_parallel_size)
        # Fewer sequences leave no less memory, except slightly for odd graph sizes.
        return bound.plan.fits and bound.held + bound.held // 16 + 1 >= share

    def serve(self, layout: Layout, load: Load | None) -> Serving | None:
        """Plan a layout, with a smaller share where vLLM's default is not free.

        On a small GPU, the context and NCCL may take more than the default leaves.
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
        if not is_given and serving.plan.is_share_too_large:
            shares = Shares.of(STEP)
            at = at_share(here, load, shares)
            steps = largest_share(at, shares)
            self.shares[is_spread] = shares.share(steps)
            serving = at(steps)
        error = serving.plan.error
        if error is None or error.kind != "refused":
            return serving
        self.refusals[layout] = error.message
        return None


def room_for(serving: Serving, copies: int = 1) -> tuple[int, int]:
    """Return the key that orders starts by how near they are to serving."""
    held = (serving.held or 0) * copies
    left = min(
        (rank.available_kv_cache_low_bytes for rank in serving.plan.ranks), default=0
    )
    return held if serving.plan.fits else 0, left
