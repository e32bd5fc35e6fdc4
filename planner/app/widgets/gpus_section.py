"""Which GPUs? The set-ups that serve the load, priced, each with an Apply button.

The search runs in slices beside the page, only while the section is open, and is given
up at the next step of a control. GPU and layout of the plan on the screen do not matter
to it, so that applying a row leaves the list as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ipywidgets as w

from planner.app.widgets.search_section import SearchSection
from planner.app.widgets.section import named
from planner.app.widgets.set_up_table import SetUpTable, read_price
from planner.errors import PlannerError
from planner.memory.host.nodes import GPUS_IN_A_NODE
from planner.planning.inputs import Inputs
from planner.solve.formats import QUALITIES, checked_quality
from planner.solve.layouts import Room
from planner.solve.price_list import (
    gpu_prices,
    save_currency,
    save_price,
    saved_prices_path,
)
from planner.solve.set_up_search import SetUpSearch
from planner.solve.set_ups import ORDERS

if TYPE_CHECKING:
    from planner.planning.result import Plan
    from planner.solve.price_list import PriceList
    from planner.solve.set_ups import SetUp, SetUps
from typing import TYPE_CHECKING

from planner.app.widgets.background import SlicedJob
from planner.app.widgets.chart import PlotlyChart
from planner.solve.load_map import usual_map

if TYPE_CHECKING:
    import ipywidgets as w

    from planner.planning.inputs import Inputs
    from planner.planning.load import Load
    from planner.solve.load_map import LoadMap

STALE = "is-stale"
"""The class of a map of an earlier plan."""


class MapView:
    """A chart that is made when there is something to draw; planned in slices."""

    def __init__(
        self, redraw: Callable[[], None], failed: Callable[[Exception], None]
    ) -> None:
        self.chart: PlotlyChart | None = None
        self._redraw, self._failed = redraw, failed
        self._slices = SlicedJob()

    def inside(self) -> tuple[w.Widget, ...]:
        """Return the chart, if there is one."""
        return () if self.chart is None else (self.chart,)

    @property
    def is_running(self) -> bool:
        """Whether a map is being planned."""
        return self._slices.is_running

    def give_up(self) -> None:
        """Draw no more, and mark what stands there as that of an earlier plan."""
        self._slices.cancel()
        if self.chart is not None:
            self.chart.add_class(STALE)

    def draw(self, start: Inputs, load: Load) -> None:
        """Plan the loads around this one, then draw them."""
        self.give_up()
        found = usual_map(start, load)
        self._slices.start(
            found.steps(),
            lambda: None,
            lambda: self._show(found.result()),
            self._failed,
        )

    def hide(self) -> None:
        """Take the chart off the page."""
        self._slices.cancel()
        if self.chart is not None:
            self.chart = None
            self._redraw()

    def _show(self, found: LoadMap) -> None:
        from planner.show.charts.load_map import figure_spec  # noqa: PLC0415 - once it is open
        from planner.show.load_map import spoken_map  # noqa: PLC0415 - once it is open

        was_hidden = self.chart is None
        if self.chart is None:
            self.chart = PlotlyChart()
            self.chart.add_class("planner-load-map")
        self.chart.remove_class(STALE)
        self.chart.draw(figure_spec(found), spoken_map(found))
        if was_hidden:
            self._redraw()


log = logging.getLogger(__name__)
MOST = {"8": 1, "16": 2, "32": 4}
"""Numbers of GPUs to choose from, and their machines of eight."""
NO_LOAD = (
    "Say what you need first: prompt tokens, answer tokens, and users at once. "
    "The set-ups that serve it then stand here."
)
_FREE = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "enable_expert_parallel",
)
_OF_FORMAT = ("model", "quantization", "kv_cache_dtype")
_BROUGHT = (*_OF_FORMAT, "gpu_memory_utilization")
"""What an applied row brings besides GPU and layout."""


class GpusSection(SearchSection):
    """Searches GPUs and layouts for the load; `apply` gets the changes of one row."""

    redraw_seconds = 0.15
    kinds = "kinds of GPU"

    def __init__(self, apply: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__("GPUs", "gpus")
        self.table = SetUpTable(self._guard(self._told))
        self.map = MapView(self.redraw, self._failed)
        self._apply = apply
        self._search: SetUpSearch | None = None
        self._prices: PriceList | None = None
        self._rows: dict[str, SetUp] = {}
        self._brought: dict[str, tuple[Any, Any]] = {}
        """What an applied row brought, and what was given before, by argument."""

    def inside(self) -> tuple[w.Widget, ...]:
        """Return the table, and the map of loads of the row that was chosen."""
        return (self.table, *self.map.inside())

    def show(self, plan: Plan) -> None:
        """Search for what this plan needs, once the user pauses; nothing if closed."""
        self._plan = plan
        if self.is_open:
            self._mark_current()
            self._ask_again()

    @property
    def is_searching(self) -> bool:
        """Whether the search, or the map of its first row, is not over."""
        return self._slices.is_running or self.map.is_running

    def pause(self) -> None:
        """Give up the search and the map."""
        self.map.give_up()
        super().pause()

    def refresh(self) -> None:
        """Begin the search, unless its answer is already there."""
        asked = self._question()
        if self._plan is None or asked is None or asked == self._asked:
            return
        self._asked = asked
        self._mark_current()
        inputs, most, quality = asked
        if inputs.load is None:
            self._say(NO_LOAD)
            return
        try:
            self._begin(self._new_search(inputs, MOST[most], quality))
        except PlannerError as error:
            self._say(str(error))

    def _mark_current(self) -> None:
        """Mark the row that is on the screen."""
        from planner.show.set_ups import row_key  # noqa: PLC0415 - once it is open

        self.table.current = row_key(self._plan) if self._plan else ""

    def _question(self) -> tuple[Inputs, str, str] | None:
        """Return what the search depends on: all but what a row brings."""
        if self._plan is None:
            return None
        free = dict.fromkeys(_FREE)
        inputs = Inputs.of(self._plan).changed(gpu="H100", **free)
        before = {
            name: before
            for name, (ours, before) in self._brought.items()
            if _given(inputs, name) == ours
        }
        return inputs.changed(**before), self.table.most, self.table.quality

    def _new_search(self, inputs: Inputs, nodes: int, quality: str) -> SetUpSearch:
        prices = self._price_list()
        search = SetUpSearch.of(
            *(inputs, None, None),
            prices=prices,
            room=Room.of(GPUS_IN_A_NODE, nodes),
            quality=checked_quality(quality),
        )
        with self.table.hold_sync():
            self._show_currency(prices)
            self.table.is_kept_by_page = saved_prices_path() is None
        return search

    def _show_currency(self, prices: PriceList) -> None:
        self.table.currency, self.table.rate = prices.currency, f"{prices.rate:g}"

    def _price_list(self) -> PriceList:
        if self._prices is None:
            self._prices = gpu_prices()
        return self._prices

    def _count(self) -> tuple[int, int]:
        return (self._search.done, self._search.total) if self._search else (0, 1)

    def _done(self) -> None:
        super()._done()
        self._map_first()

    def _forget(self) -> None:
        self._rows = {}
        self._hide_map()

    def _draw(self, progress: float) -> None:
        if self._search is None:
            return
        from planner.show.set_ups import drawn, row_key  # noqa: PLC0415 - once it is open

        found: SetUps = self._search.result()
        self._rows = {row_key(one.plan): one for one in found.found}
        shown = drawn(found, self.table.order, is_whole=progress == 1)
        self._put(shown, progress)

    def _told(self, said: Mapping[str, Any]) -> None:
        """Do what the page says; its values are a stranger's."""
        match said:
            case {"apply": str(key)} if key in self._rows and not self.table.is_stale:
                self._apply_row(key)
            case {"map": str(key)} if key in self._rows:
                self._map(key)
            case {"order": _} | {"most": _} | {"quality": _}:
                self._choose(said)
            case {"cancel": True}:
                self._cancel()
            case {"price": str(text), "gpu": str(name)}:
                self._price(name, text)
            case {"currency": str(word), "rate": str(rate)}:
                self._exchange(word, rate)
            case {"prices": dict(kept)}:
                self._take_kept(kept)
            case _:
                log.warning("a page sent an invalid message of the set-ups")

    def _choose(self, said: Mapping[str, Any]) -> None:
        """Take an order, a number of GPUs or a class of formats of the lists."""
        match said:
            case {"order": str(order)} if order in ORDERS:
                self._reorder(order)
            case {"most": str(most)} if most in MOST:
                self.table.most = most
            case {"quality": str(quality)} if quality in QUALITIES:
                self.table.quality = quality
            case _:
                log.warning("a page sent an invalid choice of the set-ups")
        if not self.table.is_stale and self._question() != self._asked:
            self.pause()
            self.refresh()

    def _reorder(self, order: str) -> None:
        self.table.order = order
        self._redraw()
        if not self._slices.is_running:
            self._map_first()

    def _apply_row(self, key: str) -> None:
        search = self._search
        if search is None:
            return
        asked = search.inputs
        as_asked = {name: _given(asked, name) for name in _OF_FORMAT}
        changes = as_asked | self._rows[key].changes()
        before = {name: asked.engine_args.get(name) for name in _BROUGHT}
        before["model"] = asked.model
        self._brought = {name: (changes[name], before[name]) for name in _BROUGHT}
        self._apply(changes)
        self._map(key)

    def _redraw(self) -> None:
        if self._search is not None and not self.table.note:
            self._draw(self.table.progress)

    def _price(self, name: str, text: str) -> None:
        """Take the price of a GPU; an empty text brings the list price back."""
        if not any(name == set_up.gpu.name for set_up in self._rows.values()):
            return
        try:
            price = read_price(text)
            if not self.table.is_kept_by_page:
                save_price(name, price)
            self._reprice(name, price)
        except PlannerError as error:
            self.table.remarks = [str(error), *self.table.remarks]

    def _exchange(self, word: str, text: str) -> None:
        """Show list prices in the user's currency."""
        try:
            rate = read_price(text) or 0
            if not self.table.is_kept_by_page:
                save_currency(word, rate)
            self._prices = self._price_list().exchanged(word, rate)
        except PlannerError as error:
            self.table.remarks = [str(error), *self.table.remarks]
            return
        self._show_currency(self._prices)
        self._use_prices()

    def _take_kept(self, kept: Mapping[Any, Any]) -> None:
        """Take the prices that the page has kept; whatever is no price is left out."""
        for name, price in list(kept.items())[:100]:
            if isinstance(name, str) and isinstance(price, int | float):
                try:
                    self._prices = self._price_list().changed(name[:40], price)
                except PlannerError:
                    continue
        self._use_prices()

    def _reprice(self, name: str, price: float | None) -> None:
        self._prices = self._price_list().changed(name, price)
        self._use_prices()

    def _use_prices(self) -> None:
        """Put the prices into what has been found, and into what will be."""
        search, prices = self._search, self._price_list()
        if search is None:
            return
        search.prices = prices
        search.found[:] = [
            replace(set_up, price=prices.of(set_up.gpu)) for set_up in search.found
        ]
        self._redraw()

    def _map_first(self) -> None:
        rows = self.table.rows
        self._map(rows[0]["key"] if rows else "")

    def _map(self, key: str) -> None:
        """Draw the loads that a row serves, planned in slices."""
        search = self._search
        if search is None or key not in self._rows:
            self._hide_map()
            return
        self.table.mapped = key
        start = search.inputs.changed(**self._rows[key].changes())
        self.map.draw(start, search.load)

    def _hide_map(self) -> None:
        self.table.mapped = ""
        self.map.hide()


def _given(inputs: Inputs, name: str) -> object:
    """Return the model's name, or an engine argument that was given."""
    if name == "model":
        return named(inputs)[0]
    return inputs.engine_args.get(name)
