"""A solver's answer as one self-contained piece of HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from planner.presentation.page import style
from planner.presentation.solution import (
    asked,
    gpu_name,
    notes,
    solution_text,
    value_text,
)

if TYPE_CHECKING:
    from planner.solve.solution import Solution


def mimebundle(solution: Solution) -> dict[str, str]:
    """Return the answer as text and as HTML."""
    return {
        "text/plain": solution_text(solution),
        "text/html": solution_html(solution),
    }


def solution_html(solution: Solution) -> str:
    """Show value, question, arithmetic, options and command; needs no script."""
    return (
        f"<style>{style()}</style><div class='pl-plan pl-whole'>{_answer(solution)}"
        f"{_options(solution)}{_notes(solution)}{_command(solution)}</div>"
    )


def _answer(solution: Solution) -> str:
    tone, symbol = ("fits", "✔") if solution.is_found else ("short", "✘")
    return (
        f"<div class='pl-verdict pl-{tone}'>"
        f"<p class='pl-subject'>{escape(asked(solution))}</p>"
        f"<p class='pl-headline'><span class='pl-symbol' aria-hidden='true'>{symbol}"
        f"</span> {escape(value_text(solution))}</p>"
        f"<p class='pl-sentence'>{escape(solution.why)}</p></div>"
    )


def _options(solution: Solution) -> str:
    if not solution.options[1:]:
        return ""
    rows = "".join(
        f"<tr><th scope='row'>{escape(gpu_name(option))}</th>"
        f"<td>{escape(value_text(option))}</td>"
        f"<td class='pl-why'>{escape(option.why)}</td></tr>"
        for option in solution.options
    )
    return (
        "<table class='pl-lines'><caption>Each GPU, best first</caption><thead><tr>"
        "<th scope='col'>GPU</th><th scope='col'>Fewest</th>"
        f"<th scope='col'>Arithmetic</th></tr></thead><tbody>{rows}</tbody></table>"
    )


def _notes(solution: Solution) -> str:
    items = "".join(f"<li>{escape(note)}</li>" for note in notes(solution))
    return f"<ul class='pl-notes'>{items}</ul>"


def _command(solution: Solution) -> str:
    if not solution.is_found:
        return ""
    return (
        "<pre class='pl-plain-command' tabindex='0' aria-label='Command'><code>"
        f"{escape(solution.command())}</code></pre>"
    )
