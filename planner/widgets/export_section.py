"""The plan to take away: code, manifests, reports and a link, to copy or download."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from html import escape
from typing import TYPE_CHECKING

import ipywidgets as w

from planner import export
from planner.errors import PlannerError
from planner.widgets.fields import ChoiceField
from planner.widgets.guard import alert_html, guarded
from planner.widgets.later import Later

if TYPE_CHECKING:
    from planner.result import Plan

PAUSE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Format:
    """One way to take a plan away."""

    title: str
    file_name: str
    media_type: str
    write: Callable[[Plan], str]
    _: KW_ONLY
    is_shown: bool = True
    """Whether it is short enough to read on the page."""


FORMATS = {
    "link": Format("Link that opens this plan", "plan.txt", "text/plain", export.link),
    "python": Format(
        "Python, the LLM class", "plan.py", "text/x-python", export.python
    ),
    "compose": Format(
        "Docker compose", "compose.yaml", "application/yaml", export.compose
    ),
    "kubernetes": Format(
        "Kubernetes", "vllm.yaml", "application/yaml", export.kubernetes
    ),
    "yaml": Format(
        "Plan file, for planner plan -f", "plan.yaml", "application/yaml", export.yaml
    ),
    "html": Format(
        "Report as a page", "plan.html", "text/html", export.html, is_shown=False
    ),
    "markdown": Format(
        "Report as Markdown", "plan.md", "text/markdown", export.markdown
    ),
    "json": Format(
        "All figures as JSON",
        "plan.json",
        "application/json",
        export.json,
        is_shown=False,
    ),
    "csv": Format("Memory lines as CSV", "plan.csv", "text/csv", export.csv),
}
"""By the name of the function that writes it."""


class ExportSection(w.VBox):
    """A button that opens the formats, one of them shown, to copy or download."""

    def __init__(self) -> None:
        self.toggle = w.ToggleButton(
            value=False,
            description="Take it away",
            tooltip="Code, manifests, reports and a link for this plan",
        )
        self.toggle.add_class("planner-toggle")
        self.alert = w.HTML()
        self.text = w.HTML()
        self.text.add_class("pl-plan")
        self.choice: ChoiceField | None = None
        super().__init__([self.toggle])
        self.add_class("planner-export")
        self._plan: Plan | None = None
        self._later = Later(PAUSE_SECONDS)
        self._write = guarded(self.alert)(self._show)
        self.toggle.observe(self._toggled, names="value")

    def show(self, plan: Plan) -> None:
        """Write this plan, where the section is open."""
        self._plan = plan
        if self.toggle.value:
            self._later.run(self._write)

    def _toggled(self, change: dict[str, bool]) -> None:
        if self.choice is None:
            self.choice = ChoiceField(
                "format",
                "what to write",
                "How to take the plan away.",
                [(one.title, name) for name, one in FORMATS.items()],
            )
            self.choice.observe(lambda _change: self._write(), names="value")
        inside = (self.choice, self.alert, self.text)
        self.children = (self.toggle, *(inside if change["new"] else ()))
        if change["new"]:
            self._write()

    def _show(self) -> None:
        if self._plan is None or self.choice is None:
            return
        chosen = FORMATS[str(self.choice.value)]
        self.text.value = ""
        try:
            self.text.value = _html(chosen, chosen.write(self._plan))
        except PlannerError as error:
            # A layout that a format cannot express is an answer, not a wrong input.
            self.alert.value = alert_html(str(error))


def _html(chosen: Format, text: str) -> str:
    encoded = base64.b64encode(text.encode()).decode()
    download = (
        f"<a class='pl-download' download='{chosen.file_name}' "
        f"href='data:{chosen.media_type};charset=utf-8;base64,{encoded}'>"
        f"Download {chosen.file_name}</a>"
    )
    if not chosen.is_shown:
        return f"<div class='pl-export'>{download}</div>"
    is_link = chosen is FORMATS["link"]
    link = f" data-link='{escape(text)}'" if is_link else ""
    return (
        "<div class='pl-export'><div class='pl-command'>"
        f"<pre tabindex='0' aria-label='{escape(chosen.title)}'>"
        f"<code{link}>{escape(text)}</code></pre>"
        "<button type='button' class='pl-copy' data-copy='text'>Copy</button></div>"
        f"{'' if is_link else download}</div>"
    )
