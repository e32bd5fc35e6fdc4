"""What a text was taken for, and its explanation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planner.show.account import account_html, not_understood, summary_of
from planner.show.confirmation import bars_html, compared, meaning
from planner.show.html import Html, element, fragment, tag
from planner.show.pieces import command_line, quoted, row, table, to_open
from planner.show.sheet import Answer, Apart, Listing, Part, Sheet
from planner.show.tables import plan_answer
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.engine.gpu import GPU
    from planner.reading.logs.explaining import Explanation
    from planner.reading.logs.fixing import Fix
    from planner.reading.reading import Reading

_MISSING = "not in the text"
_SECRET = re.compile(r"(?:^|_)(?:api_key|hf_token|password)s?\Z")
"""Arguments whose values are not shown."""
_MOST_FIXES = 5
"""Changes that are shown at first."""
_LONGEST = 300
"""Characters of an error that are shown at first."""
_value_cell = element("td", class_="pl-value")


def reading_sheet(reading: Reading) -> Sheet:
    """Say what a text was taken for, what it says and what it leaves open."""
    rows = list(_rows(reading))
    width = max(len(name) for name, _ in rows)
    title = f"Read as: {reading.kind}{_shown(reading)}"
    lines = [title, *(f"  {name:<{width}}  {text}" for name, text in rows)]
    written = (row(name, _value_cell(text)) for name, text in rows)
    unread: tuple[str, ...] = ()
    if reading.log is None:
        pieces = reading.account
        unread = (
            *(f"Not understood: {one}" for one in not_understood(pieces)),
            f"The text, piece by piece: {summary_of(pieces)}",
        )
    return Sheet(
        (
            Apart("\n".join(lines), table(title, ("What", "Value"), written)),
            Listing(reading.open, "Still open"),
            Listing(reading.notes, reading.noted_as),
            Apart("\n".join(unread), account_html(reading)),
        )
    )


def _shown(reading: Reading) -> str:
    name = f" {reading.shown}" if reading.shown else ""
    more = reading.num_starts - 1
    return f"{name}{f', one of {more + 1} starts in it' if more else ''}"


def _rows(reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield what was filled in, and what was kept, by name."""
    yield "Model", reading.model or _MISSING
    yield "GPU", _gpu(reading.gpu)
    if reading.gpus is not None:
        yield "GPUs", f"{reading.gpus:,}"
    yield "vLLM", reading.vllm_version or _MISSING
    told = reading.to_dict()
    yield "Arguments", _arguments(told["inputs"]["engine_args"]) or "none"
    if reading.env:
        yield "Variables", " ".join(f"{n}={value}" for n, value in reading.env.items())
    if told["kept"]:
        yield "Kept, no effect on memory", _arguments(told["kept"])
    if reading.unknown:
        yield "Not known to vLLM", ", ".join(reading.unknown)
    yield from _outcome(reading)


def _outcome(reading: Reading) -> Iterator[tuple[str, str]]:
    log = reading.log
    if log is None:
        return
    words = {True: "started", False: "did not start", None: "not in the text"}
    yield "Outcome", words[log.started]
    error = log.later_error if log.started else log.error
    if error:
        yield "Error", error if len(error) <= _LONGEST else f"{error[:_LONGEST]} ..."


def _gpu(gpu: str | GPU | None) -> str:
    if gpu is None or isinstance(gpu, str):
        return gpu or _MISSING
    free = gpu.free_memory_bytes
    left = "" if free is None else f", {format_gib(free)} free"
    return f"{gpu.name} ({format_gib(gpu.total_memory_bytes)}{left})"


def _arguments(values: Mapping[str, Any]) -> str:
    return " ".join(
        f"{name}={'***' if _SECRET.search(name) else _value(value)}"
        for name, value in values.items()
    )


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def explanation_sheet(explanation: Explanation, fixes: Html | None = None) -> Sheet:
    """Say what happened and why, what helps, what vLLM said, and what was measured.

    What helps stands right after why it failed, before what was measured. With `fixes`,
    that is shown for them, and the plan is left to the page around it.
    """
    failure, plan = explanation.failure, explanation.plan
    is_alone = fixes is None
    return Sheet(
        (
            Listing(explanation.first, look="pl-notes pl-first"),
            Apart(explanation.headline, _answer(explanation).to_html()),
            Listing(explanation.answer),
            Apart(failure.sentence) if failure else None,
            Listing(failure.arithmetic, "Its arithmetic") if failure else None,
            _fixes(explanation) if is_alone else Apart(html=fixes),
            *_said(explanation),
            _plan(explanation) if is_alone or plan is None else None,
            Listing(explanation.findings, "What it means"),
            *_measured(explanation),
        )
    )


def _answer(explanation: Explanation) -> Answer:
    failure = explanation.failure
    return Answer(
        tone="short" if failure else "fits",
        symbol="✘" if failure else "i",
        headline=explanation.headline,
        subject=f"Read as: {explanation.reading.kind}",
        sentence=failure.sentence if failure else "",
        is_verdict=True,
    )


def _said(explanation: Explanation) -> tuple[Part, ...]:
    """Quote vLLM, with what else was on the GPU, and what to do beside its flags."""
    failure, log = explanation.failure, explanation.reading.log
    if failure is None:
        return ()
    error = None if log is None else (log.later_error if log.started else log.error)
    return (
        Apart(html=quoted("vLLM said", error)) if error else None,
        Listing(failure.others, "What else was on the GPU"),
        Listing(failure.hints, "What to do beside vLLM's flags"),
    )


def _plan(explanation: Explanation) -> Part:
    if explanation.plan is not None:
        return plan_answer(explanation.plan)
    told = f"Not planned: {explanation.not_planned}"
    is_said = bool(explanation.reading.intent)  # the answer says what is open
    return Apart("" if is_said else told, tag("p", told))


def _measured(explanation: Explanation) -> tuple[Part, ...]:
    """Compare what was measured with the plan; empty where no size was measured."""
    found = explanation.confirmation
    rows = tuple(row for row in found.rows if row.measured is not None) if found else ()
    if found is None or not any(row.unit == "bytes" for row in rows):
        return ()
    told = replace(found, rows=rows)
    return (Apart(html=bars_html(told)), compared(told), meaning(told))


def _fixes(explanation: Explanation) -> Apart | None:
    """Say what would help, the cheapest first: on a page the first are open."""
    if not explanation.fixes:
        return None
    title = "What would help, the cheapest first"
    lines = [f"{title}:"]
    for number, fix in enumerate(explanation.fixes, start=1):
        lines += ["", *_fix_lines(number, fix)]
    written = list(map(_fix_html, explanation.fixes))
    first, more = written[:_MOST_FIXES], written[_MOST_FIXES:]
    others = to_open(f"The other {len(more)}", more, "pl-rank")
    return Apart("\n".join(lines), fragment(tag("h3", title), first, others))


def _fix_lines(number: int, fix: Fix) -> list[str]:
    return [
        f"{number}. {fix.title}",
        f"   {fix.result}",
        f"   Cost: {fix.cost}",
        *([f"   {fix.by_hand}"] if fix.by_hand else []),
        *(f"   | {line}" for line in fix.text.splitlines()),
    ]


def _fix_html(fix: Fix) -> Html:
    typed = command_line(fix.text, fix.title)
    return tag(
        "div",
        tag("p", tag("b", fix.title)),
        tag("p", fix.result),
        tag("p", f"Cost: {fix.cost}", class_="pl-subject"),
        tag("p", fix.by_hand) if fix.by_hand else None,
        to_open(fix.heading, typed) if fix.text else None,
        class_="pl-fix",
    )
