"""Set-ups that serve a load, deciding columns first.

The texts of single cells are here too, which the page's section shares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.planning.words import load_text
from planner.show.compared_gpus import price_text
from planner.show.frames import frame_of
from planner.show.sheet import Answer, Command, Listing, Sheet, table_of
from planner.show.speed import rate_text, seconds_text
from planner.show.verdict import verdict
from planner.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    "Speed is forecast where something near was measured, with a range that holds four "
    "of five measurements; at most and at least are bounds: no start is faster."
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


def has_prices(found: SetUps) -> bool:
    """Whether any set-up has a price."""
    return any(set_up.price is not None for set_up in found.found)


def has_formats(found: SetUps) -> bool:
    """Whether any set-up has another format than the one given."""
    return any(set_up.format.name for set_up in found.found)


def cells(set_up: SetUp, found: SetUps) -> dict[str, str]:
    """Write a set-up's figures by the titles of their columns, deciding ones first."""
    figures = _figures(set_up, found)
    price, cost = {}, {}
    if has_prices(found):
        hourly = price_text(set_up.price_per_hour, found.currency)
        price = {"Price per hour": hourly or "no price"}
        cost = {"Per million answer tokens, at least": figures["cost"]}
    return {
        "GPUs": ", ".join(filter(None, [gpus_text(set_up), figures["layout"]])),
        **price,
        f"Holds (needs {found.load.requests:,})": figures["held"],
        "Tokens per second": _range(set_up, "total_tokens_per_second", rate_text),
        "of one request": _range(set_up, "per_request_tokens_per_second", rate_text),
        "First token": _range(set_up, "first_token_seconds", seconds_text),
        "Tokens per second, at most": figures["speed"],
        **_sureness(set_up, found),
        **cost,
        **(_format_cells(set_up) if has_formats(found) else {}),
        "Other layouts": f"{len(found.others(set_up)) or ''}",
    }


def _sureness(set_up: SetUp, found: SetUps) -> dict[str, str]:
    """Say how sure the wanted speed is, where it is not for all."""
    if all(one.is_sure_of_speed for one in found.found):
        return {}
    return {"Wanted speed": "sure" if set_up.is_sure_of_speed else "likely"}


def _range(set_up: SetUp, name: str, write: Callable[[float], str]) -> str:
    """Write a figure of the forecast with its range; empty: not known."""
    found = None if set_up.forecast is None else getattr(set_up.forecast, name)
    if found is None:
        return ""
    return f"{write(found.value)} ({write(found.low)} to {write(found.high)})"


def _format_cells(set_up: SetUp) -> dict[str, str]:
    return {
        "Format": set_up.format.name or "as given",
        "Answers": str(set_up.format.cost_class),
    }


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
    tried = f"Tried: {tried_text(found.gpus_tried)} of each kind"
    return f"{_best(found)}. {tried}"


def _best(found: SetUps) -> str:
    fewest, cheapest = found.fewest, found.cheapest
    if fewest is None:
        return "None of these GPUs serves it"
    few = _with_format(fewest)
    if cheapest is None:
        return f"Fewest: {few}"
    price = price_text(cheapest.price_per_hour, found.currency)
    if cheapest is fewest:
        return f"Fewest and cheapest: {few} ({price} per hour)"
    return f"Fewest: {few}. Cheapest: {_with_format(cheapest)} ({price} per hour)"


def _with_format(set_up: SetUp) -> str:
    """Name the GPUs, and the format where it is another than the one given."""
    form = set_up.format.name
    return f"{gpus_text(set_up)} with {form}" if form else gpus_text(set_up)


def tried_text(counts: Sequence[int]) -> str:
    """Write the numbers of GPUs that were tried.

    >>> tried_text((1, 2, 3)), tried_text((2, 4, 6)), tried_text((1,))
    ('1 to 3 GPUs', '2, 4, 6 GPUs', '1 GPU')
    """
    if len(counts) > 1 and counts[-1] - counts[0] == len(counts) - 1:
        return f"{counts[0]} to {counts[-1]} GPUs"
    return f"{', '.join(map(str, counts))} GPU{'' if list(counts) == [1] else 's'}"


def best_first(
    found: SetUps, order: str | None = None
) -> tuple[tuple[SetUp, ...], int]:
    """Return the best of each kind and format, and how many no other beats.

    Those come first.
    """
    best = found.trade_offs(order)
    ids = {id(one) for one in best}
    others = (one for one in found.ranked(order) if id(one) not in ids)
    return (*best, *others), len(best)


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
    if miss.too_slow:
        return f"{where}: serves the load, but {miss.too_slow}."
    answer = verdict(miss.serving.plan)
    first = answer.serves or answer.headline
    lacks = f"{answer.margin} {answer.sentence}".strip().rstrip(".")
    return f"{where}: {first}. {lacks[:1].upper()}{lacks[1:]}."


