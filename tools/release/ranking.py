"""What is left for a person, in the order in which to read it.

First comes what explains the cases that are answered otherwise, what most rules of the
planner rest on, what says most of memory and what serves most of the bundled models.
Where cases suspect some, they take turns with the others: a feature without a case has
no other way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest
from math import log2
from typing import TypeVar

from tools.release.differing import Difference
from tools.release.evidence import Evidence
from tools.release.reach import Mentions
from tools.release.statements import KINDS
from tools.release.symbols import Citation, Sources
from tools.release.together import defined, edit_of, is_telling, together

T = TypeVar("T")
Rules = Mapping[str, Collection[str]]
"""The planner's rules that rest on something."""
NEAR = {
    "named": 12,
    "inside": 9,
    "called": 9,
    "namesake": 4,
    "beside": 4,
    "apart": 0,
}
"""How near a body is to what the planner cites, with what that weighs: cited by name,
in a class that is cited, called by such a body, perhaps called by one (other functions
have that name too), in a file with one, apart."""
_MOST_NAMESAKES = 2
_OF_MEMORY = tuple(
    f"planner/{room}/" for room in ("memory", "models", "planning", "engine")
)
_OTHER_RULE = 0.25
"""What a rule of the planner weighs that decides no figure, such as a lesson's."""
_MOST_OF_RULES = 5.0
_SUSPECTED = 12.0
"""What evidence weighs: as much as a name that the planner cites."""
_MOST_KINDS = 3
"""The weightiest count: a large body has some of each."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A body that a person opens."""

    body: Difference
    near: str
    rules: tuple[str, ...]
    """Of the planner, that rest on it."""
    models: int
    """How many bundled models its file serves."""
    suspicion: float | None
    """What cases say of it, as `Evidence.suspicion`."""
    alike: tuple[Difference, ...] = ()
    """Bodies with the same edit, which need not be opened."""
    beside: tuple[Difference, ...] = ()
    """Others that are read with it: what it calls alone, and its twins."""

    @property
    def key(self) -> str:
        """The body, as "file::name"."""
        return self.body.key

    @property
    def weight(self) -> float:
        """What it is ordered by."""
        count = counted(self.rules)
        return weight(self.near, count, self.kinds, self.models, self.suspicion)

    @property
    def kinds(self) -> list[str]:
        """What of memory its edits are about, the weightiest first."""
        found = {kind for body in self.bodies for kind in body.kinds}
        return [kind for kind in KINDS if kind in found]

    @property
    def bodies(self) -> tuple[Difference, ...]:
        """What a person opens."""
        return self.body, *self.beside

    @property
    def statements(self) -> int:
        """How many statements went or came."""
        return sum(len(part) for body in self.bodies for part in body.edit)


class Cited:
    """What the planner cites in a release, and how near other bodies are to it."""

    def __init__(self, places: Rules, words: Mentions) -> None:
        """Take the rules of each cited "file::symbol", and each body's words."""
        self.places = places
        self.files: dict[str, set[str]] = {}
        for place, rules in places.items():
            self.files.setdefault(place.partition("::")[0], set()).update(rules)
        self.known = frozenset(key.partition("::")[0] for key in words)
        self.defined = defined(words)
        self.called: dict[str, set[str]] = {}
        for key, mentioned in words.items():
            rules = self._own(key)[1]
            for word in mentioned if rules else ():
                self.called.setdefault(word, set()).update(rules)

    def _own(self, key: str) -> tuple[str, Collection[str]]:
        file, _, name = key.partition("::")
        if rules := self.places.get(key.rstrip(".")):
            return ("named", rules) if name else ("apart", ())
        while "." in name:
            name = name.rpartition(".")[0]
            if rules := self.places.get(f"{file}::{name}"):
                return "inside", rules
        return "apart", ()

    def near(self, one: Difference) -> tuple[str, tuple[str, ...]]:
        """Return how near a body is, and the rules that rest on what it is near to."""
        key = one.was or one.key
        near, rules = self._own(key)
        if near != "apart":
            return near, tuple(sorted(rules))
        file, _, name = key.partition("::")
        # Who calls a class runs its constructor.
        owner, _, last = name.removesuffix(".__init__").rstrip(".").rpartition(".")
        is_class = name.endswith(".__init__") and not owner
        # Names of one word, such as `forward`, are those of too many methods.
        is_said = (is_class or is_telling(last)) and last in self.called
        if is_said and file in self.known:
            is_one = self.defined[last] <= _MOST_NAMESAKES
            if is_one or not is_class:
                rules = self.called[last]
                return "called" if is_one else "namesake", tuple(sorted(rules))
        if file in self.files:
            return "beside", tuple(sorted(self.files[file]))
        return "apart", ()


