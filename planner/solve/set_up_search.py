"""set_ups(): which GPUs, which layout on them and which format serve a load.

For each kind of GPU every number is tried from the fewest up, with every layout. The
first number on which any layout serves the load ends the search of that kind, and every
layout of this number that serves is a set-up: more GPUs of a kind cost more per hour.

A format that costs answers is tried on fewer GPUs than one that costs less of them, so
that each row that it adds has a reason. `SetUps.not_tried` says what all this leaves
out.

Layouts whose memory cannot hold weights and KV cache are not planned; `Floor` says why
that never leaves out one that serves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from planner.engine.gpu import GPU
from planner.errors import PlannerError, UnknownArchitecture
from planner.given import named_in_errors
from planner.planning.inputs import Inputs
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.planning.serving import Serving
from planner.planning.words import fails
from planner.solve.advice.situation import CostClass
from planner.solve.arguments import Start, read_start, require_load, split_load
from planner.solve.fewest_gpus import Search, one_gpu, room_for
from planner.solve.floor import Floor
from planner.solve.formats import (
    AS_GIVEN,
    QUALITIES,
    ServedFormat,
    checked_quality,
    other_formats,
)
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

if TYPE_CHECKING:
    from planner.solve.speed.speed import SpeedBound

_Generation: TypeAlias = "tuple[str, tuple[int, int], str]"
"""A format, a compute capability, and the name of a GPU that is like no other."""
_OF_SIZE = "max_"
"""In refusals that may depend on a GPU's memory or on the share of the load."""


