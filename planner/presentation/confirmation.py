"""A confirmation as HTML: verdict, comparison, what it proves, what was run."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from planner.presentation.confirmation_bars import bars_html
from planner.presentation.confirmation_text import (
    cells,
    confirmation_text,
    facts,
    given_text,
    load_text,
    said,
    served_text,
    title,
)
from planner.presentation.page import style

if TYPE_CHECKING:
    from planner.confirming.confirmation import ComparisonRow, Confirmation

_HEAD = (
    ("Figure", ""),
    ("Estimated", "pl-number"),
    ("Range", "pl-number pl-range"),
    ("Measured", "pl-number"),
    ("Difference", "pl-number"),
    ("Inside?", "pl-inside"),
    ("Basis", "pl-basis"),
)


def mimebundle(confirmation: Confirmation) -> dict[str, str]:
    """Return the confirmation as text and as HTML."""
    return {
        "text/plain": confirmation_text(confirmation),
        "text/html": confirmation_html(confirmation),
    }


def confirmation_html(confirmation: Confirmation) -> str:
    """Show everything in one self-contained piece; needs no script."""
    return (
        f"<style>{style()}</style><div class='pl-plan pl-whole'>"
        f"{verdict_html(confirmation)}{bars_html(confirmation)}"
        f"{comparison_html(confirmation)}{meaning_html(confirmation)}</div>"
    )


def verdict_html(confirmation: Confirmation) -> str:
    """Show the outcome: symbol, words, and vLLM's error where there was one."""
    words = said(confirmation)
    error = confirmation.measurement.error
    quoted = (
        f"<blockquote class='pl-error'><span class='pl-says'>vLLM said</span>"
        f"{escape(error)}</blockquote>"
        if error
        else ""
    )
    return (
        f"<div class='pl-verdict pl-{words.tone}'>"
        f"<p class='pl-subject'>{escape(title(confirmation))}</p>"
        f"<p class='pl-headline'><span class='pl-symbol' aria-hidden='true'>"
        f"{words.symbol}</span> {escape(words.headline)}</p>"
        f"<p class='pl-sentence'>{escape(words.sentence)}</p></div>{quoted}"
    )


def comparison_html(confirmation: Confirmation) -> str:
    """Show estimate and measurement line by line: the twin of the chart."""
    if not confirmation.rows:
        return "<p>Nothing was measured that could be compared.</p>"
    head = "".join(
        f"<th scope='col' class='{kind}'>{name}</th>" for name, kind in _HEAD
    )
    rows = "".join(_row(row) for row in confirmation.rows)
    return (
        "<table class='pl-lines pl-compared pl-stacked'><caption>Estimate and "
        f"measurement, line by line</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _row(row: ComparisonRow) -> str:
    name, *texts = cells(row)
    state = {True: "", False: " class='pl-off'", None: ""}[row.is_inside]
    figures = "".join(
        f"<td class='{kind}' data-label='{heading}'>{escape(text)}</td>"
        for text, (heading, kind) in zip(texts, _HEAD[1:], strict=True)
    )
    return f"<tr{state}><th scope='row'>{escape(name)}</th>{figures}</tr>"


def meaning_html(confirmation: Confirmation) -> str:
    """Say what the figures mean, what was served, and what was run."""
    parts = [
        _paragraph(given_text(confirmation.given, confirmation), "pl-given")
        if confirmation.given is not None
        else "",
        _list("Why they may differ", confirmation.reasons, "pl-reasons"),
        _served_html(confirmation),
        _load_html(confirmation),
        _list("", confirmation.notes, "pl-notes"),
        _facts_html(confirmation),
    ]
    return f"<div class='pl-meaning'>{''.join(parts)}</div>"


def _paragraph(text: str, kind: str) -> str:
    return f"<p class='{kind}'>{escape(text)}</p>" if text else ""


def _list(heading: str, items: tuple[str, ...], kind: str) -> str:
    if not items:
        return ""
    entries = "".join(f"<li>{escape(item)}</li>" for item in items)
    named = f"<h3>{heading}</h3>" if heading else ""
    return f"{named}<ul class='{kind}'>{entries}</ul>"


def _served_html(confirmation: Confirmation) -> str:
    text = confirmation.measurement.generated_text
    answer = (
        f"<blockquote class='pl-answer'>{escape(text)}</blockquote>" if text else ""
    )
    return _paragraph(served_text(confirmation), "pl-served") + answer


def _load_html(confirmation: Confirmation) -> str:
    load = confirmation.measurement.load
    if load is None:
        return ""
    return _paragraph(load_text(load, confirmation.plan.max_concurrency), "pl-load")


def _facts_html(confirmation: Confirmation) -> str:
    items = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>"
        for name, text in facts(confirmation)
    )
    return f"<dl class='pl-facts'>{items}</dl>"
