"""A learner's explanation in words, with an expert's beside it."""

from __future__ import annotations

from collections.abc import Callable

from planner.learn.display import ShownAsText, paragraphs
from planner.learn.progress import keep_prediction, kept
from planner.learn.quantity import is_untouched
from planner.show.document import whole
from planner.show.html import tag
from planner.show.pieces import listed
from planner.values import frozen


@frozen
class OpenQuestion:
    """What a lesson asks to be explained in words."""

    asked: str
    """The question, as the lesson has it."""
    expert: Callable[[], str]
    """An expert's explanation, with the planner's figures."""
    points: tuple[str, ...]
    """What a good explanation names."""


@frozen(repr=False)
class Explained(ShownAsText):
    """A learner's words, and an expert's once there are any."""

    question: OpenQuestion
    written: str
    """The learner's words; empty where there are none."""

    def __str__(self) -> str:
        if not self.written:
            return _HOW
        points = [f"- {point}" for point in self.question.points]
        return "\n".join(
            [
                f"You: {self.written}",
                f"An expert: {self.question.expert()}",
                _COMPARE,
                *points,
            ]
        )

    def _repr_html_(self) -> str:
        if not self.written:
            return whole(tag("p", str(self)))
        sides = [
            tag("div", tag("p", tag("strong", who)), paragraphs(words), style=_SIDE)
            for who, words in (
                ("You", self.written),
                ("An expert", self.question.expert()),
            )
        ]
        return whole(
            tag("div", sides, style="display:flex;flex-wrap:wrap;gap:0 24px"),
            tag("p", _COMPARE),
            listed(self.question.points, None),
        )


_HOW = (
    "Replace the ... with your explanation in quotes and run the cell again. An "
    "expert's explanation then appears beside yours."
)
_COMPARE = "Does yours name these points?"
_SIDE = "flex:1 1 16em;min-width:0"


def explained(name: str, question: OpenQuestion, words: object) -> Explained:
    """Keep a learner's words, which nobody judges, and show the expert's beside them.

    Args:
        name: under which they are kept.
        question: what was asked.
        words: the explanation; `...` while there is none.
    """
    if is_untouched(words):
        return Explained(question=question, written=kept().predictions.get(name, ""))
    written = str(words).strip()
    keep_prediction(name, written)
    return Explained(question=question, written=written)
