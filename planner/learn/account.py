"""The plans, figures and explanations that lessons show and exercises read.

For machines that cannot start vLLM there is a recorded start: `data/recorded/` has its
log and its inputs; the comparison with the plan is computed each time.
"""

from __future__ import annotations

import json
from typing import Any

from planner.confirming.confirmation import Confirmation
from planner.confirming.differences import confirmation_of
from planner.confirming.from_log import measurement_of
from planner.data import DATA
from planner.engine.devices import gpu_named
from planner.engine.gpu import CPU, GPU, Processor
from planner.errors import PlannerError
from planner.learn.display import Shown, ShownAsText, folded
from planner.memory.account import Line
from planner.memory.estimate import RankMemory
from planner.planning.planning import plan
from planner.planning.result import Plan
from planner.show.certainty import sentences
from planner.show.confirmation import sheet
from planner.show.document import whole, wide_page
from planner.show.glossary import explained
from planner.show.html import Html, fragment, tag
from planner.show.pieces import row, table
from planner.units import format_gib
from planner.values import frozen

_COLUMNS = ("Line", ("Size", "pl-number"), "How it is known")
_FOLDER = DATA / "recorded"
_RECORD = "qwen3-0.6b-cpu"
_MODEL = "Qwen/Qwen3-0.6B"
_LENGTH = 8192


def rank_of(plan: Plan) -> RankMemory:
    """Return the rank that limits a plan.

    Raises:
        PlannerError: where vLLM refuses the settings, so that nothing is allocated.
    """
    rank = plan.limiting_rank
    if rank is None:
        raise PlannerError(f"Nothing is allocated: {plan.error}")
    return rank


def line_of(plan: Plan, name: str) -> Line:
    """Return a line of the account, such as "weights"."""
    return rank_of(plan).line(name)


def why(plan: Plan, name: str) -> str:
    """Return a line's arithmetic as a sentence: its name, then the sum."""
    return f"{name}: {line_of(plan, name).why}."


def part_bytes(plan: Plan, name: str) -> int:
    """Return the bytes of a part of the weights, such as "attention"; 0 without it."""
    parts = rank_of(plan).weight_parts
    return next((one.size_bytes for one in parts if one.name == name), 0)


def token_bytes(plan: Plan) -> int:
    """Return the KV cache of one token, where each layer keeps every token."""
    return rank_of(plan).bytes_per_block // plan.kv_groups[0].block_size


def message_of(plan: Plan) -> str:
    """Return the error of a plan that does not start; empty where it starts."""
    return "" if plan.error is None else plan.error.message


@frozen(repr=False)
class Account(ShownAsText):
    """The lines of one GPU's memory, shown as a table."""

    lines: tuple[Line, ...]

    def __str__(self) -> str:
        return "\n".join(
            f"{line.name}: {format_gib(line.size_bytes)}, {line.basis}. {line.why}"
            for line in self.lines
        )

    def _repr_html_(self) -> str:
        caption, rows = "Each use of memory", map(_row, self.lines)
        return whole(table(caption, _COLUMNS, rows, "pl-lines pl-stacked"))


def _row(line: Line) -> Html:
    size = format_gib(line.size_bytes)
    return row(
        line.name,
        tag("td", size, class_="pl-number", data_label="Size"),
        tag(
            "td",
            line.basis,
            folded("The arithmetic", line.why),
            class_="pl-basis",
            data_label="How it is known",
        ),
    )


def lines(plan: Plan) -> Account:
    """Return the lines of a plan, one use of memory each.

    Raises:
        PlannerError: where vLLM refuses the settings, so that nothing is allocated.
    """
    return Account(lines=rank_of(plan).lines)


def says(plan: Plan) -> Shown:
    """Quote what vLLM says to a plan that does not start."""
    said = message_of(plan)
    return Shown(title="vLLM says", text="" if said else "It starts.", code=said)


def certainty(plan: Plan) -> Shown:
    """Say with what a plan was compared, and with what it was not."""
    return Shown(title="How sure is this plan", text="\n".join(sentences(plan)))


@frozen(repr=False)
class Recorded(ShownAsText):
    """A recorded start: its plan for the machine of the record, and vLLM's log."""

    what: str
    date: str
    left_out: str
    """What was removed from the log."""
    plan: Plan
    """The settings of the start, planned for the machine of the record."""
    log_text: str

    def compare(self) -> Confirmation:
        """Compare the log with the plan."""
        return confirmation_of(
            self.plan, measurement_of(self.log_text), log_text=self.log_text
        )

    def said(self, *words: str) -> Shown:
        """Return the lines of the log that contain one of `words`, unchanged."""
        lines = self.log_text.splitlines()
        found = [line for line in lines if any(word in line for word in words)]
        return Shown(title="From the log", text=self.label, code="\n".join(found))

    @property
    def label(self) -> str:
        """A sentence that this is a record, and of what."""
        return f"A recorded run of {self.date}, not one on your machine: {self.what}."

    def __str__(self) -> str:
        return f"{self.label}\n\n{self.compare()}\n\n{self.left_out}"

    def _repr_html_(self) -> str:
        return fragment(
            whole(tag("p", tag("strong", self.label))),
            wide_page(sheet(self.compare()).to_html()),
            whole(tag("p", self.left_out)),
        )


def recorded() -> Recorded:
    """Return the start that was recorded with vLLM's CPU build."""
    record: dict[str, Any] = json.loads(_read("json"))
    return Recorded(
        what=record["what"],
        date=record["date"],
        left_out=record["left_out"],
        plan=plan(gpu=_machine(record["machine"]), **record["plan"]),
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
    return (_FOLDER / f"{_RECORD}.{ending}").read_text(encoding="utf-8")


def start_here() -> Plan:
    """Return a small plan for this machine: its GPU, or else its processor.

    Where neither is known, as in a browser, it is the plan of the recorded run.
    """
    gpu = _named("attached")
    if gpu is not None:
        return plan(_MODEL, gpu=gpu, max_model_len=_LENGTH)
    return recorded().plan.changed(gpu=_named(CPU) or recorded().plan.gpu)


def _named(name: str) -> GPU | None:
    try:
        return gpu_named(name)
    except PlannerError:
        return None


@frozen(repr=False)
class Words(ShownAsText):
    """Words of the glossary with their explanations."""

    explained: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return "\n".join(f"{word}: {text}" for word, text in self.explained)

    def _repr_html_(self) -> str:
        rows = ((tag("dt", word), tag("dd", text)) for word, text in self.explained)
        return whole(tag("dl", rows, class_="pl-words"))


def words(*names: str) -> Words:
    """Explain words, such as `words("KV cache", "block")`.

    Raises:
        PlannerError: for a word that the glossary does not have.
    """
    for name in names:
        if not explained(name):
            raise PlannerError(f"The glossary has no word {name!r}.")
    return Words(explained=tuple((name, explained(name)) for name in names))
