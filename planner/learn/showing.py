"""How checks, hints and solutions look, in a notebook and in a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from planner.learn.judgement import Judgement, State
from planner.presentation.page import style

if TYPE_CHECKING:
    from planner.learn.exercise import Outcome

_SYMBOL = {State.RIGHT: "✔", State.NOT_YET: "✘", State.NOT_ATTEMPTED: "…"}
_TONE = {State.RIGHT: "fits", State.NOT_YET: "short", State.NOT_ATTEMPTED: "open"}


class Spoken:
    """What shows itself in a terminal by its text, not by its fields."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Shown(Spoken):
    """A hint or a solution: a title, sentences (a paragraph a line), and code."""

    title: str
    text: str
    code: str = ""

    def __str__(self) -> str:
        return "\n".join(filter(None, (f"{self.title}: {self.text}", self.code)))

    def _repr_html_(self) -> str:
        code = f"<pre><code>{escape(self.code)}</code></pre>" if self.code else ""
        lines = "".join(f"<p>{escape(line)}</p>" for line in self.text.split("\n"))
        return boxed(f"<p><strong>{escape(self.title)}</strong></p>{lines}{code}")


def symbol(state: State) -> str:
    """Return the sign of a state; it always stands beside the word."""
    return _SYMBOL[state]


def boxed(inner: str) -> str:
    """Put HTML into the box that plans are shown in, in its type and colours."""
    return f"<style>{style()}</style><div class='pl-plan pl-whole'>{inner}</div>"


def outcome_text(outcome: Outcome) -> str:
    """Write what a check said, a line for each part where there are several."""
    head = (
        f"{_SYMBOL[outcome.state]} Exercise {outcome.exercise}, {outcome.title}: "
        f"{outcome.state}"
    )
    return "\n".join([head, *_lines(outcome)])


def outcome_html(outcome: Outcome) -> str:
    """Show what a check said; a screen reader speaks it when it appears."""
    state = outcome.state
    lines = "".join(f"<li>{escape(line)}</li>" for line in _lines(outcome))
    return boxed(
        f"<div class='pl-verdict pl-{_TONE[state]}' role='status'>"
        f"<p class='pl-subject'>Exercise {escape(outcome.exercise)}: "
        f"{escape(outcome.title)}</p><p class='pl-headline'>"
        f"<span class='pl-symbol' aria-hidden='true'>{_SYMBOL[state]}</span> "
        f"{escape(state.value.capitalize())}</p>"
        f"{f'<ul>{lines}</ul>' if lines else ''}</div>"
    )


def _lines(outcome: Outcome) -> list[str]:
    several = len(outcome.judgements) > 1
    if outcome.state is State.NOT_ATTEMPTED:
        return ["Replace the ... by your answer and run the cell again."]
    lines = [
        _line(name if several else "", judgement)
        for name, judgement in outcome.judgements.items()
        if several or judgement.remark
    ]
    if outcome.state is State.NOT_YET:
        lines.append(f'Stuck? learn.exercise("{outcome.exercise}").hint()')
    return lines


def _line(name: str, judgement: Judgement) -> str:
    if not name:
        return judgement.remark
    remark = f" {judgement.remark}" if judgement.remark else ""
    return f"{_SYMBOL[judgement.state]} {name}: {judgement.state}.{remark}"