@named_in_errors
def set_ups(  # noqa: PLR0913 - the load, and what may be used for it
    start: Start,
    load: Load | None = None,
    gpus: str | GPU | Sequence[str | GPU] | None = None,
    *,
    prices: PriceList | Mapping[str, float] | None = None,
    currency: str = "",
    order: str = "fewest",
    quality: str = CostClass.NO_LOSS,
    gpus_per_node: int = 8,
    nodes: int = 1,
    seconds: float | None = None,
    **arguments: Any,  # noqa: ANN401 - vLLM's own argument names and types
) -> SetUps:
    """Find the set-ups that serve a load, over kinds of GPU, layouts and formats.

    Tensor parallel stays inside a machine. Given sizes, such as tensor_parallel_size,
    stay; so do a given max_model_len and max_num_seqs, which else follow the load.

    Args:
        start: a model as `planner.plan` accepts it, or a plan whose arguments are kept.
        load: also as prompt_tokens=, output_tokens= and requests=.
        gpus: names or GPUs to choose from; None: the catalogue without MIG slices.
        prices: price of one GPU for an hour, by name; None: dated list prices and the
            prices that the user saved (`planner.solve.gpu_prices`); {}: none.
        currency: word to write after prices that are given.
        order: what is shown first: fewest (GPUs), cheapest (per hour) or fastest (by
            the bound on speed).
        quality: what formats may cost in answers: no loss (the format as given), little
            loss (8 bits too) or try your prompts first (4 bits too).
        gpus_per_node: GPUs in a machine.
        nodes: number of machines.
        seconds: time after which the search ends with what it has; None: when it is
            through. `SetUpSearch` searches a plan at a time, to draw or give up.
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
        quality=checked_quality(quality),
        **arguments,
    )
    begin = monotonic()
    for _ in search.steps():
        if seconds is not None and monotonic() - begin > seconds:
            break
    return replace(search.result(), order=order)


def page_search(
    inputs: Inputs, nodes: int, prices: PriceList, quality: str
) -> SetUpSearch:
    """Return the search of a page, over the catalogue and machines of eight GPUs.

    Raises:
        PlannerError: where the inputs have no load, or cannot be planned.
    """
    return SetUpSearch.of(
        inputs,
        None,
        None,
        prices=prices,
        room=Room.of(8, nodes),
        quality=checked_quality(quality),
    )


@dataclass(kw_only=True)
class SetUpSearch:
    """Finds set-ups a plan at a time, so that a page can draw and answer in between."""

    inputs: Inputs
    load: Load
    kinds: tuple[GPU, ...]
    room: Room
    prices: PriceList
    quality: CostClass = CostClass.NO_LOSS
    found: list[SetUp] = field(default_factory=list)
    misses: list[Miss] = field(default_factory=list)
    done: int = 0
    """Kinds of GPU that have been searched, each once more in other formats."""
    _unknown: UnknownArchitecture | None = None
    _starts: dict[_Generation, Plan] = field(default_factory=dict)
    _refused: set[tuple[_Generation, Layout]] = field(default_factory=set)
    """Layouts that vLLM refuses on all GPUs of a generation."""
    _counts: dict[GPU, int] = field(default_factory=dict)
    """The fewest GPUs of a kind that serve, in the formats tried so far."""

    @classmethod
    def of(  # noqa: PLR0913 - as of `set_ups`
        cls,
        start: Start,
        load: Load | None,
        gpus: str | GPU | Sequence[str | GPU] | None,
        *,
        prices: PriceList,
        room: Room,
        quality: CostClass = CostClass.NO_LOSS,
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
            quality=quality,
        )

    @property
    def total(self) -> int:
        """Kinds of GPU to search; twice where there may be other formats."""
        return len(self.kinds) * (1 if self.quality is CostClass.NO_LOSS else 2)

    def steps(self) -> Iterator[None]:
        """Search, and yield after each plan; `found`, `misses` and `done` grow.

        Raises:
            UnknownArchitecture: at the end, where no kind of GPU is modelled.
        """
        for gpu in self.kinds:
            yield from self._search(gpu, AS_GIVEN)
            self.done += 1
        if self.quality is not CostClass.NO_LOSS:
            yield from self._search_formats()
        if self._unknown is not None and not self.found and not self.misses:
            raise self._unknown

    def result(self) -> SetUps:
        """Return what has been found so far."""
        found = sorted(self.found, key=layout_rank)
        short = [one for one in self.misses if one.gpu not in self._counts]
        return SetUps(
            inputs=self.inputs,
            load=self.load,
            found=tuple(sorted(found, key=few_rank)),
            misses=tuple(sorted(short, key=_nearest, reverse=True)),
            currency=self.prices.currency,
            gpus_tried=tuple(_counts(self.inputs, self.room)),
            price_dates=self.prices.dates,
            not_tried=tuple(self._not_tried()),
        )

    def _search_formats(self) -> Iterator[None]:
        formats = other_formats(self.inputs.plan(), self.quality)
        for gpu in self.kinds:
            yield
            for one in formats:
                yield from self._search(gpu, one)
            self.done += 1

    def _search(self, gpu: GPU, form: ServedFormat) -> Iterator[None]:
        here = self.inputs.changed(gpu=gpu, **form.changes)
        try:
            start = self._start(here, gpu, form)
        except UnknownArchitecture as error:
            self._unknown = error
            return
        except PlannerError:  # such as a KV cache type that this release does not know
            return
        yield
        within = self.room.within(gpu)
        search = Search(inputs=here, load=self.load, start=start)
        nearest = None
        generation = _generation(gpu, form)
        for layout in self._allowed(gpu, here, start, generation):
            serving = search.serve(layout, self.load)
            yield
            if serving is None:
                if _OF_SIZE not in search.refusals.get(layout, _OF_SIZE):
                    self._refused.add((generation, layout))
                continue
            if serving.is_served:
                self._counts[gpu] = layout.gpus
                self.found.append(self._set_up(gpu, layout, serving, form))
                yield
            else:
                nearest = max(filter(None, (nearest, serving)), key=_room)
        if gpu not in self._counts and form is AS_GIVEN:
            self._miss(gpu, nearest or _largest(search, here, start, within))

    def _allowed(
        self, gpu: GPU, here: Inputs, start: Plan, generation: _Generation
    ) -> Iterator[Layout]:
        """Yield the layouts to plan, up to the first number of GPUs that serves.

        Where another format serves already, they have fewer GPUs than that. A tensor
        parallel size that vLLM refuses alone is refused with more stages and copies.
        """
        floor, within = Floor.of(start), self.room.within(gpu)
        enough = self._counts.get(gpu, within.gpus + 1)
        for count in _counts(here, within):
            if count >= enough or self._counts.get(gpu, count) < count:
                return
            for layout in _layouts(count, within, here, start):
                alone = replace(layout, pipeline_parallel_size=1, data_parallel_size=1)
                if self._refused & {(generation, layout), (generation, alone)}:
                    continue
                if floor.allows(layout, self.load, gpu):
                    yield layout

    def _start(self, here: Inputs, gpu: GPU, form: ServedFormat) -> Plan:
        """Return the plan for one GPU, the same for all GPUs of its generation."""
        key = _generation(gpu, form)
        if key not in self._starts:
            self._starts[key] = one_gpu(here)
        return self._starts[key]

    def _set_up(
        self, gpu: GPU, layout: Layout, serving: Serving, form: ServedFormat
    ) -> SetUp:
        return SetUp(
            gpu=gpu,
            layout=layout,
            serving=serving,
            price=self.prices.of(gpu),
            speed=_speed(serving),
            format=form,
        )

    def _miss(self, gpu: GPU, serving: Serving | None) -> None:
        why = "vLLM refuses every layout." if serving is None else fails(serving) + "."
        total = self.room.within(gpu).gpus
        if serving is not None:
            total = serving.plan.gpus_total
        self.misses.append(Miss(gpu=gpu, gpus_total=total, serving=serving, why=why))

    def _not_tried(self) -> Iterator[str]:
        yield (
            "More GPUs of a kind than the fewest that serve, which are faster and cost "
            "more."
        )
        yield (
            f"More than {self.room.gpus} GPUs, and tensor parallel over several "
            "machines."
        )
        worse = [one for one in QUALITIES if one.place > self.quality.place]
        if worse:
            yield (
                "Formats with fewer bits of weights or KV cache: "
                + " or ".join(f"quality={str(one)!r}" for one in worse)
                + "."
            )
        if self.quality is not CostClass.NO_LOSS:
            yield (
                "Checkpoints that are not in the bundled catalogue; KV cache types "
                "besides fp8 and nvfp4; formats of no better class on as many GPUs."
            )
        if self.done < self.total:
            left = self.kinds[self.done % len(self.kinds) :]
            formats = " in other formats" if self.done >= len(self.kinds) else ""
            yield f"Not reached{formats}: {', '.join(one.name for one in left)}."


def _generation(gpu: GPU, form: ServedFormat) -> _Generation:
    """Return by what layouts are legal, and weights and tokens take as much."""
    is_own = gpu.is_cpu or gpu.is_integrated or gpu.free_memory_bytes is not None
    return form.name, gpu.compute_capability, gpu.name if is_own else ""


def _counts(inputs: Inputs, room: Room) -> list[int]:
    """Return the numbers of GPUs to try: all multiples of the sizes that are given.

    >>> _counts(Inputs(model="m"), Room(gpus_per_node=3, nodes=1))
    [1, 2, 3]
    """
    base = 1
    for name in (
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
    ):
        base *= inputs.engine_args.get(name) or 1
    return list(range(base, room.gpus + 1, base))


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
