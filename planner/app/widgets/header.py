"""The header: release, undo and redo, named plans, a link to share, first recipes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic, TypeVar

import traitlets

from planner.app.widgets.fields import ChoiceField, Field
from planner.app.widgets.needs import RECIPES, recipe_named
from planner.app.widgets.page_widget import PageWidget
from planner.app.widgets.static_files import script, sheet
from planner.planning.inputs import Inputs
from planner.surroundings import share_address

State = TypeVar("State")
MOST_STEPS = 100
"""How many changes can be taken back."""
SAME_STEP_SECONDS = 1.0
"""Within this time, further changes of one control belong to the same step."""


@dataclass(slots=True)
class History(Generic[State]):
    """The states before each change of the controls, and those that were taken back."""

    _: KW_ONLY
    clock: Callable[[], float] = time.monotonic
    before: list[State] = field(default_factory=list)
    after: list[State] = field(default_factory=list)
    _last: tuple[str, float] = ("", 0.0)

    def note(self, state: State, name: str) -> None:
        """Record the state before a change of the control called `name`."""
        now = self.clock()
        last, at = self._last
        self._last = (name, now)
        self.after.clear()
        if name and name == last and now - at < SAME_STEP_SECONDS and self.before:
            return
        self.before.append(state)
        del self.before[:-MOST_STEPS]

    def undo(self, now: State) -> State | None:
        """Return the state before the last change; None: there is none."""
        return self._move(self.before, self.after, now)

    def redo(self, now: State) -> State | None:
        """Return the state that was taken back last; None: there is none."""
        return self._move(self.after, self.before, now)

    def _move(
        self, source: list[State], target: list[State], now: State
    ) -> State | None:
        if not source:
            return None
        self._last = ("", 0.0)
        target.append(now)
        return source.pop()


class PageHeader(PageWidget):
    """The row above the explorer, and the page's address.

    Named plans stay in the browser: each is a query, as the address has it. `opened` is
    called with a query, `moved` with "undo" or "redo", `chosen` with the inputs of a
    recipe.
    """

    _esm = script("header.js")
    _css = sheet("header.css")
    called = "header"

    query = traitlets.Unicode().tag(sync=True)
    """Such as "?model=...&gpu=H100"; the address changes only when this does."""
    can_undo = traitlets.Bool(False).tag(sync=True)
    can_redo = traitlets.Bool(False).tag(sync=True)
    recipes: Any = traitlets.List().tag(sync=True)
    """What each says."""
    releases: Any = traitlets.List().tag(sync=True)
    release = traitlets.Unicode().tag(sync=True)
    share_at = traitlets.Unicode().tag(sync=True)
    """Address of an app that others can open; empty where none is known."""

    def __init__(
        self,
        release: Field,
        opened: Callable[[str], None],
        moved: Callable[[str], None],
        chosen: Callable[[Inputs], None],
    ) -> None:
        super().__init__(recipes=list(RECIPES), share_at=share_address())
        self._opened = opened
        self._moved = moved
        self._chosen = chosen
        self._release = release
        assert isinstance(release, ChoiceField)
        self.releases = [label for label, _ in release.options]
        self.follow_release(release)
        release.on_change(self.follow_release)

    def follow_release(self, release: Field) -> None:
        """Show the release that is planned for."""
        self.release = str(release.value)

    def show(self, history: History[Any]) -> None:
        """Show what can be taken back, or made again."""
        self.can_undo, self.can_redo = bool(history.before), bool(history.after)

    def hear(self, message: Any) -> bool:  # noqa: ANN401 - what a page sent
        """Pass on what is opened, taken back or chosen."""
        match message:
            case {"opened": str(query)}:
                self._opened(query)
            case {"move": "undo" | "redo" as way}:
                self._moved(way)
            case {"release": str(release)}:
                return self._release.receive(release)
            case {"recipe": number} if (inputs := recipe_named(number)) is not None:
                self._chosen(inputs)
            case _:
                return False
        return True
