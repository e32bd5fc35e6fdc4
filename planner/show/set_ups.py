"""Set-ups that serve a load: as text, a pandas frame and HTML; deciding columns first.

The texts of single cells are here too, which the page's section shares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.planning.words import load_text
from planner.show.compared_gpus import price_text
from planner.show.frames import columns, make_frame
from planner.show.html import Html, tag
from planner.show.page import wide_page
from planner.show.pieces import (
    NOTHING,
    command_line,
    listed,
    sentence,
    table_html,
    to_open,
    verdict_box,
)
from planner.show.speed import rate_text, seconds_text
from planner.show.verdict import verdict
from planner.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from planner.planning.result import Plan
    from planner.solve.layouts import Layout
    from planner.solve.set_ups import Miss, SetUp, SetUps

FIRST_SHOWN = 5
"""Rows and misses that are shown at once; the others are folded."""
_LETTERS = {
    "TP": "tensor_parallel_size",
    "PP": "pipeline_parallel_size",
    "DP": "data_parallel_size",
}
LETTERS = "TP tensor, PP pipeline, DP data, EP expert parallel."
SPEED = (
    "Speed is a bound: no start is faster, most are slower. It ignores communication "
    "between GPUs, which costs tensor parallel most where they have no NVLink."
)
BETWEEN = (
    "Of each kind, every number was tried with every layout, up to the first that "
    "serves."
)
_CAPTIONS = {"fewest": "Fewest GPUs first", "cheapest": "Cheapest first"}
NO_PRICES = "No price is known: give prices={'H100': 2.5}, or save your own."


def gpus_text(set_up: SetUp) -> str:
    """Write the number and kind of GPUs."""
    return f"{set_up.gpus_total} x {set_up.gpu.name}"


def layout_words(layout: Layout) -> str:
    """Write a layout in few letters; empty for one GPU.

    >>> from planner.solve.layouts import Layout
    >>> layout_words(Layout(data_parallel_size=8, enable_expert_parallel=True))
    'DP 8, EP'
    """
    sizes = {letters: getattr(layout, name) for letters, name in _LETTERS.items()}
    words = [f"{letters} {size}" for letters, size in sizes.items() if size > 1]
    return ", ".join([*words, *(["EP"] if layout.enable_expert_parallel else [])])


def held_text(set_up: SetUp) -> str:
    """Write how many requests of the load's length the KV caches hold."""
    held = set_up.requests_held
    return "no limit" if held is None else f"{held:,}"


def speed_text(per_second: float | None) -> str:
    """Write a bound on tokens per second; empty where there is none."""
    return "" if per_second is None else rate_text(per_second)


def first_token_text(set_up: SetUp) -> str:
    """Write the least time to the first token; empty where there is none."""
    seconds = set_up.first_token_at_least_seconds
    return "" if seconds is None else seconds_text(seconds)


def head(found: SetUps) -> list[str]:
    """Name the columns, the deciding ones first."""
    names = ["GPUs", "Price per hour", f"Holds (needs {found.load.requests:,})"]
    if not has_prices(found):
        names.remove("Price per hour")
    return [
        *names,
        "Tokens per second, at most",
        "of one request",
        "First token, at least",
        *(["Per million answer tokens, at least"] if has_prices(found) else []),
        *(["Format", "Answers"] if has_formats(found) else []),
        "Other layouts",
    ]


def has_prices(found: SetUps) -> bool:
    """Whether any set-up has a price."""
    return any(set_up.price is not None for set_up in found.found)


def has_formats(found: SetUps) -> bool:
    """Whether any set-up has another format than the one given."""
    return any(set_up.format.name for set_up in found.found)


def cells(set_up: SetUp, found: SetUps) -> list[str]:
    """Write a set-up's figures under the columns."""
    money = has_prices(found)
    price = price_text(set_up.price_per_hour, found.currency) or "no price"
    cost = price_text(set_up.at_least_price_per_million_tokens, found.currency)
    return [
        ", ".join(filter(None, [gpus_text(set_up), layout_words(set_up.layout)])),
        *([price] if money else []),
        held_text(set_up),
        speed_text(set_up.at_most_tokens_per_second),
        speed_text(set_up.at_most_tokens_per_second_each),
        first_token_text(set_up),
        *([cost] if money else []),
        *(_format_cells(set_up) if has_formats(found) else []),
        f"{len(found.others(set_up)) or ''}",
    ]


