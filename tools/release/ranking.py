"""What is left for a person, in the order in which to open it.

A reading is a function, or a class with those of its bodies that changed. First comes
what most rules of the planner rest on, what says most of memory and what serves most of
the bundled models.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import log2

from tools.release.differing import Difference
from tools.release.reach import Mentions
from tools.release.statements import KINDS
from tools.release.symbols import Citation, Sources

Rules = Mapping[str, Collection[str]]
"""The planner's rules that rest on something."""
NEAR = {"named": 12, "inside": 9, "called": 5, "beside": 4, "apart": 0}
"""How near a body is to what the planner cites, with what that weighs: cited by name,
in a class that is cited, called by such a body, in a file with one, apart."""
_OF_MEMORY = tuple(
    f"planner/{room}/" for room in ("memory", "models", "planning", "engine")
)
_OTHER_RULE = 0.25
"""What a rule of the planner weighs that decides no figure, such as a lesson's."""
_MOST_OF_RULES = 5.0
_MOST_KINDS = 3
"""The weightiest count: a large body has some of each."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a person reads at once."""

    key: str
    """The function or class, as "file::name"."""
    bodies: tuple[Difference, ...]
    """The weightiest first."""
    near: str
    rules: tuple[str, ...]
    """Of the planner, that rest on the weightiest of them."""
    models: int
    """How many bundled models its file serves."""

    @property
    def weight(self) -> float:
        """What it is ordered by: the weight of its weightiest body."""
        count = counted(self.rules)
        return weight(self.near, count, self.bodies[0].kinds, self.models)

    @property
    def kinds(self) -> list[str]:
        """What of memory its edits are about, the weightiest first."""
        every = {kind for one in self.bodies for kind in one.kinds}
        return [kind for kind in KINDS if kind in every]

    @property
    def statements(self) -> int:
        """How many statements went or came."""
        return sum(len(part) for one in self.bodies for part in one.edit)


class Cited:
    """What the planner cites in a release, and how near other bodies are to it."""

    def __init__(self, places: Rules, words: Mentions) -> None:
        """Take the rules of each cited "file::symbol", and each body's words."""
        self.places = places
        self.files: dict[str, set[str]] = {}
        for place, rules in places.items():
            self.files.setdefault(place.partition("::")[0], set()).update(rules)
        self.known = frozenset(key.partition("::")[0] for key in words)
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
        last = name.rstrip(".").rpartition(".")[2]
        # Names of one word, such as `forward`, are those of too many methods.
        is_telling = "_" in last.strip("_") and not last.startswith("__")
        if is_telling and last in self.called and file in self.known:
            return "called", tuple(sorted(self.called[last]))
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
    found: Iterable[Difference], cited: Cited, models: Mapping[str, int]
) -> list[Reading]:
    """Return what is left for a person, the weightiest first.

    Args:
        found: bodies that no machine closed.
        cited: what the planner cites in the release before.
        models: how many bundled models each file serves.
    """
    groups: dict[str, list[Difference]] = {}
    every = list(found)
    heads = dict(_heads(every))
    for one in every:
        groups.setdefault(heads.get(one.key, _group(one)), []).append(one)
    made = (_reading(key, bodies, cited, models) for key, bodies in groups.items())
    return sorted(made, key=lambda one: (-one.weight, one.key))


def _group(one: Difference) -> str:
    """Return the class of a body, or itself."""
    first, point, _rest = one.name.partition(".")
    return f"{one.file}::{first}" if point else one.key


def _heads(every: list[Difference]) -> Iterator[tuple[str, str]]:
    """Yield new functions of a file that only one class or function of it calls."""
    by_file: dict[str, list[Difference]] = {}
    for one in every:
        by_file.setdefault(one.file, []).append(one)
    for bodies in by_file.values():
        new = [one for one in bodies if one.how == "came" and "." not in one.name]
        texts = {
            one.key: " ".join(each.text for each in one.edit[1])
            for one in bodies
            if one not in new
        }
        groups = {one.key: _group(one) for one in bodies}
        for one in new:
            callers = {groups[key] for key, text in texts.items() if one.name in text}
            if len(callers) == 1:
                yield one.key, callers.pop()


def _reading(
    key: str, bodies: list[Difference], cited: Cited, models: Mapping[str, int]
) -> Reading:
    weighed = []
    for one in bodies:
        near, rules = cited.near(one)
        number = models.get(one.file, 0)
        what = weight(near, counted(rules), one.kinds, number)
        weighed.append((what, near, rules, number, one))
    weighed.sort(key=lambda each: (-each[0], each[4].key))
    _weight, near, rules, number, _one = weighed[0]
    return Reading(
        key=key,
        bodies=tuple(each[4] for each in weighed),
        near=near,
        rules=rules,
        models=number,
    )


def counted(rules: Iterable[str]) -> float:
    """Return how many rules rest on a body; one that decides no figure is a quarter."""
    return sum(1 if rule.startswith(_OF_MEMORY) else _OTHER_RULE for rule in rules)


def weight(near: str, rules: float, kinds: Iterable[str], models: int) -> float:
    """Return what a body is ordered by.

    Args:
        near: one of NEAR.
        rules: how many rest on it, as `counted`.
        kinds: of its edit, of KINDS.
        models: how many bundled models it serves.
    """
    by_rules = min(_MOST_OF_RULES, log2(1 + rules))
    what = sum(sorted((KINDS[kind] for kind in kinds), reverse=True)[:_MOST_KINDS])
    return NEAR[near] + by_rules + what + log2(1 + models) / 2
