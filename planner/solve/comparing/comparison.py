"""compare(): plans side by side, with differences of inputs, figures and commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from planner.errors import PlannerError
from planner.given import named_in_errors
from planner.planning.result import Plan
from planner.solve.comparing.cells import VALUES, Value
from planner.solve.comparing.differences import Difference, differences, short_names
from planner.values import frozen
from planner.views import Charted, Framed, views_of

if TYPE_CHECKING:
    from planner.memory.estimate import RankMemory

_NAMES = (
    *("verdict", "requests_served", "gpus_total", "engines"),
    *("total_memory_bytes", "requested_memory_bytes"),
    *("available_kv_cache_bytes", "available_kv_cache_low_bytes"),
    *("kv_cache_size_tokens", "max_concurrency", "max_concurrency_low"),
    *("max_model_len", "max_model_len_that_fits", "num_gpu_blocks", "margin_bytes"),
)
_OTHERS = {
    "verdict": Value(label="Verdict", unit="", read=lambda plan: str(plan.outcome)),
    "engines": Value(label="Engines", unit="engines", read=lambda plan: plan.engines),
    "total_memory_bytes": Value(
        label="Memory of each",
        unit="bytes",
        read=lambda plan: plan.gpu.total_memory_bytes,
    ),
}
FIGURES = {name: _OTHERS.get(name) or VALUES[name] for name in _NAMES}
"""The figures of a comparison: those of a sweep, and three more."""
MOST_PLANS = 8


@frozen
class Comparison(Framed, Charted):
    """Plans side by side; differences are relative to the first.

    Raises:
        PlannerError: for no plan, more than eight, or invalid names.
    """

    plans: tuple[Plan, ...]
    names: tuple[str, ...]
    """One per plan, all different."""

    def __post_init__(self) -> None:
        _check(self.plans, self.names)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The inputs that are not the same in all plans."""
        return differences(self.plans)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The figures of all plans, then the memory lines."""
        return rows(self.plans)

    def command_diff(self) -> tuple[CommandDiff, ...]:
        """Return how each `vllm serve` line differs from the first plan's."""
        first, *others = zip(self.names, self.plans, strict=True)
        before = (first[0], first[1].command())
        return tuple(
            command_diff(before, (name, plan.command())) for name, plan in others
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: sizes in whole bytes, plans as `Plan.to_dict`."""
        return {
            "names": list(self.names),
            "differences": {
                found.name: list(found.values) for found in self.differences
            },
            "rows": [
                asdict(row) | {"differences": list(row.differences)}
                for row in self.rows
            ],
            "commands": [plan.command() for plan in self.plans],
            "command_diffs": [str(found) for found in self.command_diff()],
            "plans": [plan.to_dict() for plan in self.plans],
        }


@named_in_errors
def compare(*plans: Plan, names: Sequence[str] | None = None) -> Comparison:
    """Put plans side by side.

    Args:
        plans: one to eight plans; differences are relative to the first.
        names: one per plan; by default the inputs that differ, or letters.

    Raises:
        PlannerError: for no plan, more than eight, or invalid names.
    """
    _check(plans, tuple(names) if names is not None else None)
    return Comparison(
        plans=plans, names=short_names(plans) if names is None else tuple(names)
    )


def _check(plans: Sequence[Plan], names: Sequence[str] | None) -> None:
    for plan in plans:
        given: object = plan
        if not isinstance(given, Plan):
            raise PlannerError(
                f"compare() takes plans, not {type(given).__name__}: make one with "
                "planner.plan(model, gpu=...)."
            )
    if not 1 <= len(plans) <= MOST_PLANS:
        raise PlannerError(
            f"compare() takes 1 to {MOST_PLANS} plans; {len(plans)} were given. "
            "planner.sweep() shows many at once."
        )
    if names is None:
        return
    if len(names) != len(plans) or len(set(names)) != len(names):
        raise PlannerError(
            f"names={list(names)!r}: {len(plans)} different names are needed, one per "
            "plan."
        )


@frozen
class Row:
    """One figure of every plan."""

    name: str
    """As `Plan` or `RankMemory` calls it, or a memory line's name."""
    unit: str
    """bytes, tokens, requests, blocks, GPUs, or empty for text."""
    values: tuple[Any, ...]
    """One per plan; None where the plan does not have it."""
    is_line: bool = False
    """Whether it is a line of the memory account."""

    @property
    def differences(self) -> tuple[float | int | None, ...]:
        """Each value minus the first; None where one is missing or is text."""
        first = self.values[0]
        return tuple(
            value - first if self.unit and None not in (value, first) else None
            for value in self.values
        )

    @property
    def is_same(self) -> bool:
        """Whether all plans agree."""
        return all(value == self.values[0] for value in self.values)


def rows(plans: Sequence[Plan]) -> tuple[Row, ...]:
    """Return the figures, then the memory lines of each plan's limiting rank."""
    left_out = {
        "requests_served": all(plan.load is None for plan in plans),
        "engines": all(plan.engines == 1 for plan in plans),
    }
    figures = [
        Row(name=name, unit=one.unit, values=tuple(map(one.read, plans)))
        for name, one in FIGURES.items()
        if not left_out.get(name)
    ]
    ranks = [plan.limiting_rank for plan in plans]
    names = dict.fromkeys(
        line.name for rank in ranks if rank is not None for line in rank.lines
    )
    lines = [
        Row(
            name=name,
            unit="bytes",
            values=tuple(_line_bytes(rank, name) for rank in ranks),
            is_line=True,
        )
        for name in names
    ]
    return (*figures, *lines)


def _line_bytes(rank: RankMemory | None, name: str) -> int | None:
    """Return a line's size; 0 where the account has no such line."""
    if rank is None:
        return None
    return sum(line.size_bytes for line in rank.lines if line.name == name)


class Change(StrEnum):
    """What happens to a word."""

    KEPT = "kept"
    REMOVED = "removed"
    ADDED = "added"


@frozen
class Word:
    """One word of a command line, quoted for a shell."""

    text: str
    change: Change


@frozen
class CommandDiff:
    """The differences between two command lines, word by word."""

    before: str
    """Name of the first plan."""
    after: str
    """Name of the second plan."""
    words: tuple[Word, ...]

    @property
    def is_same(self) -> bool:
        """Whether nothing changes."""
        return all(word.change is Change.KEPT for word in self.words)

    def __str__(self) -> str:
        """Write the line with removed words as [-word-], added ones as {+word+}."""
        marks = {Change.KEPT: "{}", Change.REMOVED: "[-{}-]", Change.ADDED: "{{+{}+}}"}
        return " ".join(marks[word.change].format(word.text) for word in self.words)

    def html(self) -> str:
        """Write the line with removed words in `del`, added ones in `ins`."""
        return views_of(self).html(self)


def command_diff(before: tuple[str, str], after: tuple[str, str]) -> CommandDiff:
    """Return the differences; both arguments are a plan's name and command line.

    >>> str(command_diff(("A", "serve m --a 1 --b"), ("B", "serve m --a 2")))
    'serve m --a [-1-] {+2+} [---b-]'
    """
    old, new = _options(before[1]), _options(after[1])
    return CommandDiff(before=before[0], after=after[0], words=tuple(_words(old, new)))


def _options(line: str) -> list[list[str]]:
    """Split a line into options with their values; the command itself comes first."""
    options: list[list[str]] = []
    for word in shlex.split(line):
        if word.startswith("--") or not options:
            options.append([])
        options[-1].append(shlex.quote(word))
    return options


def _words(old: list[list[str]], new: list[list[str]]) -> Iterator[Word]:
    """Align options by name; values are compared within an option only."""
    matcher = SequenceMatcher(
        None, [option[0] for option in old], [option[0] for option in new], False
    )
    for what, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if what == "equal":
            pairs = zip(old[old_from:old_to], new[new_from:new_to], strict=True)
            for one, other in pairs:
                yield from _aligned(one, other)
        else:
            yield from _all(old[old_from:old_to], Change.REMOVED)
            yield from _all(new[new_from:new_to], Change.ADDED)


def _aligned(old: Sequence[str], new: Sequence[str]) -> Iterator[Word]:
    """Compare two options of the same name, value by value."""
    for one, other in zip_longest(old, new):
        if one == other:
            yield Word(text=one, change=Change.KEPT)
            continue
        if one is not None:
            yield Word(text=one, change=Change.REMOVED)
        if other is not None:
            yield Word(text=other, change=Change.ADDED)


def _all(options: Sequence[Sequence[str]], change: Change) -> Iterator[Word]:
    for option in options:
        for text in option:
            yield Word(text=text, change=change)
