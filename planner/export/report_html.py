"""A plan as one HTML file, without scripts or requests to any server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from planner.engine.releases import NEWEST
from planner.export.report_parts import (
    GROUPS,
    StartText,
    blocks_sentence,
    given,
    groups,
    link_or_reason,
    to_newest,
    ways,
)
from planner.given import named_in_errors
from planner.show.certainty import certainty_html
from planner.show.document import style
from planner.show.host import host_html
from planner.show.html import Content, Html, fragment, tag
from planner.show.page import bars_html
from planner.show.pieces import NOTHING, command_line, head, row
from planner.show.speed_forecast import TITLES, rows
from planner.show.tables import (
    error_html,
    figures_html,
    notes_html,
    outside_html,
    tables_html,
    verdict_html,
)
from planner.show.upgrade import sheet
from planner.show.verdict import subject
from planner.solve.speed.forecast import FORECAST_CAUTION, known_forecast

if TYPE_CHECKING:
    from planner.planning.result import Plan

_NOTHING_FROM_OUTSIDE = "default-src 'none'; style-src 'unsafe-inline'"


@named_in_errors
def html(plan: Plan, *, base: str = "", date: str = "") -> str:
    """Return a report as a page of its own, without scripts or requests.

    The same plan gives the same text. Light or dark follows the reader's system.

    Args:
        plan: what to report.
        base: address of the page that the link opens.
        date: written under the title; none unless given.
    """
    title = f"{subject(plan)}, vLLM {plan.vllm_version}"
    return Html(f"<!doctype html>\n{_page(title, _body(plan, base, date))}\n")


def _page(title: str, body: Content) -> Html:
    lines: list[Content] = [
        tag("meta", charset="utf-8"),
        tag(
            "meta",
            http_equiv="Content-Security-Policy",
            content=_NOTHING_FROM_OUTSIDE,
        ),
        tag(
            "meta",
            name="viewport",
            content="width=device-width, initial-scale=1",
        ),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", "\n", style(), "\n", _own_style()),
    ]
    return tag(
        "html",
        "\n",
        tag("head", "\n", ((line, "\n") for line in lines)),
        "\n",
        tag("body", "\n", tag("main", body, class_="pl-plan pl-report"), "\n"),
        "\n",
        lang="en",
    )


@cache
def _own_style() -> Html:
    sheet = Path(__file__).parent / "report.css"
    return Html(sheet.read_text(encoding="utf-8"))


def _body(plan: Plan, base: str, date: str) -> Iterator[Html]:
    yield _head(plan, date)
    yield _section("memory", "Memory", _memory(plan))
    yield _section("cache", "KV cache", _cache(plan))
    yield _section("speed", "Speed", _speed(plan))
    yield _section("notes", "Notes", notes_html(plan))
    yield _section("certainty", "Certainty", certainty_html(plan))
    yield _section("upgrade", f"Upgrade to vLLM {NEWEST}", _upgrade(plan))
    yield _section("start", "Start it", fragment(map(_way, ways(plan))))
    yield _section("given", "Given", _table(("Name", "Value"), given(plan).items()))
    yield _section("again", "The same plan", _link(plan, base))


def _upgrade(plan: Plan) -> Html:
    found = to_newest(plan)
    return NOTHING if found is None else _scrolling("Upgrade", sheet(found).to_html())


def _head(plan: Plan, date: str) -> Html:
    return tag(
        "header",
        tag("h1", subject(plan)),
        tag("p", date, class_="pl-date") if date else None,
        verdict_html(plan),
        error_html(plan),
        figures_html(plan),
    )


def _section(name: str, title: str, content: Html) -> Html:
    if not content:
        return NOTHING
    return tag("section", tag("h2", title, id=name), content, aria_labelledby=name)


def _memory(plan: Plan) -> Html:
    if not plan.ranks:
        return NOTHING
    lines = (tables_html(plan), outside_html(plan), host_html(plan))
    return fragment(bars_html(plan), _scrolling("Memory lines", *lines))


def _cache(plan: Plan) -> Html:
    if not plan.kv_groups:
        return NOTHING
    rows = _table(GROUPS, groups(plan))
    return fragment(rows, tag("p", blocks_sentence(plan)))


def _speed(plan: Plan) -> Html:
    found = known_forecast(plan, plan.load)
    if found is None:
        return NOTHING
    told = tag("p", f"{FORECAST_CAUTION} {found.near.words}")
    return fragment(_table(TITLES, rows(found)), told)


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Html:
    lines = (row(first, *(tag("td", text) for text in rest)) for first, *rest in rows)
    return _scrolling(
        "Table",
        tag("table", head(tuple(names)), tag("tbody", lines), class_="pl-table"),
    )


def _scrolling(label: str, *content: Html) -> Html:
    """Make content that is too wide scroll by itself, also with the keyboard."""
    return tag(
        "div",
        content,
        class_="pl-scroll",
        role="group",
        aria_label=label,
        tabindex="0",
    )


def _way(way: StartText) -> Html:
    shown = (
        command_line(way.text, is_reached=True) if way.text else tag("p", way.reason)
    )
    return fragment(tag("h3", way.title), shown)


def _link(plan: Plan, base: str) -> Html:
    found, reason = link_or_reason(plan, base)
    if not found:
        return tag("p", reason)
    if base.startswith(("http://", "https://")):
        return tag("p", tag("a", found, href=found))
    return command_line(found, is_reached=True)
