"""Two releases' bodies, judged: closed by the machine, or left for a person.

old bodies --+
             +-- differing.py: which differ, and why that cannot matter
new bodies --+   reach.py: which a start cannot reach
                 ranking.py: the rest, in order
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.release import ranking, reach
from tools.release.differing import Difference, differences, paired
from tools.release.evidence import NONE, Evidence
from tools.release.ranking import Cited, Reading, T
from tools.release.statements import kept_anew
from tools.release.symbols import Citation, Sources
from tools.release.touched import touched

FIRST = 40
"""How many readings a person is asked to open; the rest where a case differs."""
SHORT, LINES = 4, 80
"""How many statements the page shows in a line, and how many such lines it has."""
_STRONG = 0.5
"""From what suspicion on a body is read wherever it is."""
_NEW_FILE = (
    "in a new file, which no rule rests on: its architecture or backend is named"
)
_UNREACHED = "no start of a worker reaches it, and no rule names it"
_WENT = "it went, what called it is compared, and no rule names it"
_VARIABLES = "a variable of the environment: named with the variables"


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Every body in which two releases differ, once."""

    readings: tuple[Reading, ...]
    """Left for a person, in order."""
    kept: tuple[tuple[str, str], ...]
    """Tensors that objects keep from now on: the body, and its statement."""
    tables: tuple[Difference, ...]
    """Lists of names, near to what is cited: only what came and went is read."""
    closed: tuple[tuple[str, str], ...]
    """Bodies that the machine closed, each with the reason."""

    @property
    def first(self) -> tuple[Reading, ...]:
        """The readings that a person opens."""
        return first(self.readings, lambda one: one.statements)

    @property
    def short(self) -> tuple[Reading, ...]:
        """Those that the page shows in full, a line each."""
        return short(self.readings, lambda one: one.statements)

    @property
    def reasons(self) -> Counter[str]:
        """How many were closed for which reason."""
        return Counter(reason for _key, reason in self.closed)

    @property
    def bodies(self) -> int:
        """How many bodies differ."""
        left = sum(len((*one.bodies, *one.alike)) for one in self.readings)
        return left + len(self.tables) + len(self.closed)


def first(readings: Iterable[T], statements: Callable[[T], int]) -> tuple[T, ...]:
    """Return the first of those that take more than a line."""
    return tuple(one for one in readings if statements(one) > SHORT)[:FIRST]


def short(readings: Iterable[T], statements: Callable[[T], int]) -> tuple[T, ...]:
    """Return the first of those that a line shows."""
    return tuple(one for one in readings if statements(one) <= SHORT)[:LINES]


def judged(
    old: Path,
    new: Path,
    cited: Iterable[Citation],
    evidence: Evidence = NONE,
) -> Judged:
    """Judge what differs between two packages `vllm`.

    Args:
        old: the package of the release before.
        new: of the new one.
        cited: what the planner rests on.
        evidence: what the cases of both say.
    """
    words = reach.mentions(old)
    near = Cited(ranking.places_of(cited, Sources(old)), words)
    words_now = reach.mentions(new)
    live = reach.reached(words_now)
    models = touched(new)
    left, tables, closed = [], [], []
    for one in paired(differences(old, new)):
        if reason := _closed(one, near, live, words, evidence):
            closed.append((one.key, reason))
        elif one.is_table:
            tables.append(one)
        else:
            left.append(one)
    return Judged(
        readings=tuple(ranking.readings(left, near, models, evidence, words_now)),
        kept=tuple(
            (one.key, text)
            for one in left
            for text in kept_anew(*one.edit)
            if models.get(one.file) and not one.last.startswith("forward")
        ),
        tables=tuple(one for one in tables if near.near(one)[0] != "apart"),
        closed=(
            *closed,
            *(
                (one.key, "a list of names, apart from all that is cited")
                for one in tables
                if near.near(one)[0] == "apart"
            ),
        ),
    )


def _closed(
    one: Difference,
    near: Cited,
    live: frozenset[str],
    words: reach.Mentions,
    evidence: Evidence,
) -> str:
    if (evidence.suspicion(one) or 0) > _STRONG:
        return one.closed
    if one.file not in near.known and not one.was:
        return _NEW_FILE
    if one.file == "envs.py" and not one.name.count("."):
        return _VARIABLES
    how = near.near(one)[0]
    if one.how == "went":
        return "" if how == "named" else one.closed or _WENT
    if one.closed:
        return one.closed
    is_known = one.key in words and one.name
    is_live = one.key.rstrip(".") in live or not is_known
    return "" if is_live or how == "named" else _UNREACHED


_NAME = re.compile(r"'([^']*)'|\"([^\"]*)\"|([A-Za-z_][\w.]*)")


def came_and_went(one: Difference) -> tuple[list[str], list[str]]:
    """Return the names that came into a list of names, and those that went."""
    old, new = (dict.fromkeys(_names(each.text for each in part)) for part in one.edit)
    return [name for name in new if name not in old], [
        name for name in old if name not in new
    ]


def _names(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        for single, double, plain in _NAME.findall(text.partition("=")[2]):
            yield single or double or plain
