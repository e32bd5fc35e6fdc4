"""A list of rows with buttons: advice to apply, pinned plans, further arguments.

One widget for the whole list: as ipywidgets, thirty rows would be a hundred models in
every visitor's kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import traitlets

from planner.app.widgets.page_widget import PageWidget
from planner.app.widgets.static_files import script, sheet

Row = dict[str, Any]
"""key and title; optionally gain, code, detail, tone and actions, and the group and its
rule that stand above the first of several rows."""


class ActionList(PageWidget):
    """Show rows; `pressed` is called with an action's name and its row's key."""

    _esm = script("actions.js")
    _css = sheet("actions.css")
    called = "list"

    heading = traitlets.Unicode().tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    """A sentence below the heading; without rows and note the list is not shown."""
    rows: Any = traitlets.List().tag(sync=True)
    remarks: Any = traitlets.List().tag(sync=True)
    """Sentences below the rows."""
    shown = traitlets.Int(5).tag(sync=True)
    """Rows at first; a button opens the rest."""
    is_busy = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self, heading: str, pressed: Callable[[str, str], None], **traits: object
    ) -> None:
        super().__init__(heading=heading, **traits)
        self._pressed = pressed

    def hear(self, message: Any) -> bool:  # noqa: ANN401 - what a page sent
        """Pass on a press."""
        match message:
            case {"press": str(action), "row": str(key)}:
                self._pressed(action, key)
                return True
        return False


def action(name: str, label: str) -> dict[str, str]:
    """Return the description of a row's button."""
    return {"name": name, "label": label}
