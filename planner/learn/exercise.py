"""An exercise: its parts, the check of an answer, hints, and a worked solution."""

from __future__ import annotations

from collections.abc import Callable

from planner.errors import PlannerError
from planner.learn.display import TONES, Shown, ShownAsText, paragraphs, symbol
from planner.learn.parts import AnswerState, Judgement, Part, together
from planner.learn.progress import keep
from planner.show.document import whole
from planner.show.html import Html, fragment, tag
from planner.show.pieces import NOTHING, command_line, listed, to_open, verdict_box
from planner.values import frozen


@frozen(repr=False)
class CheckedAnswer(ShownAsText):
    """The result of a check, for a notebook and for a terminal."""

    exercise: str
    title: str
    judgements: dict[str, Judgement]
    to_go_on: str
    """What to type for help."""
    hints: tuple[str, ...] = ()
    """What a page offers instead, one after the other."""
    solved: Callable[[], Shown] | None = None
    """What it offers after them, once something was tried."""

    @property
    def state(self) -> AnswerState:
        """Right when every part is, not attempted when none was."""
        return together([one.state for one in self.judgements.values()])

    def __str__(self) -> str:
        return outcome_text(self)

    def _repr_html_(self) -> str:
        return outcome_html(self)


@frozen
class Exercise:
    """One exercise of a lesson.

    `check` takes the answers in the order of the parts, or by their names.
    """

    name: str
    """Lesson and number, such as "2.1"."""
    title: str
    minutes: int = 2
    """The time that it takes at most, as the lesson states it."""
    parts: tuple[Part, ...]
    hints: tuple[str, ...]
    solved: Callable[[], Shown]
    """Work the solution out, with the planner's own arithmetic."""

    def check(self, *answers: object, **named: object) -> CheckedAnswer:
        """Judge each part of the answer, without giving the right answer away.

        Raises:
            PlannerError: for more answers than parts, or a name that no part has.
        """
        given = self._by_name(answers, named)
        outcome = CheckedAnswer(
            exercise=self.name,
            title=self.title,
            judgements={
                part.name: part.judge(given.get(part.name)) for part in self.parts
            },
            to_go_on=f'learn.exercise("{self.name}").hint()',
            hints=self.hints,
            solved=self.solved,
        )
        keep(self.name, outcome.state)
        return outcome

    def hint(self, number: int = 1) -> Shown:
        """Return a hint; a higher number helps more.

        Raises:
            PlannerError: for a number without a hint.
        """
        if not 1 <= number <= len(self.hints):
            raise PlannerError(
                f"Exercise {self.name} has no hint {number}: hint(1) to "
                f"hint({len(self.hints)})."
            )
        return Shown(
            title=f"Hint {number} of {len(self.hints)}", text=self.hints[number - 1]
        )

    def solution(self) -> Shown:
        """Return the worked solution, computed by the planner."""
        return self.solved()

    def _by_name(
        self, answers: tuple[object, ...], named: dict[str, object]
    ) -> dict[str, object]:
        names = [part.name for part in self.parts]
        unknown = [name for name in named if name not in names]
        if unknown or len(answers) > len(names):
            wrong = ", ".join(unknown) or f"{len(answers)} answers"
            raise PlannerError(
                f"Exercise {self.name} does not take {wrong}. "
                f"It takes: {', '.join(names)}."
            )
        return {**dict(zip(names, answers, strict=False)), **named}


def outcome_text(outcome: CheckedAnswer) -> str:
    """Write the result of a check, with a line for each part if there are several."""
    head = (
        f"{symbol(outcome.state)} Exercise {outcome.exercise}, {outcome.title}: "
        f"{outcome.state}"
    )
    return "\n".join([head, *_lines(outcome)])


def outcome_html(outcome: CheckedAnswer) -> Html:
    """Show the result of a check, which a screen reader announces."""
    state = outcome.state
    return whole(
        verdict_box(
            TONES[state],
            listed(_lines(outcome, with_way=not outcome.hints), None),
            _help(outcome),
            subject=f"Exercise {outcome.exercise}: {outcome.title}",
            symbol=symbol(state),
            headline=state.value.capitalize(),
            role="status",
        )
    )


def _help(outcome: CheckedAnswer) -> Html:
    """Offer the hints, each inside the one before it, and at last the solution."""
    state = outcome.state
    if state is AnswerState.RIGHT:
        return NOTHING
    inside = NOTHING
    if outcome.solved is not None and state is AnswerState.NOT_YET:
        shown = outcome.solved()
        code = command_line(shown.code) if shown.code else NOTHING
        inside = to_open("Solution", [*paragraphs(shown.text), code], "pl-hint")
    count = len(outcome.hints)
    for number, hint in reversed(list(enumerate(outcome.hints, start=1))):
        hinted = fragment(tag("p", hint), inside)
        inside = to_open(f"Hint {number} of {count}", hinted, "pl-hint")
    return inside


def _lines(outcome: CheckedAnswer, *, with_way: bool = True) -> list[str]:
    several = len(outcome.judgements) > 1
    if outcome.state is AnswerState.NOT_ATTEMPTED:
        return ["Replace the ... with your answer and run the cell again."]
    lines = [
        _line(name if several else "", judgement)
        for name, judgement in outcome.judgements.items()
        if several or judgement.remark
    ]
    if with_way and outcome.state is AnswerState.NOT_YET:
        lines.append(f"Stuck? {outcome.to_go_on}")
    return lines


def _line(name: str, judgement: Judgement) -> str:
    if not name:
        return judgement.remark
    remark = f" {judgement.remark}" if judgement.remark else ""
    return f"{symbol(judgement.state)} {name}: {judgement.state}.{remark}"