def places_of(cited: Iterable[Citation], release: Sources) -> dict[str, list[str]]:
    """Return for each cited "file::symbol" of a release the rules that rest on it.

    What is cited in a file that this release has not is looked for in all of them.
    """
    found: dict[str, list[str]] = {}
    for one in cited:
        place = release.find(one) or (
            release.find(Citation(path="", symbol=one.symbol, rule=one.rule))
            if one.symbol
            else None
        )
        if place is not None:
            rules = found.setdefault(f"{place[0]}::{place[1]}", [])
            if one.rule not in rules:
                rules.append(one.rule)
    return found


def readings(
    found: Iterable[Difference],
    cited: Cited,
    models: Mapping[str, int],
    evidence: Evidence,
    words: Mentions,
) -> list[Reading]:
    """Return what is left for a person, in the order in which to read it.

    Args:
        found: bodies that no machine closed.
        cited: what the planner cites in the release before.
        models: how many bundled models each file serves.
        evidence: what the cases of both releases say.
        words: what each function of the new release mentions.
    """
    made = []
    for bodies in together(list(found), words):
        alone = {
            one.key: Reading(
                body=one,
                near=cited.near(one)[0],
                rules=cited.near(one)[1],
                models=models.get(one.file, 0),
                suspicion=evidence.suspicion(one),
            )
            for one in bodies
        }
        made.append(_one_of(sorted(alone.values(), key=_order)))
    return in_order(made, _order, lambda one: one.suspicion)


def _one_of(several: list[Reading]) -> Reading:
    """Return one reading of several, the weightiest first."""
    first = several[0]
    edits = {edit_of(first.body)}
    alike: list[Difference] = []
    beside: list[Difference] = []
    for one in several[1:]:
        edit = edit_of(one.body)
        (alike if edit in edits else beside).append(one.body)
        edits.add(edit)
    said = [one.suspicion for one in several]
    return Reading(
        body=first.body,
        near=max((one.near for one in several), key=lambda near: NEAR[near]),
        rules=tuple(sorted({rule for one in several for rule in one.rules})),
        models=max(one.models for one in several),
        # What no case ran is not cleared by what ran.
        suspicion=max(filter(None, said), default=None if None in said else 0.0),
        alike=tuple(alike),
        beside=tuple(beside),
    )


def _order(one: Reading) -> tuple[float, str]:
    return -one.weight, one.key


def in_order(
    made: Iterable[T],
    order: Callable[[T], tuple[float, str]],
    suspicion: Callable[[T], float | None],
) -> list[T]:
    """Return readings by their weight; those that cases suspect every second time."""
    every = sorted(made, key=order)
    suspected = [one for one in every if suspicion(one)]
    others = [one for one in every if not suspicion(one)]
    turns = chain.from_iterable(zip_longest(suspected, others))
    return [one for one in turns if one is not None]


def counted(rules: Iterable[str]) -> float:
    """Return how many rules rest on a body; one that decides no figure is a quarter."""
    return sum(1 if rule.startswith(_OF_MEMORY) else _OTHER_RULE for rule in rules)


def weight(
    near: str,
    rules: float,
    kinds: Iterable[str],
    models: int,
    suspicion: float | None = None,
) -> float:
    """Return what a body is ordered by.

    Args:
        near: one of NEAR.
        rules: how many rest on it, as `counted`.
        kinds: of its edit, of KINDS.
        models: how many bundled models it serves.
        suspicion: as `Evidence.suspicion`.
    """
    by_rules = min(_MOST_OF_RULES, log2(1 + rules))
    what = sum(sorted((KINDS[kind] for kind in kinds), reverse=True)[:_MOST_KINDS])
    said = NEAR[near] + by_rules + what + log2(1 + models) / 2
    return said + _SUSPECTED * (suspicion or 0)
