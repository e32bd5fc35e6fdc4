"""The plan's exports: code, manifests, reports and a link, to copy or download."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import traitlets

from planner import export
from planner.app.widgets.callbacks import UNEXPECTED, alert_html
from planner.app.widgets.page_widget import PageWidget
from planner.app.widgets.section import Section
from planner.app.widgets.static_files import script
from planner.errors import PlannerError
from planner.show.html import Html, tag
from planner.show.pieces import to_copy
from planner.surroundings import share_address
from planner.values import frozen

if TYPE_CHECKING:
    from planner.planning.result import Plan

log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.25


@frozen(kw_only=False)
class ExportFormat:
    """One format in which a plan is exported."""

    write: Callable[[Plan], str]
    title: str
    file_name: str
    media_type: str
    is_shown: bool = True
    """Whether it is short enough to read on the page."""


_YAML, _PYTHON = "application/yaml", "text/x-python"
_FORMATS = (
    ExportFormat(export.link, "Link that opens this plan", "plan.txt", "text/plain"),
    ExportFormat(export.python, "Python, the LLM class", "plan.py", _PYTHON),
    ExportFormat(export.compose, "Docker compose", "compose.yaml", _YAML),
    ExportFormat(export.kubernetes, "Kubernetes", "vllm.yaml", _YAML),
    ExportFormat(export.ray_data, "Ray Data LLM, a program", "pipeline.py", _PYTHON),
    ExportFormat(export.ray_serve, "Ray Serve LLM, a program", "serve.py", _PYTHON),
    ExportFormat(export.ray_job, "KubeRay, a RayJob", "rayjob.yaml", _YAML),
    ExportFormat(export.yaml, "Plan file, for planner plan -f", "plan.yaml", _YAML),
    ExportFormat(
        export.html, "Report as a page", "plan.html", "text/html", is_shown=False
    ),
    ExportFormat(export.markdown, "Report as Markdown", "plan.md", "text/markdown"),
    ExportFormat(
        export.json, "All figures as JSON", "plan.json", "application/json", False
    ),
    ExportFormat(export.csv, "Memory lines as CSV", "plan.csv", "text/csv"),
)
FORMATS = {one.write.__name__: one for one in _FORMATS}
"""By the name of the function that writes the format."""
OWN = "own"
"""The user's own text, where one was pasted."""
_OWN_TITLE = "Your text, with the changes made here"


class ExportView(PageWidget):
    """The list of formats, and the plan in the chosen one."""

    _esm = script("export.js")
    called = "exports"

    formats: Any = traitlets.List().tag(sync=True)
    """Pairs of name and title."""
    chosen = traitlets.Unicode().tag(sync=True)
    html = traitlets.Unicode().tag(sync=True)

    def __init__(self, choose: Callable[[str], None]) -> None:
        super().__init__(formats=_titles(), chosen=next(iter(FORMATS)))
        self._choose = choose

    def hear(self, message: Any) -> bool:  # noqa: ANN401 - what a page sent
        """Choose a format."""
        match message:
            case {"format": str(name)} if name in dict(self.formats):
                self._choose(name)
                return True
        return False


class ExportSection(Section):
    """The list of formats, and the plan to copy or download.

    `below` returns what comes after it, once it is opened.
    """

    def __init__(self, below: Callable[[], tuple[w.Widget, ...]] = tuple) -> None:
        super().__init__("Export", "export", PAUSE_SECONDS)
        self._below = below
        self.view: ExportView | None = None
        self._own: Callable[[], Html] | None = None

    def give_back(self, write: Callable[[], Html] | None) -> None:
        """Offer the user's own text, which `write` writes; None: there is none."""
        self._own = write
        if self.view is not None:
            self._list_formats(self.view)
            self.refresh()

    def _list_formats(self, view: ExportView) -> None:
        """Put the user's own text first while there is one, and choose it."""
        had_own = view.formats[0][0] == OWN
        if self._own is not None:
            view.formats, view.chosen = [[OWN, _OWN_TITLE], *_titles()], OWN
        elif had_own:
            view.formats, view.chosen = _titles(), next(iter(FORMATS))

    def inside(self) -> tuple[w.Widget, ...]:
        """Return the list of formats, created when first opened, and what is below."""
        if self.view is None:
            self.view = ExportView(self.choose)
            self._list_formats(self.view)
        return (self.view, *self._below())

    def choose(self, name: str) -> None:
        """Export the plan in the format called `name`."""
        if self.view is not None:
            self.view.chosen = name
            self.refresh()

    def refresh(self) -> None:
        """Export the plan again, or show why the format cannot express it."""
        if self._plan is None or self.view is None:
            return
        try:
            self.view.html = self._written(self.view.chosen, self._plan)
        except PlannerError as error:
            # That a format cannot express a layout is a result, not invalid input.
            self.view.html = alert_html(str(error))
        except Exception:
            log.exception("the plan was not written in the chosen format")
            self.view.html = alert_html(UNEXPECTED)

    def _written(self, chosen: str, plan: Plan) -> Html:
        if chosen == OWN and self._own is not None:
            return self._own()
        return _html(FORMATS[chosen], FORMATS[chosen].write(plan))


def _titles() -> list[list[str]]:
    return [[name, one.title] for name, one in FORMATS.items()]


def _html(chosen: ExportFormat, text: str) -> Html:
    encoded = base64.b64encode(text.encode()).decode()
    download = tag(
        "a",
        f"Download {chosen.file_name}",
        class_="pl-download",
        download=chosen.file_name,
        href=f"data:{chosen.media_type};charset=utf-8;base64,{encoded}",
    )
    if not chosen.is_shown:
        return tag("div", download, class_="pl-export")
    is_link = chosen is FORMATS["link"]
    base = share_address() if is_link else None
    code = tag("code", text, data_link=text if is_link else None, data_base=base)
    shown = to_copy(code, label=chosen.title, copied="text")
    return tag("div", shown, None if is_link else download, class_="pl-export")
