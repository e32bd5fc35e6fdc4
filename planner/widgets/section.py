"""A part of the page behind a button that opens it."""

from __future__ import annotations

import anywidget
import ipywidgets as w
import traitlets

from planner.widgets.static_files import script


class Toggle(anywidget.AnyWidget):
    """A heading with a button that says whether it is open."""

    _esm = script("toggle.js")

    description = traitlets.Unicode().tag(sync=True)
    value = traitlets.Bool(False).tag(sync=True)


class Section(w.VBox):
    """A button, and below it what it opens; made and shown only while it is open."""

    def __init__(self, title: str, name: str) -> None:
        self.toggle = Toggle(description=title)
        super().__init__([self.toggle])
        self.add_class("planner-section")
        self.add_class(f"planner-{name}")
        self.toggle.observe(self._toggled, names="value")

    @property
    def is_open(self) -> bool:
        """Whether its inside is on the page."""
        return bool(self.toggle.value)

    def inside(self) -> tuple[w.Widget, ...]:
        """Return what stands below the button; called when it is opened."""
        return ()

    def refresh(self) -> None:
        """Bring the inside up to date, where it is open."""

    def _toggled(self, change: dict[str, bool]) -> None:
        inside = self.inside() if change["new"] else ()
        self.children = (self.toggle, *inside)
        if change["new"]:
            self.refresh()