def _format_cells(set_up: SetUp) -> list[str]:
    return [set_up.format.name or "as given", str(set_up.format.cost_class)]


def title(found: SetUps) -> str:
    """Write the question: model, load and release."""
    model = found.inputs.model
    name = model if isinstance(model, str) else model.name
    return (
        f"GPUs for {name} with {load_text(found.load)} at once "
        f"(vLLM {found.inputs.vllm_version})"
    )


def headline(found: SetUps) -> str:
    """Write the fewest GPUs and the cheapest, and the numbers of which they are."""
    fewest, cheapest = found.fewest, found.cheapest
    tried = f"Tried: {tried_text(found.gpus_tried)} of each kind"
    if fewest is None:
        return f"None of these GPUs serves it. {tried}"
    few = gpus_text(fewest)
    if cheapest is None:
        return f"Fewest: {few}. {tried}"
    price = price_text(cheapest.price_per_hour, found.currency)
    if cheapest is fewest:
        return f"Fewest and cheapest: {few} ({price} per hour). {tried}"
    dear = f"{gpus_text(cheapest)} ({price} per hour)"
    return f"Fewest: {few}. Cheapest: {dear}. {tried}"


def tried_text(counts: Sequence[int]) -> str:
    """Write the numbers of GPUs that were tried.

    >>> tried_text((1, 2, 3)), tried_text((2, 4, 6)), tried_text((1,))
    ('1 to 3 GPUs', '2, 4, 6 GPUs', '1 GPU')
    """
    if len(counts) > 1 and counts[-1] - counts[0] == len(counts) - 1:
        return f"{counts[0]} to {counts[-1]} GPUs"
    return f"{', '.join(map(str, counts))} GPU{'' if list(counts) == [1] else 's'}"


def shown_order(found: SetUps) -> tuple[SetUp, ...]:
    """Return the best of each kind and format: first those that no other beats."""
    best = found.trade_offs()
    return (*best, *(one for one in found.ranked() if one not in best))


def notes(found: SetUps) -> list[str]:
    """Say what prices and speeds are, and what the letters mean."""
    if not found.is_found:
        return []
    dates = found.price_dates
    priced = NO_PRICES if not has_prices(found) else ""
    if has_prices(found) and dates is not None:
        span = dates[0] if dates[0] == dates[1] else f"{dates[0]} to {dates[1]}"
        priced = (
            f"Prices are assumed: public list prices on demand of {span}, for GPUs "
            "alone. Give yours as prices={'H100': 2.5}."
        )
    left = f"Not tried: {' '.join(found.not_tried)}" if found.not_tried else ""
    return [BETWEEN, *filter(None, [left, priced]), SPEED, LETTERS]


def miss_text(miss: Miss) -> str:
    """Write what a kind of GPU lacks, in one sentence."""
    where = f"{miss.gpus_total} x {miss.gpu.name}"
    if miss.serving is None:
        return f"{where}: {miss.why}"
    answer = verdict(miss.serving.plan)
    first = answer.serves or answer.headline
    lacks = f"{answer.margin} {answer.sentence}".strip().rstrip(".")
    return f"{where}: {first}. {lacks[:1].upper()}{lacks[1:]}."


def set_ups_text(found: SetUps) -> str:
    """Write the set-ups for a terminal, in their order."""
    sign = "✔" if found.is_found else "✘"
    lines = [f"{sign} {headline(found)}", title(found), ""]
    if found.is_found:
        rows = [head(found), *(cells(one, found) for one in shown_order(found))]
        lines += [*columns(rows, "<>"), ""]
    if found.misses:
        near = found.misses[:FIRST_SHOWN]
        lines += ["Nearest of those that do not:", *(f"  {miss_text(m)}" for m in near)]
        lines += [*_rest(found.misses[FIRST_SHOWN:]), ""]
    lines += notes(found)
    best = shown_order(found)
    if best:
        lines += ["", best[0].command()]
    return "\n".join(lines).rstrip()


def _rest(misses: Iterable[Miss]) -> list[str]:
    names = [miss.gpu.name for miss in misses]
    return [f"  Nor: {', '.join(names)}."] if names else []


