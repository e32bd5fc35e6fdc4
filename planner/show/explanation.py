"""What a text was taken for, and its explanation: as text and as HTML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planner.show.account import account_html, not_understood, summary_of
from planner.show.confirmation import bars_html, comparison_html, meaning_html
from planner.show.confirmation_text import comparison_lines
from planner.show.html import Html, element, fragment, tag
from planner.show.page import whole
from planner.show.pieces import (
    NOTHING,
    command_line,
    listed,
    quoted,
    row,
    sentence,
    table,
    to_open,
    verdict_box,
)
from planner.show.tables import verdict_html
from planner.show.terminal import legible
from planner.show.verdict import subject, verdict_text
from planner.units import format_gib
from planner.views import bundle

if TYPE_CHECKING:
    from planner.confirming.confirmation import Confirmation
    from planner.engine.gpu import GPU
    from planner.reading.logs.checks import Failure
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


@legible
def reading_text(reading: Reading) -> str:
    """Write what a text was taken for, what it says and what it leaves open."""
    rows = list(_rows(reading))
    width = max(len(name) for name, _ in rows)
    lines = [f"Read as: {reading.kind}{_shown(reading)}"]
    lines += [f"  {name:<{width}}  {text}" for name, text in rows]
    lines += [f"Open: {one}" for one in reading.open]
    lines += [f"Note: {one}" for one in reading.notes]
    if reading.log is None:
        lines += [f"Not understood: {one}" for one in not_understood(reading.account)]
        lines.append(f"The text, piece by piece: {summary_of(reading.account)}")
    return "\n".join(lines)


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


def reading_mimebundle(reading: Reading) -> dict[str, str]:
    """Return a reading as text and as HTML."""
    return bundle(reading_text(reading), whole(reading_html(reading)))


def reading_html(reading: Reading) -> Html:
    """Show what a text was taken for, without the style sheet."""
    written = (row(name, _value_cell(text)) for name, text in _rows(reading))
    return fragment(
        table(f"Read as: {reading.kind}{_shown(reading)}", ("What", "Value"), written),
        _titled("Still open", reading.open),
        _titled(reading.noted_as, reading.notes),
        account_html(reading),
    )


def _titled(title: str, sentences: tuple[str, ...]) -> Html:
    if not sentences:
        return NOTHING
    return fragment(tag("h3", title), listed(sentences))


@legible
def explanation_text(explanation: Explanation) -> str:
    """Write an explanation for a terminal."""
    parts = [*explanation.first, explanation.headline, *explanation.answer]
    if explanation.failure is not None:
        parts += _failure_lines(explanation.failure)
    parts += _plan_lines(explanation)
    parts += explanation.findings
    parts += _measured_lines(explanation)
    for number, fix in enumerate(explanation.fixes, start=1):
        parts += ["", *_fix_lines(number, fix)]
    return "\n".join(parts).rstrip()


def _failure_lines(failure: Failure) -> list[str]:
    return [
        failure.sentence,
        *(f"  {line}" for line in failure.arithmetic),
        *(f"On the GPU: {line}" for line in failure.others),
        *(f"Hint: {line}" for line in failure.hints),
    ]


def _plan_lines(explanation: Explanation) -> list[str]:
    plan = explanation.plan
    if plan is None:
        is_said = bool(explanation.reading.intent)  # the answer says what is open
        return [] if is_said else [f"Not planned: {explanation.not_planned}"]
    return ["", f"{subject(plan)}, vLLM {plan.vllm_version}", verdict_text(plan)]


def _measured_lines(explanation: Explanation) -> list[str]:
    confirmation = _measured(explanation)
    if confirmation is None:
        return []
    return ["", "Planned and measured:", *comparison_lines(confirmation)]


def _measured(explanation: Explanation) -> Confirmation | None:
    """Return the comparison of what was measured; None where no size was."""
    confirmation = explanation.confirmation
    if confirmation is None:
        return None
    rows = tuple(row for row in confirmation.rows if row.measured is not None)
    has_size = any(row.unit == "bytes" for row in rows)
    return replace(confirmation, rows=rows) if has_size else None


def _fix_lines(number: int, fix: Fix) -> list[str]:
    return [
        f"{number}. {fix.title}",
        f"   {fix.result}",
        f"   Cost: {fix.cost}",
        *([f"   {fix.by_hand}"] if fix.by_hand else []),
        *(f"   | {line}" for line in fix.text.splitlines()),
    ]


def explanation_mimebundle(explanation: Explanation) -> dict[str, str]:
    """Return an explanation as text and as HTML."""
    return bundle(explanation_text(explanation), whole(explanation_html(explanation)))


def explanation_html(explanation: Explanation, fixes: Html | None = None) -> Html:
    """Show an explanation, without the style sheet; needs no script.

    What helps stands right after why it failed, before what was measured. With `fixes`,
    that is shown for them, and the plan is left to the page around it.
    """
    is_alone = fixes is None
    failure = explanation.failure
    return fragment(
        _headline_html(explanation),
        _titled("Its arithmetic", failure.arithmetic) if failure else None,
        _fixes_html(explanation) if is_alone else fixes,
        _said_html(explanation),
        _plan_html(explanation) if is_alone or explanation.plan is None else None,
        _titled("What it means", explanation.findings),
        _measured_html(explanation),
    )


def _headline_html(explanation: Explanation) -> Html:
    is_bad = explanation.failure is not None
    said = explanation.failure.sentence if explanation.failure else ""
    return fragment(
        listed(explanation.first, "pl-notes pl-first"),
        verdict_box(
            "short" if is_bad else "fits",
            sentence(said) if said else None,
            subject=f"Read as: {explanation.reading.kind}",
            symbol="✘" if is_bad else "i",
            headline=explanation.headline,
        ),
        listed(explanation.answer, "pl-notes"),
    )


def _said_html(explanation: Explanation) -> Html:
    """Quote vLLM, with what else was on the GPU, and what to do beside its flags."""
    failure, log = explanation.failure, explanation.reading.log
    if failure is None:
        return NOTHING
    error = None if log is None else (log.later_error if log.started else log.error)
    return fragment(
        quoted("vLLM said", error) if error else None,
        _titled("What else was on the GPU", failure.others),
        _titled("What to do beside vLLM's flags", failure.hints),
    )


def _plan_html(explanation: Explanation) -> Html:
    if explanation.plan is None:
        return tag("p", "Not planned: ", explanation.not_planned)
    return verdict_html(explanation.plan)


def _measured_html(explanation: Explanation) -> Html:
    confirmation = _measured(explanation)
    if confirmation is None:
        return NOTHING
    return fragment(
        bars_html(confirmation),
        comparison_html(confirmation),
        meaning_html(confirmation),
    )


def _fixes_html(explanation: Explanation) -> Html:
    if not explanation.fixes:
        return NOTHING
    written = [
        tag(
            "div",
            tag("p", tag("b", fix.title)),
            tag("p", fix.result),
            tag("p", f"Cost: {fix.cost}", class_="pl-subject"),
            tag("p", fix.by_hand) if fix.by_hand else None,
            to_open(fix.heading, command_line(fix.text, fix.title))
            if fix.text
            else None,
            class_="pl-fix",
        )
        for fix in explanation.fixes
    ]
    first, more = written[:_MOST_FIXES], written[_MOST_FIXES:]
    return fragment(
        tag("h3", "What would help, the cheapest first"),
        first,
        to_open(f"The other {len(more)}", more, "pl-rank") if more else None,
    )
