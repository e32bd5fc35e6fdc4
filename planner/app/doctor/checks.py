"""Runs the checks and reports their findings in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from textwrap import fill
from typing import Any

from planner.app.doctor import machine
from planner.app.doctor.machine import Finding, Health
from planner.errors import PlannerError
from planner.show.html import Html, tag
from planner.show.page import whole
from planner.show.pieces import row, table
from planner.values import frozen

_SYMBOL = {Health.WORKS: "✔", Health.LIMITED: "!", Health.MISSING: "✘"}
_COLUMNS = ("Part", "State", "Found", "What to do")
_WIDTH = 88
_NAME_WIDTH = 8
_CHECKS: dict[str, Callable[[], Finding]] = {
    "python": machine.python,
    "app": machine.app,
    "browser": machine.browser,
    "memory": machine.memory,
    "disk": machine.disk,
    "hub": machine.hub,
    "gpu": machine.gpu,
    "vllm": machine.vllm,
    "ray": machine.ray,
}
NAMES = tuple(_CHECKS)


@frozen
class Report:
    """The findings of all checks."""

    findings: tuple[Finding, ...]

    def works(self, *names: str) -> bool:
        """Return whether all the named parts work.

        Raises:
            PlannerError: for a part without a check.
        """
        unknown = [name for name in names if name not in NAMES]
        if unknown:
            raise PlannerError(
                f"{', '.join(unknown)} cannot be checked. The parts are: "
                f"{', '.join(NAMES)}."
            )
        found = {one.name: one.state for one in self.findings}
        return all(found.get(name) is Health.WORKS for name in names)

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as plain values."""
        return {"findings": [asdict(one) for one in self.findings]}

    def __str__(self) -> str:
        return report_text(self.findings)

    def _repr_html_(self) -> str:
        return report_html(self.findings)


def examine(names: Iterable[str] = NAMES) -> Report:
    """Check this machine, without starting or changing anything.

    One request goes to the Hub, to see whether it answers. A check that raises an
    unexpected error becomes a finding of its own.
    """
    return Report(findings=tuple(_looked_at(name) for name in names))


def report_text(findings: Iterable[Finding]) -> str:
    """Write a paragraph for each finding, with its remedy after an arrow."""
    return "\n".join(_paragraph(one) for one in findings)


def report_html(findings: Iterable[Finding]) -> Html:
    """Write the findings as a table, which needs no script."""
    return whole(table("What works on this machine", _COLUMNS, map(_row, findings)))


def _row(one: Finding) -> Html:
    sign = tag("span", _SYMBOL[one.state], aria_hidden="true")
    return row(
        one.name,
        tag("td", sign, f" {one.state}"),
        tag("td", _sentence(one)),
        tag("td", one.remedy),
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


def _looked_at(name: str) -> Finding:
    try:
        return _CHECKS[name]()
    except Exception as error:  # noqa: BLE001 - one broken check must not hide the others
        return Finding(
            name,
            Health.LIMITED,
            says=f"could not be checked: {type(error).__name__}: {error}",
            remedy="Report this sentence and the kind of machine.",
        )