def set_ups_html(found: SetUps) -> Html:
    """Show the answer, the first five set-ups, and the others folded."""
    best = shown_order(found)
    first, rest = best[:FIRST_SHOWN], best[FIRST_SHOWN:]
    return wide_page(
        verdict_box(
            "fits" if found.is_found else "short",
            sentence(title(found)),
            subject="Which GPUs?",
            symbol="✔" if found.is_found else "✘",
            headline=headline(found),
        ),
        _table(_CAPTIONS[found.order], first, found),
        _folded(f"{len(rest)} more kinds of GPU", _table("Further", rest, found)),
        _misses(found),
        listed(notes(found)),
        command_line(best[0].command(), "Command") if best else NOTHING,
    )


def _table(caption: str, rows: tuple[SetUp, ...], found: SetUps) -> Html:
    if not rows:
        return NOTHING
    return table_html(caption, head(found), (cells(one, found) for one in rows))


def _folded(summary: str, inside: Html) -> Html:
    return to_open(summary, inside, "pl-rank") if inside else NOTHING


def _misses(found: SetUps) -> Html:
    if not found.misses:
        return NOTHING
    near = [miss_text(miss) for miss in found.misses[:FIRST_SHOWN]]
    rest = (tag("p", line.strip()) for line in _rest(found.misses[FIRST_SHOWN:]))
    verb = "does" if len(found.misses) == 1 else "do"
    summary = f"{counted(len(found.misses), 'kinds')} of GPU {verb} not serve it"
    return to_open(summary, (listed(near), rest), "pl-rank")


def frame(found: SetUps) -> pd.DataFrame:
    """Return one row per set-up, fewest GPUs first.

    Raises:
        PlannerError: when pandas is not installed.
    """
    rows = [set_up.to_dict() for set_up in found.found]
    names = list(rows[0]) if rows else ["gpu", "gpus_total"]
    return make_frame([list(row.values()) for row in rows], names)


def row_key(plan: Plan) -> str:
    """Name GPU and layout of a plan: the same for all plans of a row."""
    given = plan.settings
    sizes = (getattr(given, name) or 1 for name in _LETTERS.values())
    experts = "-ep" if given.enable_expert_parallel else ""
    return f"{plan.gpu.name}/{'-'.join(map(str, sizes))}{experts}"


def drawn(found: SetUps, order: str, *, is_whole: bool) -> dict[str, object]:
    """Return what the page's table shows, by the names of its traits.

    Args:
        found: what has been found so far.
        order: fewest or cheapest.
        is_whole: whether the search has ended, so that what misses is known.
    """
    near = found.misses[:FIRST_SHOWN] if is_whole else ()
    rest = _rest(found.misses[FIRST_SHOWN:]) if is_whole else []
    return {
        "answer": headline(found) if found.is_found or is_whole else "",
        "needs": found.load.requests,
        "rows": [_page_row(one, found) for one in found.ranked(order)],
        "misses": [*map(miss_text, near), *(line.strip() for line in rest)],
        "remarks": _page_notes(found),
    }


def _page_notes(found: SetUps) -> list[str]:
    dates = found.price_dates
    span = f", read {dates[0]} to {dates[1]}" if dates else ""
    priced = f"Prices are assumed: public list prices{span}; type yours over them."
    return [BETWEEN, priced, SPEED, LETTERS] if found.is_found else []


def _page_row(set_up: SetUp, found: SetUps) -> dict[str, object]:
    price = set_up.price
    source = "" if price is None else f"{price.source}, {price.date}".rstrip(", ")
    others = found.others(set_up)
    return {
        **_figures(set_up, found),
        "gpu": set_up.gpu.name,
        "gpus": gpus_text(set_up),
        "price": price_text(set_up.price_per_hour, ""),
        "each": "" if price is None else f"{price.per_hour:g}",
        "source": source,
        "own": price is not None and price.is_own,
        "others": [_figures(other, found) for other in others],
    }


def _figures(set_up: SetUp, found: SetUps) -> dict[str, object]:
    """Return the cells that differ between layouts on the same GPUs."""
    cost = price_text(set_up.at_least_price_per_million_tokens, found.currency)
    return {
        "key": row_key(set_up.plan),
        "layout": layout_words(set_up.layout),
        "held": held_text(set_up),
        "speed": speed_text(set_up.at_most_tokens_per_second),
        "user": speed_text(set_up.at_most_tokens_per_second_each),
        "first": first_token_text(set_up),
        "cost": cost,
    }