def sheet(found: SetUps) -> Sheet:
    """Say the answer, the set-ups, what the nearest others lack, and the command."""
    best, _ = best_first(found)
    answer = Answer(
        tone="fits" if found.is_found else "short",
        symbol="✔" if found.is_found else "✘",
        headline=headline(found),
        subject=title(found),
    )
    rows = [cells(one, found) for one in best]
    verb = "does" if len(found.misses) == 1 else "do"
    missing = f"{counted(len(found.misses), 'kinds')} of GPU {verb} not serve it"
    return Sheet(
        (
            answer,
            table_of(_CAPTIONS[found.order], rows, {}, most=FIRST_SHOWN),
            Listing(misses(found), missing, is_folded=True),
            Listing(notes(found)),
            Command(best[0].command() if best else ""),
        )
    )


def misses(found: SetUps) -> list[str]:
    """Write what the nearest that do not serve lack, and name the others."""
    names = [miss.gpu.name for miss in found.misses[FIRST_SHOWN:]]
    near = map(miss_text, found.misses[:FIRST_SHOWN])
    return [*near, *([f"Nor: {', '.join(names)}."] if names else [])]


def frame(found: SetUps) -> pd.DataFrame:
    """Return one row per set-up, fewest GPUs first."""
    rows = [set_up.to_dict() for set_up in found.found]
    return frame_of(rows, () if rows else ("gpu", "gpus_total"))


def row_key(plan: Plan) -> str:
    """Name GPU, layout and format of a plan: the same for all plans of a row."""
    given = plan.settings
    sizes = (getattr(given, name) or 1 for name in _LETTERS.values())
    experts = "-ep" if given.enable_expert_parallel else ""
    form = (plan.name, given.quantization or "", given.kv_cache_dtype or "")
    return f"{plan.gpu.name}/{'-'.join(map(str, sizes))}{experts}/{'/'.join(form)}"


def drawn(found: SetUps, order: str, *, is_whole: bool) -> dict[str, object]:
    """Return what the page's table shows, by the names of its traits.

    Args:
        found: what has been found so far.
        order: fewest or cheapest.
        is_whole: whether the search has ended, so that what misses is known.
    """
    answer = headline(found) if is_whole else f"Counting. So far: {_best(found)}"
    rows, best = best_first(found, order)
    return {
        "answer": answer if found.is_found or is_whole else "",
        "needs": found.load.requests,
        "best": best,
        "rows": [_page_row(one, found) for one in rows],
        "misses": misses(found) if is_whole else [],
        "remarks": _page_notes(found, is_whole=is_whole),
    }


def _page_notes(found: SetUps, *, is_whole: bool) -> list[str]:
    dates = found.price_dates
    span = f", read {dates[0]} to {dates[1]}" if dates else ""
    priced = f"Prices are assumed: public list prices{span}; type yours over them."
    left = [f"Not tried: {' '.join(found.not_tried)}"] if is_whole else []
    return [BETWEEN, *left, priced, SPEED, LETTERS] if found.is_found else []


def _page_row(set_up: SetUp, found: SetUps) -> dict[str, object]:
    price = set_up.price
    source = "" if price is None else f"{price.source}, {price.date}".rstrip(", ")
    others = found.others(set_up)
    return {
        **_page_figures(set_up, found),
        "gpu": set_up.gpu.name,
        "gpus": gpus_text(set_up),
        "format": set_up.format.name,
        "answers": str(set_up.format.cost_class) if set_up.format.name else "",
        "price": price_text(set_up.price_per_hour, ""),
        "each": "" if price is None else f"{price.per_hour:g}",
        "source": source,
        "own": price is not None and price.is_own,
        "others": [_page_figures(other, found) for other in others],
    }


def _figures(set_up: SetUp, found: SetUps) -> dict[str, str]:
    """Return the cells that differ between layouts on the same GPUs."""
    held, first = set_up.requests_held, set_up.first_token_at_least_seconds
    whole, each = (
        "" if one is None else rate_text(one)
        for one in (
            set_up.at_most_tokens_per_second,
            set_up.at_most_tokens_per_second_each,
        )
    )
    return {
        "key": row_key(set_up.plan),
        "layout": layout_words(set_up.layout),
        "held": "no limit" if held is None else f"{held:,}",
        "speed": whole,
        "user": each,
        "first": "" if first is None else seconds_text(first),
        "cost": price_text(set_up.at_least_price_per_million_tokens, found.currency),
    }


def _page_figures(set_up: SetUp, found: SetUps) -> dict[str, object]:
    """Return the same for the page: the forecast and its range, else the bound."""
    figures = _figures(set_up, found)
    return {
        **figures,
        "speed": _forecast(
            set_up, "total_tokens_per_second", rate_text, f"at most {figures['speed']}"
        ),
        "user": _forecast(
            set_up,
            "per_request_tokens_per_second",
            rate_text,
            f"at most {figures['user']}",
        ),
        "first": _forecast(
            set_up, "first_token_seconds", seconds_text, f"at least {figures['first']}"
        ),
    }


def _forecast(
    set_up: SetUp, name: str, write: Callable[[float], str], bound: str
) -> tuple[str, str]:
    """Return a figure of the forecast and its range; without one, what bounds it."""
    found = None if set_up.forecast is None else getattr(set_up.forecast, name)
    if found is None:
        return "", bound if any(map(str.isdigit, bound)) else ""
    return write(found.value), f"{write(found.low)} to {write(found.high)}"
