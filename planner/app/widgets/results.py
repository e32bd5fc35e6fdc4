"""What the controls lead to: the answer, the command, and tabs that explain the plan.

Only the open tab is computed: a step of a slider does no work for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import traitlets

from planner.app.widgets.advice_section import AdviceSection
from planner.app.widgets.chart import AnswerChart, PanelsPlace
from planner.app.widgets.export_section import ExportSection
from planner.app.widgets.gpus_section import GpusSection
from planner.app.widgets.models_section import ModelsSection
from planner.app.widgets.page_widget import PageWidget
from planner.app.widgets.pins import PinSection
from planner.app.widgets.ray_section import RaySection
from planner.app.widgets.section import Offer, Section, tables_view
from planner.app.widgets.static_files import script
from planner.app.widgets.upgrade_section import UpgradeSection
from planner.errors import PlannerError
from planner.show.html import Html, tag
from planner.show.page import NOTES, OPEN_AT_FIRST, PANELS
from planner.show.sheet import pinned
from planner.solve.speed.forecast import speed_forecast

if TYPE_CHECKING:
    from planner.planning.inputs import Inputs
    from planner.planning.result import Plan
import os
from typing import TYPE_CHECKING

from planner.surroundings import is_in_browser, is_published

if TYPE_CHECKING:
    from planner.app.widgets.run_panel import RunPanel

NO_RUN = "PLANNER_NO_RUN"
"""Environment variable; 1 leaves out the panel, for an app that others can open."""
_RUN, _RECORDED = "Run", "A recorded start"


def is_allowed() -> bool:
    """Return whether plans may be run from a page."""
    return not is_published() and os.environ.get(NO_RUN, "") in ("", "0")


class RunSection(Section):
    """The panel that starts vLLM, which is created when first opened."""

    plan = traitlets.Any(allow_none=True)
    unplanned = traitlets.Any(allow_none=True)
    """Inputs of which there is no plan; see `RunPanel.unplanned`."""

    def __init__(self) -> None:
        super().__init__(_RECORDED if is_in_browser() else _RUN, "run-section")
        self.panel: RunPanel | None = None
        self.observe(self._hand_on, names=["plan", "unplanned"])

    @property
    def can_start(self) -> bool:
        """Whether vLLM can be started here: a browser runs no other programs."""
        return not is_in_browser()

    def inside(self) -> tuple[w.Widget, ...]:
        """Return the panel, created when first opened."""
        if self.panel is None:
            # It starts processes, which few readers of the page want.
            from planner.app.widgets.run_panel import RunPanel  # noqa: PLC0415 - slow

            self.panel = RunPanel(self.plan, is_alone=False)
            self.panel.unplanned = self.unplanned
        return (self.panel,)

    def ask(self) -> None:
        """Ask vLLM in the panel."""
        if self.panel is not None:
            self.panel.ask()

    def _hand_on(self, _change: object) -> None:
        if self.panel is not None:
            self.panel.plan, self.panel.unplanned = self.plan, self.unplanned


OPEN_TAB = "advice"
"""The tab that is open at first: what to change."""
HELD = "planner-held"
"""The class that leaves of the answer only what is asked."""
SEARCHING = "planner-searching"
"""The class that leaves the tabs there too: one of them answers."""
_SPEED_PAUSE_SECONDS = 0.2
_SET_UP = "another set-up"
"""What is applied with a row of the tab of GPUs."""
_MODEL = "another model"
"""What is applied with a row of the tab of models."""
_NO_LOAD = (
    "The speed depends on the load. Set prompt tokens, answer tokens and users at once "
    'under "What I need", and this tab shows a forecast with its '
    "range, and the bound that the memory bandwidth and the peak of the GPU set, with "
    "its arithmetic."
)


class Tabs(PageWidget):
    """The row of tabs; `opened` is called with the name of the tab that is opened.

    The page shows the widget with the class `planner-tab-NAME` beside it, and keeps
    the last choice.
    """

    _esm = script("tabs.js")
    called = "tabs"

    titles: Any = traitlets.List().tag(sync=True)
    """Name and title of each tab, in order."""
    chosen = traitlets.Unicode(OPEN_TAB).tag(sync=True)

    def __init__(self, titles: Mapping[str, str], opened: Callable[[], None]) -> None:
        super().__init__(titles=[[name, title] for name, title in titles.items()])
        self._opened = opened

    def choose(self, name: str) -> None:
        """Open a tab."""
        if name != self.chosen:
            self.chosen = name
            self._opened()

    def hear(self, message: Any) -> bool:  # noqa: ANN401 - what a page sent
        """Open a tab."""
        match message:
            case {"tab": str(name)} if name in dict(self.titles):
                self.choose(name)
                return True
        return False


class SpeedSection(Section):
    """The forecast of the plan's speed, and the bound with its arithmetic."""

    def __init__(self) -> None:
        super().__init__("Speed", "speed", _SPEED_PAUSE_SECONDS)

    @cached_property
    def view(self) -> w.HTML:
        """The tables; created when first opened."""
        return tables_view()

    def inside(self) -> tuple[w.Widget, ...]:
        """Return the tables."""
        return (self.view,)

    def refresh(self) -> None:
        """Forecast the speed of the plan on the screen, or say why that cannot be."""
        if self._plan is not None:
            self.view.value = _speed_html(self._plan)


def _speed_html(plan: Plan) -> Html:
    if plan.load is None:
        return tag("p", _NO_LOAD, class_="pl-note")
    try:
        forecast = speed_forecast(plan, plan.load)
    except PlannerError as error:
        return tag("p", str(error), class_="pl-note")
    from planner.show.speed_forecast import sheet  # noqa: PLC0415 - once it is open

    return pinned(sheet(forecast))


