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
from typing import Any

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
from planner.solve.candidates import (
    Generation,
    generation_of,
    largest,
    layouts_on,
    numbers_of_gpus,
)
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
from planner.solve.layouts import Layout, Room
from planner.solve.price_list import PriceList, price_list
from planner.solve.set_ups import (
    Miss,
    SetUp,
    SetUps,
    check_order,
    few_rank,
    layout_rank,
)
from planner.solve.speed.forecast import SpeedForecast, speed_forecast
from planner.solve.speed.wanted import ANY_SPEED, WantedSpeed

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
    tokens_per_second_each: float | None = None,
    first_token_seconds: float | None = None,
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
            the forecast of speed, then by the bound).
        quality: what formats may cost in answers: no loss (the format as given), little
            loss (8 bits too) or try your prompts first (4 bits too).
        gpus_per_node: GPUs in a machine.
        nodes: number of machines.
        seconds: time after which the search ends with what it has; None: when it is
            through. `SetUpSearch` searches a plan at a time, to draw or give up.
        tokens_per_second_each: what each request has to get by the forecast, such as
            30; a set-up says whether the slow end of the range reaches it too.
        first_token_seconds: the time within which its first token has to come.
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
        speed=WantedSpeed(
            tokens_per_second_each=tokens_per_second_each,
            first_token_seconds=first_token_seconds,
        ),
        **arguments,
    )
    begin = monotonic()
    for _ in search.steps():
        if seconds is not None and monotonic() - begin > seconds:
            break
    return replace(search.result(), order=order)


@dataclass(kw_only=True)
class _Nearest:
    """Of a kind of GPU, what comes nearest to the load and the speed."""

    serving: Serving | None = None
    """Of those that do not serve the load."""
    fastest: SetUp | None = None
    """Of those that serve it too slowly."""
    slow: Miss | None = None
    """What it lacks."""


@dataclass(kw_only=True)
class SetUpSearch:
    """Finds set-ups a plan at a time, so that a page can draw and answer in between."""

    inputs: Inputs
    load: Load
    kinds: tuple[GPU, ...]
    room: Room
    prices: PriceList
    quality: CostClass = CostClass.NO_LOSS
    speed: WantedSpeed = ANY_SPEED
    found: list[SetUp] = field(default_factory=list)
    misses: list[Miss] = field(default_factory=list)
    done: int = 0
    """Kinds of GPU that have been searched, each once more in other formats."""
    _unknown: UnknownArchitecture | None = None
    _starts: dict[Generation, Plan] = field(default_factory=dict)
    _refused: set[tuple[Generation, Layout]] = field(default_factory=set)
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
        speed: WantedSpeed = ANY_SPEED,
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
            speed=speed,
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
            gpus_tried=tuple(numbers_of_gpus(self.inputs, self.room)),
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
        start = self._start(here, gpu, form)
        if start is None:
            return
        yield
        within = self.room.within(gpu)
        search = Search(inputs=here, load=self.load, start=start)
        near = _Nearest()
        generation = generation_of(gpu, form)
        for layout in self._allowed(gpu, here, start, generation):
            serving = search.serve(layout, self.load)
            yield
            if serving is None:
                if _OF_SIZE not in search.refusals.get(layout, _OF_SIZE):
                    self._refused.add((generation, layout))
            elif serving.is_served:
                self._take(self._set_up(gpu, layout, serving, form), near)
                yield
            else:
                near.serving = max(filter(None, (near.serving, serving)), key=_room)
        if gpu in self._counts or form is not AS_GIVEN:
            return
        if near.slow is None:
            self._miss(gpu, near.serving or largest(search, here, start, within))
        else:
            self.misses.append(near.slow)

    def _take(self, set_up: SetUp, near: _Nearest) -> None:
        """Keep a set-up that serves and is fast enough, else the fastest of them."""
        lacks = self.speed.lacks(set_up.forecast)
        if not lacks:
            self._counts[set_up.gpu] = set_up.gpus_total
            self.found.append(set_up)
        elif near.fastest is None or layout_rank(set_up) < layout_rank(near.fastest):
            near.fastest = set_up
            near.slow = Miss(
                gpu=set_up.gpu,
                gpus_total=set_up.gpus_total,
                serving=set_up.serving,
                why=f"It is too slow: {lacks}.",
                too_slow=lacks,
            )

    def _allowed(
        self, gpu: GPU, here: Inputs, start: Plan, generation: Generation
    ) -> Iterator[Layout]:
        """Yield the layouts to plan, up to the first number of GPUs that serves.

        Where another format serves already, they have fewer GPUs than that. A tensor
        parallel size that vLLM refuses alone is refused with more stages and copies.
        """
        floor, within = Floor.of(start), self.room.within(gpu)
        enough = self._counts.get(gpu, within.gpus + 1)
        for count in numbers_of_gpus(here, within):
            if count >= enough or self._counts.get(gpu, count) < count:
                return
            for layout in layouts_on(count, within, here, start):
                if not floor.allows(layout, self.load, gpu):
                    continue
                alone = replace(layout, pipeline_parallel_size=1, data_parallel_size=1)
                if not self._refused & {(generation, layout), (generation, alone)}:
                    yield layout

    def _start(self, here: Inputs, gpu: GPU, form: ServedFormat) -> Plan | None:
        """Return the plan for one GPU, the same for all GPUs of its generation.

        None: it cannot be planned, such as a KV cache type that this release does not
        know.
        """
        key = generation_of(gpu, form)
        try:
            if key not in self._starts:
                self._starts[key] = one_gpu(here)
        except UnknownArchitecture as error:
            self._unknown = error
            return None
        except PlannerError:
            return None
        return self._starts[key]

    def _set_up(
        self, gpu: GPU, layout: Layout, serving: Serving, form: ServedFormat
    ) -> SetUp:
        forecast = _forecast(serving)
        return SetUp(
            gpu=gpu,
            layout=layout,
            serving=serving,
            price=self.prices.of(gpu),
            forecast=forecast,
            is_sure_of_speed=self.speed.is_sure(forecast),
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


def _forecast(serving: Serving) -> SpeedForecast | None:
    if not serving.load.output_tokens:
        return None
    try:
        return speed_forecast(serving.plan, serving.load)
    except PlannerError:
        return None


def _nearest(miss: Miss) -> tuple[bool, int, int]:
    """Order misses by the requests that they hold, then by the memory left."""
    return (False, 0, 0) if miss.serving is None else (True, *_room(miss.serving))


def _room(serving: Serving) -> tuple[int, int]:
    return room_for(serving, serving.plan.engines)
