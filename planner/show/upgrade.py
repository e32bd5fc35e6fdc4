"""What an upgrade of vLLM does to a start, and the texts of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.engine.releases import NEWEST, is_newer, unknown
from planner.show.html import tag
from planner.show.sheet import Apart, Sheet, Table
from planner.show.verdict import SYMBOLS, state_of
from planner.units import format_gib, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.planning.result import Plan
    from planner.solve.upgrading import Cause, Difference, Upgrade, Way

COUNTS = {"num_gpu_blocks": "blocks", "kv_cache_size_tokens": "tokens"}
_RULE_COLUMNS = (
    "Release",
    ("In this start", "pl-text"),
    ("Rule", "pl-text"),
    ("Source", "pl-text"),
)
_UNSHOWN = frozenset(("num_gpu_blocks",))
_DATA = "What is recorded for each release, such as its fitted figures."
_CONDITION = (
    "A setting that takes something out of the budget does not free its memory: what "
    "is then outside may fail to be allocated."
)


def sheet(found: Upgrade) -> Sheet:
    """Say the sentence, the figures, the rules that changed, and the ways back."""
    first, last = found.steps[0].release, found.steps[-1].release
    figures = [(one.name, *_cells(one)) for one in found.changes]
    rules = list(_rules(found))
    ways = [
        (Apart(setting(one), tag("code", setting(one))), result(one))
        for one in found.ways
    ]
    return Sheet(
        (
            headline(found),
            Table(
                "Each GPU, before and after",
                ("Memory line", _column(first), _column(last), "Change"),
                figures,
            ),
            Table("Which rule changed what", _RULE_COLUMNS, rules)
            if rules
            else _unchanged(first, last),
            Table(
                f"To get nearer to what {first} had",
                ("Setting", ("KV cache", "pl-word")),
                ways,
            ),
            Apart(_CONDITION, tag("p", _CONDITION, class_="pl-note")) if ways else None,
        )
    )


def _column(release: str) -> str:
    """Write a release, and whose rules it is planned with."""
    return f"{release} by the rules of {NEWEST}" if is_newer(release) else release


def _unchanged(first: str, last: str) -> str:
    newer = next(filter(is_newer, (last, first)), None)
    if newer is None:
        return "No rule that this start meets changed between these releases."
    return f"No rule that this start meets changed up to {NEWEST}. {unknown(newer)}"


def _rules(found: Upgrade) -> Iterator[tuple[str, str, str, str]]:
    for step in found.steps:
        if step.error:
            yield step.release, "cannot be planned", step.error, ""
        for cause in step.causes:
            yield step.release, effects(cause), why(cause), source_of(cause)


def headline(found: Upgrade) -> str:
    """Say what becomes of the KV cache and the verdict, and of an unknown release."""
    before, after = found.before, found.after
    first, last = found.steps[0].release, found.steps[-1].release
    ends = (found.steps[0], found.steps[-1])
    notes = "".join(f" {note}" for step in ends for note in step.notes)
    start = f"{before.name} on {before.gpu.name}, vLLM {first} to {last}: "
    if after is None:
        return f"{start}{last} cannot be planned. {found.steps[-1].error}"
    verdicts = f"{verdict(before)}; {verdict(after)}"
    if before.outcome is after.outcome:
        verdicts = verdict(after)
    sizes = [_kv_cache(plan) for plan in (before, after)]
    if None in sizes:
        return f"{start}{verdicts}.{notes}"
    old, new = (size or 0 for size in sizes)
    share = f", {100 * (new - old) / old:+.0f} %" if old > 0 else ""
    tokens = f"{before.kv_cache_size_tokens:,} to {after.kv_cache_size_tokens:,} tokens"
    return (
        f"{start}KV cache {format_gib(old)} to {format_gib(new)} "
        f"({format_gib(new - old, signed=True)}{share}), {tokens}; {verdicts}.{notes}"
    )


def verdict(plan: Plan) -> str:
    """Write a verdict with its symbol."""
    return f"{SYMBOLS[state_of(plan)]} {plan.outcome}"


def _kv_cache(plan: Plan) -> int | None:
    rank = plan.limiting_rank
    return None if rank is None else rank.available_kv_cache_bytes


def _cells(one: Difference) -> list[str]:
    if one.name in COUNTS:
        return [f"{one.before:,}", f"{one.after:,}", f"{one.change:+,}"]
    change = format_gib(one.change, signed=True) if one.change else "0"
    return [format_gib(one.before), format_gib(one.after), change]


def effects(cause: Cause) -> str:
    """Write what a rule changes in this start."""
    changes = [
        f"{COUNTS.get(name, name)} {_signed(name, value)}"
        for name, value in cause.changes.items()
        if name not in _UNSHOWN
    ]
    settings = [
        f"{one.name} {_short(one.before)} becomes {_short(one.after)}"
        for one in cause.settings
    ]
    verdicts = [f"verdict: {cause.verdict}"] if cause.verdict else []
    return ", ".join([*changes, *settings, *verdicts])


def _signed(name: str, value: int) -> str:
    if name in COUNTS:
        return f"{value:+,}"
    return f"{'-' if value < 0 else '+'}{format_size(abs(value))}"


def _short(value: object) -> str:
    """Write a resolved value; of a list, its ends.

    >>> _short((1, 2, 4, 8)), _short(0.92)
    ('1 to 8', '0.92')
    """
    if isinstance(value, tuple):
        return f"{value[0]} to {value[-1]}" if value else "none"
    return "not set" if value is None else str(value)


def why(cause: Cause) -> str:
    """Write the rule, and since when or until when it holds."""
    rule = cause.rule
    if rule is None:
        return _DATA
    return f"{'No longer' if rule.is_over else 'New'} in {rule.release}: {rule.what}"


def source_of(cause: Cause) -> str:
    """Return where the rule is read."""
    return "" if cause.rule is None else cause.rule.source


def setting(way: Way) -> str:
    """Write a setting as it is typed."""
    if way.is_env:
        return f"{way.setting}={way.value}"
    return f"--{way.setting.replace('_', '-')} {way.value}"


def result(way: Way) -> str:
    """Write what a setting makes of the KV cache."""
    size = _kv_cache(way.plan)
    total = "none" if size is None else format_gib(size)
    return f"{total} ({format_gib(way.change_bytes, signed=True)}), {verdict(way.plan)}"