class Results(w.VBox):
    """The last good plan: the answer, the command, and the tabs."""

    def __init__(
        self,
        apply: Callable[[str, Mapping[str, Any]], None],
        undo: Callable[[], None],
        open_plan: Callable[[Plan], None],
    ) -> None:
        self.answer = AnswerChart()
        self.command = PanelsPlace("command", f"panel-{NOTES}", opened=self._toggled)
        panels = (f"panel-{key}" for key in PANELS if key != NOTES)
        self.panels = PanelsPlace(*panels, opened=self._toggled)
        self.advice = AdviceSection(apply, undo)
        self.gpus = GpusSection(lambda changes: apply(_SET_UP, changes))
        self.models = ModelsSection(lambda changes: apply(_MODEL, changes))
        self.pins = PinSection(open_plan)
        self.upgrade = UpgradeSection()
        self.speed = SpeedSection()
        self.export = ExportSection(lambda: (self.ray,))
        self.run = RunSection() if is_allowed() else None
        self.sections: dict[str, Section] = {
            "gpus": self.gpus,
            "models": self.models,
            "compare": self.pins,
            "upgrade": self.upgrade,
            "speed": self.speed,
            "export": self.export,
        }
        if self.run is not None:
            self.sections["run"] = self.run
        has_start = self.run is not None and self.run.can_start
        self.asking = Offer(self._ask if has_start else None)
        self._plan: Plan | None = None
        self._applied = ""
        self._opened = set(OPEN_AT_FIRST)
        shown: dict[str, w.DOMWidget] = {
            "memory": self.panels,
            "advice": self.advice,
            **self.sections,
        }
        for name, widget in shown.items():
            widget.add_class(f"planner-tab-{name}")
        titles = {name: section.title for name, section in self.sections.items()}
        self.tabs = Tabs(
            {"memory": "Memory", "advice": "Advice", **titles}, self._turned
        )
        first = w.VBox([self.answer, self.asking, self.command])
        first.add_class("planner-first")
        more = w.VBox([self.tabs, *shown.values()])
        more.add_class("planner-more")
        super().__init__([first, more])
        self.add_class("planner-results")

    @cached_property
    def ray(self) -> RaySection:
        """The plan as replicas of a pipeline; created when the export is opened."""
        section = RaySection()
        if self._plan is not None:
            section.show(self._plan)
        return section

    def show(self, plan: Plan, *, applied: str = "") -> None:
        """Show `plan`; `applied` names the advice that led to it."""
        self._plan, self._applied = plan, applied
        self.remove_class(HELD)
        self.remove_class(SEARCHING)
        self.answer.show(plan, self._opened, self._seen())
        if self.tabs.chosen == "advice":
            self.advice.show(plan, applied=applied)
        for section in (
            *(self.gpus, self.models, self.pins),
            *(self.upgrade, self.speed, self.export),
        ):
            section.show(plan)
        if self.export.is_open:
            self.ray.show(plan)
        if self.run is not None:
            self.run.plan = plan

    def offer(self, inputs: Inputs | None) -> None:
        """Offer to ask vLLM itself, for want of a plan; None: no longer."""
        self.asking.show(inputs)
        if self.run is not None:
            self.run.unplanned = inputs

    def hold(self) -> None:
        """Show no plan and no advice: what was brought is not understood yet."""
        self._pause()
        self.answer.clear()
        self.add_class(HELD)
        self.remove_class(SEARCHING)

    @property
    def is_searching(self) -> bool:
        """Whether a list answers in place of a plan; a row of it can be applied."""
        return SEARCHING in self._dom_classes

    def search(self, name: str, reason: str) -> None:
        """Show a list, of GPUs or models, in place of the plan; see `hold`."""
        self.hold()
        self.wait(reason, "")
        self.add_class(SEARCHING)
        self.tabs.choose(name)
        self.sections[name].refresh()

    def say(self, message: str) -> None:
        """Show a message; the next plan clears it."""
        if message:
            self._pause()
            self.answer.say(message)

    def wait(self, reason: str, shown: str) -> None:
        """Say why the plan is not for the controls; `shown` names it."""
        self._pause()
        self.answer.wait(reason, shown)

    def _pause(self) -> None:
        """End the searches for the plan that is no longer asked for."""
        for section in (self.gpus, self.models):
            if section.is_open:
                section.pause()

    def _ask(self) -> None:
        if self.run is not None:
            self.tabs.choose("run")
            self.run.ask()

    def _seen(self) -> set[str] | None:
        """Return the panels that are on the page; None: all, as their tab is open."""
        return None if self.tabs.chosen == "memory" else {NOTES}

    def _turned(self) -> None:
        """Compute what the tab that was opened shows."""
        chosen = self.tabs.chosen
        for name, section in self.sections.items():
            if section.is_open != (name == chosen):
                section.turn(name == chosen)
        if self._plan is None:
            return
        if chosen == "memory":
            self.answer.show_panels(self._plan, self._opened)
        elif chosen == "export":
            self.ray.show(self._plan)
        elif chosen == "advice":
            self.advice.show(self._plan, applied=self._applied)

    def _toggled(self, key: str, is_open: bool) -> None:
        if key not in PANELS:
            return
        (self._opened.add if is_open else self._opened.discard)(key)
        if self._plan is not None:
            self.answer.show_panels(self._plan, self._opened, self._seen())
