"""Results in few words for an agent: plain values, and a text made of them.

The whole account is the result's own `to_dict` and text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from planner.errors import PlannerError
from planner.planning.result import Plan
from planner.planning.words import fails, holds
from planner.reading.logs.explaining import Explanation
from planner.reading.reading import Reading
from planner.show import advice as advice_words
from planner.show import set_ups as set_up_words
from planner.show import speed_forecast as speed_words
from planner.show import upgrade as upgrade_words
from planner.show.account import not_understood
from planner.show.verdict import error_text, noted, shown_lines, verdict_text
from planner.solve.advice.result import Advice, AdviceItem
from planner.solve.set_ups import SetUp, SetUps
from planner.solve.speed.forecast import SpeedForecast
from planner.solve.upgrading import Upgrade
from planner.units import format_gib

_MOST = 4
"""Changes, set-ups and rules of a short answer."""
_LONGEST = 240
"""Characters of a sentence of a short answer."""
_SIZES = (
    *("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"),
    "enable_expert_parallel",
)
_FIGURES = (
    *("requests_held", "price_per_hour", "tokens_per_second", "first_token_seconds"),
    *("at_most_tokens_per_second", "at_least_price_per_million_tokens"),
)
_FORECAST = (
    *("output_tokens_per_s", "per_request_tokens_per_s", "tpot_ms", "ttft_ms"),
)
_BOUNDS = frozenset(
    (
        *("total_at_most_tokens_per_second", "decode_at_least_seconds"),
        *("prefill_at_least_seconds", "memory_holds"),
    )
)
_IN_RANGE = "four of five measurements lie in the range"
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]")
_BYTES = "_bytes"
_RANGE = {"low", "value", "high"}


def plan(found: Plan) -> dict[str, Any]:
    """Return whether it starts, what each GPU holds, and the command."""
    return {
        "answer": verdict_text(found),
        **_start(found),
        "fits": found.fits,
        "said": _clipped("" if found.error is None else error_text(found.error)),
        **_memory(found),
        **_load(found),
        **_rest(found),
        "command": found.command(),
    }


def _start(found: Plan) -> dict[str, Any]:
    gpus = f"{found.gpus_total} x {found.gpu.name}"
    return {"model": found.name, "gpu": gpus, "vllm_version": found.vllm_version}


def _memory(found: Plan) -> dict[str, Any]:
    rank = found.limiting_rank
    if rank is None:
        return {}
    lines = {
        one.name: {"bytes": one.size_bytes, "basis": str(one.basis)}
        for one in shown_lines(rank)
    }
    low, high = rank.available_kv_cache_low_bytes, rank.available_kv_cache_high_bytes
    return {
        "requested_bytes": rank.requested_memory_bytes,
        "each_gpu": lines,
        "kv_cache": {"low_bytes": low, "high_bytes": high},
        "kv_cache_size_tokens": found.kv_cache_size_tokens,
        "max_concurrency": found.max_concurrency,
        "max_model_len_that_fits": found.max_model_len_that_fits,
    }


def _load(found: Plan) -> dict[str, Any]:
    served = found.serving
    if served is None:
        return {}
    words = holds(served) if served.is_served else fails(served)
    return {"load_is_served": served.is_served, "load": _clipped(words)}


def _rest(found: Plan) -> dict[str, Any]:
    notes = [_clipped(one) for one in noted(found)]
    return {"notes": notes[:_MOST]} if notes else {}


def _how_known(found: Plan | None) -> dict[str, Any]:
    """Return which lines of a plan's memory are exact, computed, measured, assumed."""
    rank = None if found is None else found.limiting_rank
    if rank is None:
        return {}
    names: dict[str, list[str]] = {}
    for line in shown_lines(rank):
        names.setdefault(str(line.basis), []).append(line.name)
    return {"how_known": {basis: ", ".join(lines) for basis, lines in names.items()}}


