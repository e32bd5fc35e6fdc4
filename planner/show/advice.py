"""Advice: the verdict, the changes by what they cost, and notes; also as values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from planner.planning.words import load_text
from planner.show.frames import frame_of
from planner.show.html import Html, fragment, tag
from planner.show.pieces import NOTHING, row, table, to_open
from planner.show.sheet import Apart, Listing, Sheet
from planner.show.speed import rate_text
from planner.show.tables import plan_answer
from planner.show.verdict import noted
from planner.units import GIB, counted, format_gib

if TYPE_CHECKING:
    import pandas as pd

    from planner.solve.advice.result import Advice, AdviceItem

COLUMNS = (
    "kind",
    "title",
    "class",
    "flags",
    "starts",
    "serves",
    "gain_requests",
    "gain_gib",
    "gain_bytes",
    "gain_tokens",
    "gain_tokens_all_engines",
    "cost",
)
FOLDED_FROM = 5
"""Changes that a page shows at once; the others are folded."""
_HEADS = ("Change", "Result", "Price")
_INDENT = "      "


def advice_dict(advice: Advice) -> dict[str, Any]:
    """Return advice for JSON: the request, every change, notes and warnings."""
    load = advice.load
    return {
        "command": advice.plan.command(),
        "fits": advice.plan.fits,
        "is_served": advice.is_served,
        "request_tokens": advice.request_tokens,
        "requests": advice.requests,
        "load": None if load is None else load.to_dict(),
        "best": None if advice.best is None else advice.best.title,
        "items": [_item_dict(advice, item) for item in advice.items],
        "combinations": [_item_dict(advice, item) for item in advice.combinations],
        "pair": None if advice.pair is None else _item_dict(advice, advice.pair),
        "groups": [
            {
                "class": str(group.cost_class),
                "rule": group.cost_class.rule,
                "suffices": group.suffices,
                "titles": [item.title for item in group.items],
            }
            for group in advice.groups
        ],
        "notes": list(advice.plan.notes),
        "warnings": list(advice.warnings),
    }


def _item_dict(advice: Advice, item: AdviceItem) -> dict[str, Any]:
    forecast = advice.forecast(item)
    total = None if forecast is None else forecast.total_tokens_per_second
    return {
        "kind": item.kind,
        "title": item.title,
        "class": str(item.cost_class),
        "changes": dict(item.changes),
        "flags": item.flags,
        "removed_flags": item.removed_flags,
        "command": item.plan.command(),
        "cost": item.cost,
        "burden": item.burden.name.lower(),
        "is_estimated": item.is_estimated,
        "starts": item.starts,
        "serves": item.serves,
        "gain_bytes": item.gain_bytes,
        "gain_tokens": item.gain_tokens,
        "gain_tokens_all_engines": item.gain_tokens_all_engines,
        "gain_requests": item.gain_requests,
        "tokens_per_second": None if total is None else total.to_dict(),
    }


def advice_frame(advice: Advice) -> pd.DataFrame:
    """Return one row per change, combinations last."""
    items = (*advice.items, *advice.combinations)
    rows = [
        _item_dict(advice, item) | {"gain_gib": item.gain_bytes / GIB} for item in items
    ]
    return frame_of(rows, COLUMNS)


def sheet(advice: Advice) -> Sheet:
    """Say the verdict, the changes by what they cost, notes and warnings."""
    changes = Apart("\n\n".join(_texts(advice)), changes_html(advice))
    return Sheet(
        (
            plan_answer(advice.plan),
            before_any_change(advice),
            changes,
            Listing(noted(advice.plan), sign="Note: "),
            Listing(advice.warnings, sign="Warning: "),
        )
    )


def _texts(advice: Advice) -> Iterator[str]:
    """Yield the changes under each heading, numbered."""
    numbers = {id(item): n for n, item in enumerate(advice.offered, start=1)}
    for title, items in _sections(advice, advice.offered):
        lines = [f"{title}:"]
        for item in items:
            lines += _item_lines(advice, item, f"{numbers[id(item)]:>3}.")
        yield "\n".join(lines)


def before_any_change(advice: Advice) -> str:
    """State which requests are counted, and how many fit before any change."""
    load, engines = advice.load, advice.plan.engines
    on_all = f", on all {engines} engines together" if engines > 1 else ""
    found = "" if advice.offered else " No single change helps."
    length = counted(advice.request_tokens, "tokens")
    if load is None:
        return (
            f"Counted in requests of {length} at once{on_all}: "
            f"{advice.requests:,} before any change.{found}"
        )
    return (
        f"Serves {min(advice.requests, load.requests):,} of {load_text(load)} at once "
        f"before any change{on_all}.{found}"
    )


def heading(advice: Advice, item: AdviceItem) -> str:
    """Return the heading under which a change is shown: the class of its cost."""
    name = str(item.cost_class)
    if item is advice.best:
        return f"Best answer: {name}"
    if item.serves:
        return f"{name[0].upper()}{name[1:]}"
    return f"Not enough alone: {name}"


def _sections(
    advice: Advice, items: Iterable[AdviceItem]
) -> Iterator[tuple[str, list[AdviceItem]]]:
    """Yield headings with the changes under them, in order."""
    for title, under in groupby(items, key=lambda item: heading(advice, item)):
        yield title, list(under)


def _item_lines(advice: Advice, item: AdviceItem, number: str) -> list[str]:
    lines = [f"{number} {item.title}", f"{_INDENT}{result(advice, item)}"]
    if item.flags:
        lines.append(f"{_INDENT}{item.flags}")
    if item.removed_flags:
        lines.append(f"{_INDENT}without {item.removed_flags}")
    speed = speed_words(advice, item)
    lines += [f"{_INDENT}Speed: {speed}"] if speed else []
    return [*lines, f"{_INDENT}Cost: {item.cost}"]


def speed_words(advice: Advice, item: AdviceItem) -> str:
    """Write the forecast of a change, and of the plan as it is; empty: not known."""
    after, before = advice.forecast(item), advice.forecast()
    if after is None:
        return ""
    names = ("total_tokens_per_second", "per_request_tokens_per_second")
    whole, each = (
        rate_text(getattr(after, name).value)
        + (f" ({rate_text(getattr(before, name).value)} before)" if before else "")
        for name in names
    )
    return f"about {whole} tokens per second, {each} for each request"


def result(advice: Advice, item: AdviceItem) -> str:
    """Describe the effect of a change: the verdict, and every gain that is not zero."""
    return f"{symbol(item)} {'; '.join([state(advice, item), *gains(item)])}"


def symbol(item: AdviceItem) -> str:
    """Return a sign for whether the plan starts, and serves the load."""
    if not item.starts:
        return "✘"
    return "✔" if item.serves else "!"


def state(advice: Advice, item: AdviceItem) -> str:
    """State whether the plan starts, and how many of the load it serves."""
    if not item.starts:
        return "does not start yet"
    load = advice.load
    if load is None:
        return "starts"
    served = min(advice.requests + item.gain_requests, load.requests)
    return f"serves {served:,} of {load.requests:,} at once"


def gains(item: AdviceItem) -> list[str]:
    """Write the gains in requests, memory and tokens; those of all engines first."""
    words = []
    if item.gain_requests:
        unit = "request" if item.gain_requests == 1 else "requests"
        words.append(f"{item.gain_requests:+,} {unit} at once")
    if format_gib(abs(item.gain_bytes)) != format_gib(0):
        size = format_gib(item.gain_bytes, signed=True)
        words.append(f"{size} of KV cache per {item.plan.gpu.kind}")
    engines = item.plan.engines
    if item.gain_tokens_all_engines and engines > 1:
        words.append(
            f"{item.gain_tokens_all_engines:+,} tokens on {engines} engines together "
            f"({item.gain_tokens:+,} on each)"
        )
    elif item.gain_tokens_all_engines:
        words.append(f"{item.gain_tokens_all_engines:+,} tokens")
    return words


def changes_html(advice: Advice) -> Html:
    """Show the first changes as a table, and fold the others."""
    items = advice.offered
    first, others = items[:FOLDED_FROM], items[FOLDED_FROM:]
    every = "change" if len(items) == 1 else "changes"
    caption = f"{len(first)} of {len(items)} {every} that help"
    more = _changes_table(advice, others, f"The other {len(others)}")
    return fragment(
        _changes_table(advice, first, caption),
        to_open(_folded(others), more, "pl-more"),
    )


def _folded(items: Iterable[AdviceItem]) -> str:
    """Say how many changes of each class are folded."""
    classes = sorted((item.cost_class for item in items), key=lambda one: one.place)
    counts = [(name, len(list(under))) for name, under in groupby(classes)]
    total = sum(count for _, count in counts)
    words = ", ".join(f"{count} {name}" for name, count in counts)
    return f"{total} more: {words}"


def _changes_table(advice: Advice, items: Iterable[AdviceItem], caption: str) -> Html:
    rows: list[Html] = []
    for title, under in _sections(advice, items):
        rule = under[0].cost_class.rule
        words = (tag("b", title), " ", tag("span", rule))
        named = tag("th", words, colspan=str(len(_HEADS)), scope="rowgroup")
        rows += [
            tag("tr", named, class_="pl-group"),
            *(_table_row(advice, item) for item in under),
        ]
    look = "pl-lines pl-changes pl-stacked"
    return table(caption, _HEADS, rows, look) if rows else NOTHING


def _table_row(advice: Advice, item: AdviceItem) -> Html:
    said = (tag("span", symbol(item), aria_hidden="true"), f" {state(advice, item)}")
    return row(
        (item.title, _flags(item)),
        tag(
            "td",
            tag("b", said),
            (tag("span", gain) for gain in gains(item)),
            class_="pl-result",
        ),
        tag("td", item.cost, class_="pl-why"),
    )


def _flags(item: AdviceItem) -> Html:
    removed = item.removed_flags
    return fragment(
        tag("code", item.flags) if item.flags else None,
        tag("code", f"without {removed}") if removed else None,
    )
