"""set_ups(): which GPUs, and which layout on them, serve a load.

For each kind of GPU, numbers of GPUs are tried from the fewest up: 1, 2, 4, 8, ... The
first number on which any layout serves the load ends the search of that kind, and every
layout of this number that serves is a set-up. More GPUs of a kind cost more per hour,
but a number between two that were tried may serve too, for less: `SetUps.gpus_tried`.

Layouts whose memory cannot hold weights and KV cache are not planned; `Floor` says why
that never leaves out one that serves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from planner.engine.gpu import GPU
from planner.errors import PlannerError, UnknownArchitecture
from planner.given import named_in_errors
from planner.planning.inputs import Inputs
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.planning.serving import Serving
from planner.planning.words import fails
from planner.solve.arguments import Start, read_start, require_load, split_load
from planner.solve.fewest_gpus import Search, one_gpu, room_for
from planner.solve.gpus import kinds_of
from planner.solve.layouts import Layout, Room, keeps_given, spread, variants
from planner.solve.price_list import PriceList, price_list
from planner.solve.set_ups import (
    Miss,
    SetUp,
    SetUps,
    check_order,
    few_rank,
    layout_rank,
)
from planner.solve.speed.bound import speed_bound
from planner.values import frozen

if TYPE_CHECKING:
    from planner.solve.speed.speed import SpeedBound

_FULL_ATTENTION = ("FullAttentionSpec", "MLAAttentionSpec")


@named_in_errors
def set_ups(  # noqa: PLR0913 - the load, and what may be used for it
    start: Start,
    load: Load | None = None,
    gpus: str | GPU | Sequence[str | GPU] | None = None,
    *,
    prices: PriceList | Mapping[str, float] | None = None,
    currency: str = "",
    order: str = "fewest",
    gpus_per_node: int = 8,
    nodes: int = 1,
    **arguments: Any,  # noqa: ANN401 - vLLM's own argument names and types
) -> SetUps:
    """Find the set-ups that serve a load, over kinds of GPU and layouts.

    Tensor parallel stays inside a machine. Given sizes, such as tensor_parallel_size,
    stay; so do a given max_model_len and max_num_seqs, which else follow the load.

    Args:
        start: a model as `planner.plan` accepts it, or a plan whose arguments are kept.
        load: also as prompt_tokens=, output_tokens= and requests=.
        gpus: names or GPUs to choose from; None: the catalogue without MIG slices.
        prices: price of one GPU for an hour, by name; None: dated list prices and the
            prices that the user saved (`planner.solve.gpu_prices`); {}: none.
        currency: word to write after prices that are given.
        order: what is shown first: fewest (GPUs) or cheapest (per hour).
        gpus_per_node: GPUs in a machine.
        nodes: number of machines.
        arguments: engine arguments, vllm_version, entrypoint and env.

    Raises:
        PlannerError: without a load, or for input that cannot be planned; a load that
            nothing serves is not an error.
        UnknownArchitecture: where the model is not modelled for any kind of GPU.
    """
    check_order(order)
    search = SetUpSearch.of(
        start,
        load,
        gpus,
        prices=price_list(prices, currency),
        room=Room.of(gpus_per_node, nodes),
        **arguments,
    )
    for _ in search.steps():
        pass
    return replace(search.result(), order=order)


def page_search(inputs: Inputs, nodes: int, prices: PriceList) -> SetUpSearch:
    """Return the search of a page, over the catalogue and machines of eight GPUs.

    Raises:
        PlannerError: where the inputs have no load, or cannot be planned.
    """
    return SetUpSearch.of(inputs, None, None, prices=prices, room=Room.of(8, nodes))


@frozen
class Floor:
    """The least memory that any layout of a model takes on one kind of GPU.

    Spread over several GPUs, the weights take at least as much in total as on one, and
    so do the keys and values of a token: what cannot be cut is copied. A replica of a
    model without experts has all weights; replicas of one with experts may share them.
    """

    total_memory_bytes: int
    """Of a GPU: no layout uses more."""
    weights_bytes: int
    token_bytes: int
    """KV cache of a token of all layers; 0 where it differs by layer or is limited."""
    is_moe: bool

    @classmethod
    def of(cls, start: Plan) -> Floor:
        """Return the floor, from the plan for one GPU."""
        given = start.settings
        weights = sum(rank.weights_bytes for rank in start.ranks)
        if given.cpu_offload_gb or start.gpu.is_cpu:
            weights = 0
        return cls(
            total_memory_bytes=start.gpu.total_memory_bytes,
            weights_bytes=weights,
            token_bytes=_token_bytes(start) if weights else 0,
            is_moe=start.model is not None and start.model.is_moe,
        )

    def allows(self, layout: Layout, load: Load) -> bool:
        """Whether a layout may have room for the weights and its share of the load."""
        shards = layout.tensor_parallel_size * layout.pipeline_parallel_size
        sharing = layout.gpus if self.is_moe else shards
        share, shared = load.share(layout.data_parallel_size), load.reused_tokens
        own = max(load.held_tokens - shared, 0)
        kept = (shared + share * own) * self.token_bytes
        return self.weights_bytes / sharing + kept / shards <= self.total_memory_bytes


def _token_bytes(start: Plan) -> int:
    """Return the KV cache of a token where all layers keep every token."""
    given, groups = start.settings, start.kv_groups
    is_set = given.kv_cache_memory_bytes or given.num_gpu_blocks_override
    if is_set or len(groups) != 1 or groups[0].kind not in _FULL_ATTENTION:
        return 0
    return sum(rank.bytes_per_block for rank in start.ranks) // groups[0].block_size


@dataclass(kw_only=True)
class SetUpSearch:
    """Finds set-ups a plan at a time, so that a page can draw and answer in between."""

    inputs: Inputs
    load: Load
    kinds: tuple[GPU, ...]
    room: Room
    prices: PriceList
    found: list[SetUp] = field(default_factory=list)
    misses: list[Miss] = field(default_factory=list)
    done: int = 0
    """Kinds of GPU that have been searched."""
    _unknown: UnknownArchitecture | None = None

    @classmethod
    def of(
        cls,
        start: Start,
        load: Load | None,
        gpus: str | GPU | Sequence[str | GPU] | None,
        *,
        prices: PriceList,
        room: Room,
        **arguments: Any,  # noqa: ANN401 - vLLM's own argument names and types
    ) -> SetUpSearch:
        """Return a search that has not begun; see `set_ups`.

        Raises:
            PlannerError: without a load, or for input that cannot be planned.
        """
        named, load = split_load(gpus, load)
        kinds = kinds_of(named)
        inputs, wanted = read_start(start, kinds[0], load, arguments)
        return cls(
            inputs=inputs,
            load=require_load(wanted, "set_ups"),
            kinds=kinds,
            room=room,
            prices=prices,
        )

    @property
    def total(self) -> int:
        """Kinds of GPU to search."""
        return len(self.kinds)

    def steps(self) -> Iterator[None]:
        """Search, and yield after each plan; `found`, `misses` and `done` grow.

        Raises:
            UnknownArchitecture: at the end, where no kind of GPU is modelled.
        """
        for gpu in self.kinds:
            yield from self._search(gpu)
            self.done += 1
        if self._unknown is not None and not self.found and not self.misses:
            raise self._unknown

    def result(self) -> SetUps:
        """Return what has been found so far."""
        found = sorted(self.found, key=layout_rank)
        return SetUps(
            inputs=self.inputs,
            load=self.load,
            found=tuple(sorted(found, key=few_rank)),
            misses=tuple(sorted(self.misses, key=_nearest, reverse=True)),
            currency=self.prices.currency,
            gpus_tried=tuple(_counts(self.inputs, self.room)),
            price_dates=self.prices.dates,
        )

    def _search(self, gpu: GPU) -> Iterator[None]:
        here = self.inputs.changed(gpu=gpu)
        try:
            start = one_gpu(here)
        except UnknownArchitecture as error:
            self._unknown = error
            return
        yield
        within = self.room.within(gpu)
        search = Search(inputs=here, load=self.load, start=start)
        floor, nearest = Floor.of(start), None
        for count in _counts(here, within):
            is_served = False
            for layout in _layouts(count, within, here, start):
                if not floor.allows(layout, self.load):
                    continue
                serving = search.serve(layout, self.load)
                yield
                if serving is None:
                    continue
                if serving.is_served:
                    is_served = True
                    self.found.append(self._set_up(gpu, layout, serving))
                    yield
                else:
                    nearest = max(filter(None, (nearest, serving)), key=_room)
            if is_served:
                return
        self._miss(gpu, nearest or _largest(search, here, start, within))

    def _set_up(self, gpu: GPU, layout: Layout, serving: Serving) -> SetUp:
        return SetUp(
            gpu=gpu,
            layout=layout,
            serving=serving,
            price=self.prices.of(gpu),
            speed=_speed(serving),
        )

    def _miss(self, gpu: GPU, serving: Serving | None) -> None:
        why = "vLLM refuses every layout." if serving is None else fails(serving) + "."
        total = self.room.within(gpu).gpus
        if serving is not None:
            total = serving.plan.gpus_total
        self.misses.append(Miss(gpu=gpu, gpus_total=total, serving=serving, why=why))


def _counts(inputs: Inputs, room: Room) -> list[int]:
    """Return the numbers of GPUs to try: 1, 2, 4, ... times the sizes that are given.

    >>> _counts(Inputs(model="m"), Room(gpus_per_node=8, nodes=3))
    [1, 2, 4, 8, 16, 24]
    """
    base = 1
    for name in (
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
    ):
        base *= inputs.engine_args.get(name) or 1
    counts = []
    while base <= room.gpus:
        counts.append(base)
        base *= 2
    return counts if room.gpus in counts else [*counts, room.gpus]


def _layouts(count: int, room: Room, inputs: Inputs, start: Plan) -> Iterator[Layout]:
    for layout in spread(count, room):
        if keeps_given(layout, inputs):
            yield from variants(layout, inputs, start)


def _largest(search: Search, inputs: Inputs, start: Plan, room: Room) -> Serving | None:
    """Return the start on most GPUs, where memory rules out all layouts."""
    for count in reversed(_counts(inputs, room)):
        for layout in _layouts(count, room, inputs, start):
            serving = search.serve(layout, search.load)
            if serving is not None:
                return serving
    return None


def _speed(serving: Serving) -> SpeedBound | None:
    if not serving.load.output_tokens:
        return None
    try:
        return speed_bound(serving.plan, serving.load)
    except PlannerError:
        return None


def _nearest(miss: Miss) -> tuple[bool, int, int]:
    """Order misses by the requests that they hold, then by the memory left."""
    return (False, 0, 0) if miss.serving is None else (True, *_room(miss.serving))


def _room(serving: Serving) -> tuple[int, int]:
    return room_for(serving, serving.plan.engines)
