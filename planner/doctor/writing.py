"""How the doctor's answer looks, in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from textwrap import fill

from planner.doctor.finding import Finding, State
from planner.presentation.page import style

_SYMBOL = {State.WORKS: "✔", State.LIMITED: "!", State.MISSING: "✘"}
_WIDTH = 88
_NAME_WIDTH = 8


def report_text(findings: Iterable[Finding]) -> str:
    """Write a paragraph for each finding, its remedy behind an arrow."""
    return "\n".join(_paragraph(one) for one in findings)


def report_html(findings: Iterable[Finding]) -> str:
    """Show the findings as a table; needs no script."""
    rows = "".join(
        f"<tr><th scope='row'>{escape(one.name)}</th>"
        f"<td><span aria-hidden='true'>{_SYMBOL[one.state]}</span> {one.state.value}"
        f"</td><td>{escape(_sentence(one))}</td><td>{escape(one.remedy)}</td></tr>"
        for one in findings
    )
    return (
        f"<style>{style()}</style><div class='pl-plan pl-whole'>"
        "<table class='pl-lines'><caption>What works on this machine</caption><thead>"
        "<tr><th scope='col'>Part</th><th scope='col'>State</th>"
        "<th scope='col'>Found</th><th scope='col'>What to do</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _paragraph(one: Finding) -> str:
    indent = " " * (_NAME_WIDTH + 2)
    head = f"{_SYMBOL[one.state]} {one.name:<{_NAME_WIDTH}}"
    lines = [fill(f"{head}{_sentence(one)}", _WIDTH, subsequent_indent=indent)]
    if one.remedy:
        lines.append(
            fill(
                f"{indent}→ {one.remedy}",
                _WIDTH,
                subsequent_indent=f"{indent}  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
    return "\n".join(lines)


def _sentence(one: Finding) -> str:
    return f"{one.says}. {one.does}".strip()
