"""All checks, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from planner.doctor import hardware, network, software
from planner.doctor.finding import Finding, State
from planner.doctor.writing import report_html, report_text
from planner.errors import PlannerError

_CHECKS: dict[str, Callable[[], Finding]] = {
    "python": software.python,
    "app": software.app,
    "browser": software.browser,
    "memory": hardware.memory,
    "disk": hardware.disk,
    "hub": network.hub,
    "gpu": hardware.gpu,
    "vllm": software.vllm,
    "ray": software.ray,
}
NAMES = tuple(_CHECKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What works on this machine, and what to do about the rest."""

    findings: tuple[Finding, ...]

    def works(self, *names: str) -> bool:
        """Tell whether all that is named works.

        Raises:
            PlannerError: for a name that is not looked at.
        """
        unknown = [name for name in names if name not in NAMES]
        if unknown:
            raise PlannerError(
                f"{', '.join(unknown)} is not looked at. There are: {', '.join(NAMES)}."
            )
        found = {one.name: one.state for one in self.findings}
        return all(found.get(name) is State.WORKS for name in names)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain values."""
        return {"findings": [asdict(one) for one in self.findings]}

    def __str__(self) -> str:
        return report_text(self.findings)

    def _repr_html_(self) -> str:
        return report_html(self.findings)


def examine(names: Iterable[str] = NAMES) -> Report:
    """Look at this machine; nothing is started, changed or sent but one question.

    The question goes to the Hub, to see whether it answers. A check that fails in
    a way nobody thought of becomes a finding of its own.
    """
    return Report(findings=tuple(_looked_at(name) for name in names))


def _looked_at(name: str) -> Finding:
    try:
        return _CHECKS[name]()
    except Exception as error:  # noqa: BLE001 - a doctor does not fall ill
        return Finding(
            name=name,
            state=State.LIMITED,
            says=f"could not be looked at: {type(error).__name__}: {error}",
            remedy="Report this sentence with what machine it is.",
        )
