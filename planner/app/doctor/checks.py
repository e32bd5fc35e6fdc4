"""Runs the checks and reports their findings in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from itertools import starmap
from textwrap import fill
from typing import Any

from planner.app.doctor import machine
from planner.app.doctor.machine import Finding, Health
from planner.errors import PlannerError
from planner.show.document import whole
from planner.show.html import Html, tag
from planner.show.pieces import row, table
from planner.values import frozen

_SYMBOL = {Health.WORKS: "✔", Health.LIMITED: "!", Health.MISSING: "✘"}
_COLUMNS = ("Part", "State", "Found", "What to do")
_WIDTH = 88
_NAME_WIDTH = 8
_CHECKS: dict[str, Callable[[], Finding]] = {
    check.__name__: check
    for check in (
        *(machine.python, machine.app, machine.package, machine.browser),
        *(machine.memory, machine.disk),
        *(machine.hub, machine.gpu, machine.vllm, machine.ray),
    )
}
NAMES = tuple(_CHECKS)


@frozen
class Report:
    """The findings of all checks."""

    findings: Mapping[str, Finding]
    """By the part that was checked, as `--need` takes it."""

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
        found = self.findings
        return all(
            name in found and found[name].state is Health.WORKS for name in names
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as plain values."""
        found = self.findings.items()
        return {"findings": [{"name": name, **asdict(one)} for name, one in found]}

    def __str__(self) -> str:
        """Return a paragraph for each finding, with its remedy after an arrow."""
        return "\n".join(starmap(_paragraph, self.findings.items()))

    def _repr_html_(self) -> str:
        rows = starmap(_row, self.findings.items())
        return whole(table("What works on this machine", _COLUMNS, rows))


def examine(names: Iterable[str] = NAMES) -> Report:
    """Check this machine, without starting or changing anything.

    One request goes to the Hub, to see whether it answers. A check that raises an
    unexpected error becomes a finding of its own.
    """
    return Report(findings={name: _looked_at(name) for name in names})


def _row(name: str, one: Finding) -> Html:
    sign = tag("span", _SYMBOL[one.state], aria_hidden="true")
    return row(
        name,
        tag("td", sign, f" {one.state}"),
        tag("td", _sentence(one)),
        tag("td", one.remedy),
    )


def _paragraph(name: str, one: Finding) -> str:
    indent = " " * (_NAME_WIDTH + 2)
    head = f"{_SYMBOL[one.state]} {name:<{_NAME_WIDTH}}"
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
            Health.LIMITED,
            says=f"could not be checked: {type(error).__name__}: {error}",
            remedy="Report this sentence and the kind of machine.",
        )
