"""An exercise: what is asked, what is right, hints, and a worked solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.errors import PlannerError
from planner.learn.judgement import Judgement, State, together
from planner.learn.parts import Part
from planner.learn.showing import Shown, Spoken, outcome_html, outcome_text


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Outcome(Spoken):
    """What a check said; it shows itself in a notebook and in a terminal."""

    exercise: str
    title: str
    judgements: dict[str, Judgement]

    @property
    def state(self) -> State:
        """Right when every part is, not attempted when none was."""
        return together([one.state for one in self.judgements.values()])

    def __str__(self) -> str:
        return outcome_text(self)

    def _repr_html_(self) -> str:
        return outcome_html(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """One exercise of a lesson.

    `check` takes the answers in the order of the parts, or by their names.
    """

    name: str
    """Lesson and number, such as "2.1"."""
    title: str
    minutes: int
    """What it takes at most, as the lesson says."""
    parts: tuple[Part, ...]
    hints: tuple[str, ...]
    solved: Callable[[], Shown]
    """Work the solution out, with the planner's own arithmetic."""

    def check(self, *answers: object, **named: object) -> Outcome:
        """Say how each part stands and which is off, without giving it away.

        Raises:
            PlannerError: for more answers than parts, or a name that no part has.
        """
        given = self._by_name(answers, named)
        outcome = Outcome(
            exercise=self.name,
            title=self.title,
            judgements={
                part.name: part.judge(given.get(part.name)) for part in self.parts
            },
        )
        # Imported here: what is kept names exercises.
        from planner.learn.progress import keep  # noqa: PLC0415

        keep(self.name, outcome.state)
        return outcome

    def hint(self, number: int = 1) -> Shown:
        """Return a hint, from a small one to one that shows the way.

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
        """Return the worked solution, computed when it is asked for."""
        return self.solved()

    def _by_name(
        self, answers: tuple[object, ...], named: dict[str, object]
    ) -> dict[str, object]:
        names = [part.name for part in self.parts]
        unknown = [name for name in named if name not in names]
        if unknown or len(answers) > len(names):
            wrong = ", ".join(unknown) or f"{len(answers)} answers"
            raise PlannerError(
                f"Exercise {self.name} does not ask for {wrong}. "
                f"It asks for: {', '.join(names)}."
            )
        return {**dict(zip(names, answers, strict=False)), **named}
