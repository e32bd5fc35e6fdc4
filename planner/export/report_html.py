"""A plan as one HTML file: opens anywhere, asks nobody, runs no script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from planner.export.report_parts import (
    GROUPS,
    Way,
    blocks_sentence,
    given,
    groups,
    link_or_reason,
    ways,
)
from planner.presentation.certainty import certainty_html
from planner.presentation.host import host_html
from planner.presentation.page import bars_html, style
from planner.presentation.tables import (
    error_html,
    figures_html,
    notes_html,
    outside_html,
    tables_html,
    verdict_html,
)
from planner.presentation.text import subject

if TYPE_CHECKING:
    from planner.result import Plan

_NOTHING_FROM_OUTSIDE = "default-src 'none'; style-src 'unsafe-inline'"


def html(plan: Plan, *, base: str = "", date: str = "") -> str:
    """Return a report as a page of its own, without scripts or requests.

    The same plan gives the same text; light and dark follow the reader's system.

    Args:
        plan: what to report.
        base: address of the page that the link opens.
        date: written under the title; none unless given.
    """
    title = f"{subject(plan)}, vLLM {plan.vllm_version}"
    body = "".join(
        (
            _head(plan, date),
            _section("memory", "Memory", _memory(plan)),
            _section("cache", "KV cache", _cache(plan)),
            _section("notes", "Notes", notes_html(plan)),
            _section("certainty", "Certainty", certainty_html(plan)),
            _section("start", "Start it", "".join(map(_way, ways(plan)))),
            _section("given", "Given", _table(("Name", "Value"), given(plan).items())),
            _section("again", "The same plan", _link(plan, base)),
        )
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_NOTHING_FROM_OUTSIDE}">'
        '\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style()}\n{_own_style()}</style>\n"
        f'</head>\n<body>\n<main class="pl-plan pl-report">{body}</main>\n</body>\n'
        "</html>\n"
    )


@cache
def _own_style() -> str:
    return (Path(__file__).parent / "report.css").read_text(encoding="utf-8")


def _head(plan: Plan, date: str) -> str:
    dated = f"<p class='pl-date'>{escape(date)}</p>" if date else ""
    return (
        f"<header><h1>{escape(subject(plan))}</h1>{dated}{verdict_html(plan)}"
        f"{error_html(plan)}{figures_html(plan)}</header>"
    )


def _section(name: str, title: str, content: str) -> str:
    if not content:
        return ""
    return (
        f"<section aria-labelledby='{name}'><h2 id='{name}'>{escape(title)}</h2>"
        f"{content}</section>"
    )


def _memory(plan: Plan) -> str:
    if not plan.ranks:
        return ""
    lines = tables_html(plan) + outside_html(plan) + host_html(plan)
    return bars_html(plan) + _scrolling("Memory lines", lines)


def _cache(plan: Plan) -> str:
    if not plan.kv_groups:
        return ""
    rows = _table(GROUPS, groups(plan))
    return f"{rows}<p>{escape(blocks_sentence(plan))}</p>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = "".join(f"<th scope='col'>{escape(name)}</th>" for name in head)
    body = "".join(_row(*row) for row in rows)
    return _scrolling(
        "Table",
        f"<table class='pl-table'><thead><tr>{cells}</tr></thead><tbody>{body}</tbody>"
        "</table>",
    )


def _row(first: str, *others: str) -> str:
    cells = "".join(f"<td>{escape(text)}</td>" for text in others)
    return f"<tr><th scope='row'>{escape(first)}</th>{cells}</tr>"


def _scrolling(label: str, content: str) -> str:
    """Let what is too wide move by itself, with the keyboard as well."""
    return (
        f"<div class='pl-scroll' role='group' aria-label='{label}' tabindex='0'>"
        f"{content}</div>"
    )


def _way(way: Way) -> str:
    title = f"<h3>{escape(way.title)}</h3>"
    if not way.text:
        return f"{title}<p>{escape(way.reason)}</p>"
    return (
        f"{title}<pre class='pl-plain-command' tabindex='0'><code>{escape(way.text)}"
        "</code></pre>"
    )


def _link(plan: Plan, base: str) -> str:
    found, reason = link_or_reason(plan, base)
    if not found:
        return f"<p>{escape(reason)}</p>"
    if base.startswith(("http://", "https://")):
        return f"<p><a href='{escape(found)}'>{escape(found)}</a></p>"
    return (
        f"<pre class='pl-plain-command' tabindex='0'><code>{escape(found)}</code></pre>"
    )
