"""Words of a lesson, explained with the texts of the planner's glossary."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from planner.errors import PlannerError
from planner.learn.showing import Spoken, boxed
from planner.presentation.glossary import explained


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Words(Spoken):
    """Words with their explanations; they show themselves."""

    explained: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return "\n".join(f"{word}: {text}" for word, text in self.explained)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<dt>{escape(word)}</dt><dd>{escape(text)}</dd>"
            for word, text in self.explained
        )
        return boxed(f"<dl class='pl-words'>{rows}</dl>")


def words(*names: str) -> Words:
    """Explain words, such as `words("KV cache", "block")`.

    Raises:
        PlannerError: for a word that the glossary does not have.
    """
    for name in names:
        if not explained(name):
            raise PlannerError(f"The glossary has no word {name!r}.")
    return Words(explained=tuple((name, explained(name)) for name in names))
