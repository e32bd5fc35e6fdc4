"""How checks, hints and solutions are shown in a notebook and in a terminal."""

from __future__ import annotations

from typing import Any, ClassVar

from planner.learn.parts import AnswerState
from planner.registries import provided
from planner.show.document import whole
from planner.show.html import Html, fragment, tag
from planner.show.pieces import NOTHING, to_open
from planner.values import frozen
from planner.views import Views

_SYMBOLS = {
    AnswerState.RIGHT: "✔",
    AnswerState.NOT_YET: "✘",
    AnswerState.NOT_ATTEMPTED: "…",
}
TONES = {
    AnswerState.RIGHT: "fits",
    AnswerState.NOT_YET: "short",
    AnswerState.NOT_ATTEMPTED: "open",
}


class ShownAsText:
    """A value that a terminal shows as its text, not by its fields."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ShownAsPage(ShownAsText):
    """One that a notebook shows as a page, which is also a file."""

    __slots__ = ()

    script: ClassVar[str]
    """What makes it interactive, such as "slide.js"."""

    @property
    def page_title(self) -> str:
        """The title of its own page."""
        raise NotImplementedError

    def described(self) -> dict[str, Any]:
        """Describe it for the script."""
        raise NotImplementedError

    def table(self) -> Html:
        """Show it where no script runs."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **_options: object) -> dict[str, str]:
        return provided(Views, "ShownAsPage").mimebundle(self)

    def to_html(self) -> str:
        """Return a page of its own, which needs no kernel and no network."""
        return provided(Views, "ShownAsPage").page(self)


@frozen(repr=False)
class Shown(ShownAsText):
    """A hint or a solution: a title, text with a paragraph on each line, and code."""

    title: str = "Solution"
    text: str
    code: str = ""

    def __str__(self) -> str:
        said = f"{self.title}: {self.text}".strip()
        return "\n".join(filter(None, (said, self.code)))

    def _repr_html_(self) -> str:
        title = tag("p", tag("strong", self.title))
        return whole(title, paragraphs(self.text), self._code)

    @property
    def _code(self) -> Html | None:
        code = tag("code", self.code)
        return tag("pre", code, class_="pl-plain-command") if self.code else None


def symbol(state: AnswerState) -> str:
    """Return the sign of a state, which is always shown with its word."""
    return _SYMBOLS[state]


def paragraphs(text: str) -> list[Html]:
    """Write a paragraph for each line that is not empty."""
    return [tag("p", line) for line in text.split("\n") if line]


def folded(title: str, text: str) -> Html:
    """Write paragraphs that open below their title; nothing without text."""
    return to_open(title, fragment(*paragraphs(text)), "pl-more") if text else NOTHING