def advice(found: Advice) -> dict[str, Any]:
    """Return the changes that help most, and what each costs."""
    offered = found.offered
    return {
        "answer": verdict_text(found.plan),
        "before": advice_words.before_any_change(found),
        "changes": [_change(found, one) for one in offered[:_MOST]],
        **_more("changes", len(offered)),
        **_how_known(found.plan),
        "not_counted": list(map(_clipped, found.plan.conditions)),
        "warnings": list(map(_clipped, found.warnings[:2])),
    }


def _change(found: Advice, item: AdviceItem) -> dict[str, Any]:
    return {
        "title": item.title,
        "flags": item.flags or item.removed_flags,
        "result": advice_words.result(found, item),
        "answers": str(item.cost_class),
        "cost": _clipped(item.cost, _LONGEST // 2),
    }


def _more(what: str, count: int) -> dict[str, Any]:
    left = count - _MOST
    return {"more": f"{left} more {what}: whole=true"} if left > 0 else {}


def set_ups(found: SetUps) -> dict[str, Any]:
    """Return the best set-ups with price and speed, and what others lack."""
    best, _ = set_up_words.best_first(found)
    prices = "assumed, list prices" if found.price_dates else "given"
    return {
        "answer": set_up_words.headline(found),
        "question": set_up_words.title(found),
        "set_ups": [_set_up(one) for one in best[:_MOST]],
        "currency": found.currency,
        **_more("set-ups", len(best)),
        "how_known": {"prices": prices, "speed": "measured, a range; else a bound"},
        "not_serving": list(map(_clipped, set_up_words.misses(found)[:2])),
        "not_tried": [_clipped(one) for one in found.not_tried],
        "command": best[0].command() if best else "",
    }


def _set_up(one: SetUp) -> dict[str, Any]:
    told = one.to_dict()
    sizes = {name: told[name] for name in _SIZES if told[name] > 1}
    figures = {name: told[name] for name in _FIGURES if told[name] is not None}
    form = {"format": one.format.name} if one.format.name else {}
    return {"gpus": set_up_words.gpus_text(one), **sizes, **form, **_rounded(figures)}


def speed(found: SpeedForecast) -> dict[str, Any]:
    """Return each figure with its range, and the bounds."""
    told = found.to_dict()
    bounds = told["bound"]["figures"].items()
    return {
        "answer": speed_words.headline(found),
        "model": found.plan.name,
        "gpu": f"{found.plan.gpus_total} x {found.plan.gpu.name}",
        "requests": found.requests,
        "measured": _rounded({n: told[n] for n in _FORECAST if found.is_known}),
        "formula": _rounded({n: one["value"] for n, one in bounds if n in _BOUNDS}),
        "how_known": _IN_RANGE if found.is_known else "a bound alone",
        "near": _clipped(found.near.words),
        "notes": [_clipped(one) for one in found.notes[:_MOST]],
    }


def _rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return figures with three digits after the point, those in tables too."""
    return {
        name: _rounded(one)
        if isinstance(one, dict)
        else round(one, 3)
        if isinstance(one, float)
        else one
        for name, one in values.items()
    }


def upgrade(found: Upgrade) -> dict[str, Any]:
    """Return what becomes of the KV cache, by which rules, and the ways back."""
    causes = found.causes
    largest = sorted(causes, key=lambda one: -_size_of(one[1].changes))[:_MOST]
    return {
        "answer": _clipped(upgrade_words.headline(found), 2 * _LONGEST),
        "changes": {
            one.name: {f"before{unit}": one.before, f"after{unit}": one.after}
            for one in found.changes
            for unit in ("" if one.name in upgrade_words.COUNTS else _BYTES,)
            if one.change
        },
        "rules": [
            {
                "release": release,
                "changes": _clipped(upgrade_words.effects(cause)),
                "rule": _clipped(upgrade_words.why(cause), _LONGEST // 2),
            }
            for release, cause in causes
            if (release, cause) in largest
        ],
        **_more("rules", len(causes)),
        "ways_back": [
            f"{upgrade_words.setting(way)}: {upgrade_words.result(way)}"
            for way in found.ways[:_MOST]
        ],
        **_how_known(found.after),
    }


def _size_of(changes: Mapping[str, int]) -> int:
    return abs(changes.get("KV cache", 0))


def reading(found: Reading) -> dict[str, Any]:
    """Return what a text says, what it leaves open, and the verdict of its plan."""
    told = found.to_dict()
    inputs = {name: value for name, value in told["inputs"].items() if value}
    pieces = () if found.log is not None else found.account
    try:
        planned = {"plan": verdict_text(made := found.plan()), **_how_known(made)}
    except PlannerError as error:
        planned = {"not_planned": _clipped(str(error))}
    return {
        "answer": f"Read as: {found.kind}",
        **inputs,
        **({"load": told["load"]} if told["load"] else {}),
        **planned,
        "open": list(found.open),
        "not_understood": [*found.unknown, *map(str, not_understood(pieces))][:_MOST],
        "notes": [_clipped(one) for one in found.notes[:_MOST]],
        **_more("starts", found.num_starts - 1 + _MOST),
    }


def explanation(found: Explanation) -> dict[str, Any]:
    """Return why a start failed or how it compares, and the cheapest that helps."""
    failure = found.failure
    return {
        "answer": found.headline,
        "why": _clipped("" if failure is None else failure.sentence),
        "lines": [_clipped(one) for one in (*found.first, *found.answer)],
        "findings": [_clipped(one) for one in found.findings[:_MOST]],
        "fixes": [
            {
                "title": fix.title,
                "result": _clipped(fix.result),
                "cost": _clipped(fix.cost, _LONGEST // 2),
                "text": _clipped(fix.text),
            }
            for fix in found.fixes[:_MOST]
        ],
        **_more("fixes", len(found.fixes)),
        **_how_known(found.plan),
        "not_planned": _clipped(found.not_planned),
        "not_understood": list(found.reading.unknown),
    }


def without_nothing(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values without those that say nothing: empty texts, lists and tables."""
    return {name: value for name, value in values.items() if value not in ("", [], {})}


def text_of(values: Mapping[str, Any]) -> str:
    """Write values as lines, the answer first; sizes in GiB.

    >>> print(text_of({"answer": "It fits", "requested_bytes": 1 << 30}))
    It fits
    requested: 1.00 GiB
    """
    first, rest = values.get("answer", ""), {**values}
    rest.pop("answer", None)
    lines = [str(first)] if first else []
    for name, value in rest.items():
        if isinstance(value, list) and value:
            lines += [f"{name}:", *(f"- {_words(one)}" for one in value)]
        else:
            lines.append(f"{name.removesuffix(_BYTES)}: {_words(value, name)}")
    return _CONTROLS.sub("\ufffd", "\n".join(lines))


def _words(value: object, name: str = "") -> str:
    """Write a value in a line: a size in GiB, a table as names and values."""
    if isinstance(value, dict) and value.keys() == _RANGE:
        low, middle, high = map(_words, value.values())
        return f"{middle} ({low} to {high})"
    if isinstance(value, dict):
        return "; ".join(_pairs(value))
    if isinstance(value, list):
        return ", ".join(map(_words, value))
    return _scalar(value, name)


def _scalar(value: object, name: str) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, int) and name.endswith("bytes"):
        return format_gib(value)
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _pairs(values: Mapping[str, Any]) -> Iterable[str]:
    for name, value in values.items():
        if isinstance(value, dict) and value.keys() != _RANGE:
            yield f"{name} {', '.join(_words(one, key) for key, one in value.items())}"
        elif name == "title":
            yield str(value)
        elif value not in ("", None):
            yield f"{name.removesuffix(_BYTES)} {_words(value, name)}"


def _clipped(sentence: str, longest: int = _LONGEST) -> str:
    return sentence if len(sentence) <= longest else f"{sentence[:longest]} ..."
