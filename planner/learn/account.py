"""The lines of a plan as a table that fits on a page, with their arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from planner.learn.reading import rank_of
from planner.learn.showing import Spoken, boxed
from planner.result import Line, Plan
from planner.units import format_gib


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Account(Spoken):
    """The lines of one GPU's memory; they show themselves."""

    lines: tuple[Line, ...]

    def __str__(self) -> str:
        return "\n".join(
            f"{line.name}: {format_gib(line.size_bytes)}, {line.basis}. {line.why}"
            for line in self.lines
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th scope='row'>{escape(line.name)}</th>"
            f"<td class='pl-number' data-label='Size'>{format_gib(line.size_bytes)}"
            f"</td><td class='pl-basis' data-label='Basis'>{line.basis}</td>"
            f"<td class='pl-why'>{escape(line.why)}</td></tr>"
            for line in self.lines
        )
        return boxed(
            "<table class='pl-lines pl-stacked'><caption>Each use of memory</caption>"
            "<thead><tr><th scope='col'>Line</th>"
            "<th scope='col' class='pl-number'>Size</th><th scope='col'>Basis</th>"
            "<th scope='col'>Arithmetic</th></tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        )


def lines(plan: Plan) -> Account:
    """Return the lines of a plan, one use of memory each.

    Raises:
        PlannerError: where vLLM refuses the settings, so that nothing is allocated.
    """
    return Account(lines=rank_of(plan).lines)
