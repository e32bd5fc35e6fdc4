"""A start of vLLM that was recorded, for machines on which none can be made.

The log and what was asked lie in `data/recorded/`; the comparison is computed anew.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from planner.confirming.comparison import confirmation_of
from planner.confirming.confirmation import Confirmation
from planner.confirming.from_log import measurement_of
from planner.gpu import CPU, GPU, Processor
from planner.learn.showing import Shown, Spoken, boxed
from planner.planning import plan
from planner.presentation.confirmation import confirmation_html
from planner.result import Plan

_FOLDER = Path(__file__).parents[1] / "data" / "recorded"
_ONLY = "qwen3-0.6b-cpu"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Recorded(Spoken):
    """A recorded start: what was asked, on which machine, and vLLM's log."""

    what: str
    date: str
    left_out: str
    """What of the log was changed for keeping it."""
    plan: Plan
    """What was asked, planned for the machine of the record."""
    log_text: str

    def compare(self) -> Confirmation:
        """Read the log and lay it over the plan."""
        return confirmation_of(
            self.plan, measurement_of(self.log_text), log_text=self.log_text
        )

    def said(self, *words: str) -> Shown:
        """Return the lines of the log that hold one of `words`, as vLLM wrote them."""
        lines = self.log_text.splitlines()
        found = [line for line in lines if any(word in line for word in words)]
        return Shown(title="From the log", text=self.label, code="\n".join(found))

    @property
    def label(self) -> str:
        """Say that this is a record, and of what."""
        return f"A recorded run of {self.date}, not one on your machine: {self.what}."

    def __str__(self) -> str:
        return f"{self.label}\n\n{self.compare()}\n\n{self.left_out}"

    def _repr_html_(self) -> str:
        return (
            boxed(f"<p><strong>{escape(self.label)}</strong></p>")
            + confirmation_html(self.compare())
            + boxed(f"<p>{escape(self.left_out)}</p>")
        )


def recorded() -> Recorded:
    """Return the start that was recorded with vLLM's CPU build."""
    told: dict[str, Any] = json.loads(_read("json"))
    return Recorded(
        what=told["what"],
        date=told["date"],
        left_out=told["left_out"],
        plan=plan(gpu=_machine(told["machine"]), **told["plan"]),
        log_text=_read("log"),
    )


def _machine(facts: dict[str, Any]) -> GPU:
    return GPU(
        name=CPU,
        total_memory_bytes=facts["total_memory_bytes"],
        device_name=facts["device_name"],
        processor=Processor(
            architecture=facts["architecture"], flags=tuple(facts["flags"])
        ),
        source="the machine of a recorded run",
    )


def _read(ending: str) -> str:
    return (_FOLDER / f"{_ONLY}.{ending}").read_text(encoding="utf-8")
