"""Which models? What the GPU on the page serves of the catalogue, each to be opened.

The search runs in slices beside the page, only while the section is open. Kind, size
and order choose among what has been planned, without planning again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

import ipywidgets as w
import traitlets

from planner.app.widgets.search_section import SearchSection, SearchTable
from planner.app.widgets.static_files import script, sheet
from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.planning.load import Load
from planner.solve.which_models import KINDS, ORDERS, page_search

if TYPE_CHECKING:
    from planner.planning.result import Plan
    from planner.solve.model_fits import ModelFit
    from planner.solve.which_models import ModelSearch

log = logging.getLogger(__name__)
_Question: TypeAlias = "tuple[GPU, int, Load | None, str]"
COUNTS = ("1", "2", "4", "8")
SIZES = {"": inf, "4B": 4e9, "9B": 9e9, "16B": 16e9, "36B": 36e9, "80B": 80e9}
"""Parameters at most, by what the list calls them."""
NO_LOAD = (
    "Say what you need first: prompt tokens, answer tokens, and users at once. The "
    "models that serve it on the GPU that is chosen then stand here."
)


class ModelTable(SearchTable):
    """The table: the page chooses a kind, a size, an order and a number of GPUs."""

    _esm = script("models.js")
    _css = sheet("actions.css", "set_ups.css")
    called = "models"
    look = "planner-model-fits"

    gpus = traitlets.Unicode("1").tag(sync=True)
    counts: Any = traitlets.List([*COUNTS]).tag(sync=True)
    kind = traitlets.Unicode().tag(sync=True)
    kinds: Any = traitlets.List([*KINDS]).tag(sync=True)
    size = traitlets.Unicode().tag(sync=True)
    sizes: Any = traitlets.List([name for name in SIZES if name]).tag(sync=True)
    order = traitlets.Unicode(ORDERS[0]).tag(sync=True)
    orders: Any = traitlets.List([*ORDERS]).tag(sync=True)


class ModelsSection(SearchSection):
    """Searches the catalogue for the GPU and load; `apply` gets one row's changes."""

    redraw_seconds = 0.3
    kinds = "models"

    def __init__(self, apply: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__("Models", "models")
        self.table = ModelTable(self._guard(self._told))
        self._apply = apply
        self._search: ModelSearch | None = None
        self._fits: dict[str, ModelFit] = {}

    def inside(self) -> tuple[w.Widget, ...]:
        """Return the table."""
        return (self.table,)

    def show(self, plan: Plan) -> None:
        """Search for this plan's GPU and load, once the user pauses."""
        was = self._plan
        self._plan = plan
        self.table.current = plan.name
        if was is None or was.gpus_total != plan.gpus_total or was.gpu != plan.gpu:
            self._offer(plan.gpus_total)
        self._ask_again()

    def _offer(self, gpus: int) -> None:
        """Search on as many GPUs as the plan has."""
        counts = sorted({*map(int, COUNTS), gpus})
        with self.table.hold_sync():
            self.table.counts = list(map(str, counts))
            self.table.gpus = str(gpus)

    def _question(self) -> _Question | None:
        plan = self._plan
        if plan is None:
            return None
        return plan.gpu, int(self.table.gpus), plan.load, plan.vllm_version

    def refresh(self) -> None:
        """Begin the search, unless its answer is already there."""
        asked = self._question()
        if asked is None or asked == self._asked:
            return
        self._asked = asked
        gpu, gpus, load, release = asked
        if load is None:
            self._say(NO_LOAD)
            return
        try:
            self._begin(page_search(gpu, gpus, load, release))
        except PlannerError as error:
            self._say(str(error))

    def _count(self) -> tuple[int, int]:
        search = self._search
        return (len(search.found), len(search.entries)) if search else (0, 1)

    def _forget(self) -> None:
        self._fits = {}

    def _draw(self, progress: float) -> None:
        search = self._search
        if search is None:
            return
        from planner.show.model_fits import drawn  # noqa: PLC0415 - once it is open

        kind, at_most = self.table.kind or None, SIZES[self.table.size]
        found = search.result(self.table.order, kind, at_most=at_most)
        self._fits = {one.name: one for one in found.found}
        self._put(drawn(found, is_whole=progress == 1), progress)

    def _told(self, said: Mapping[str, Any]) -> None:
        """Do what the page says; its values are a stranger's."""
        table = self.table
        match said:
            case {"apply": str(name)} if name in self._fits and not table.is_stale:
                self._apply(self._fits[name].changes())
            case {"gpus": str(count)} if count in table.counts:
                table.gpus = count
                self.pause()
                self.refresh()
            case {"kind": str(kind)} if kind in ("", *KINDS):
                table.kind = kind
                self._redraw()
            case {"size": str(size)} if size in SIZES:
                table.size = size
                self._redraw()
            case {"order": str(order)} if order in ORDERS:
                table.order = order
                self._redraw()
            case {"cancel": True}:
                self._cancel()
            case _:
                log.warning("a page sent an invalid message of the models")

    def _redraw(self) -> None:
        if self._search is not None and not self.table.note and not self.table.is_stale:
            self._draw(self.table.progress)
