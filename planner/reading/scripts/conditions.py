"""Which branches of a script run, as far as its own text tells.

A variable that nothing in the text sets is empty: the script as it stands, started
without arguments.

Source: POSIX.1-2017 `test`, `XCU 2.9.4 Compound Commands`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from planner.reading.scripts.word import Word

_OF_OUTSIDE = re.compile(r"\$(?:\w+|[@*]|\{[\w@*]+(?:[^\w{}][^{}]*)?\})\Z")
_COUNT = re.compile(r"\$\{?#\}?\Z")
_TEXTS: Mapping[str, Callable[[str], bool]] = {"-n": bool, "-z": operator.not_}
_NUMBERS: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-gt": operator.gt,
    "-ge": operator.ge,
    "-lt": operator.lt,
    "-le": operator.le,
}
_LONGEST, _MOST_STARS = 200, 2
_SAID = dict.fromkeys(("", "0", "false", "no", "off", "none"), False) | dict.fromkeys(
    ("1", "true", "yes", "on"), True
)
"""What the one argument of a function says that tests it: `is_on "$FP8"`."""


def told(word: Word) -> str | None:
    """Return a word's value; None where it is decided when the script runs."""
    if not word.variables:
        return word.value
    if _COUNT.match(word.value):
        return "0"
    return "" if _OF_OUTSIDE.match(word.value) else None


def holds(words: Sequence[Word]) -> bool | None:
    """Return whether a condition holds; None where the text does not tell."""
    names = [word.value for word in words]
    if names[:1] == ["!"]:
        inner = holds(words[1:])
        return None if inner is None else not inner
    if names[:1] in (["true"], ["false"]):
        return names[0] == "true"
    is_test = bool(names) and names[0] in ("[", "[[", "test")
    first = 1 if is_test or names[-1:] != ["]]"] else 0  # behind `&&` in `[[ ... ]]`
    values = [told(word) for word in words[first:] if word.value not in ("]", "]]")]
    if is_test or not first:
        return _test(values)
    said = [_SAID.get((value or "").lower()) for value in values if value is not None]
    return said[0] if len(said) == len(values) == 1 else None


def _test(values: Sequence[str | None]) -> bool | None:
    match values:
        case ["!", *rest]:
            inner = _test(rest)
            return None if inner is None else not inner
        case [("-n" | "-z") as name]:  # of a variable without quotes that is empty
            return name == "-z"
        case [("-n" | "-z") as name, str(value)]:
            return _TEXTS[name](value)
        case [str(left), ("=" | "==" | "!=") as name, str(right)]:
            return fits(left, right) == (name != "!=")
        case [str(left), str(name), str(right)] if name in _NUMBERS:
            return _compared(left, name, right)
    return None


def _compared(left: str, name: str, right: str) -> bool | None:
    if not (left.isdecimal() and right.isdecimal()) or len(left + right) > _LONGEST:
        return None
    return _NUMBERS[name](int(left), int(right))


def fits(value: str, pattern: str) -> bool:
    """Return whether a value has the form of a pattern of `case`."""
    if pattern.count("*") > _MOST_STARS or len(pattern) > _LONGEST:
        return value == pattern
    return fnmatchcase(value[:_LONGEST], pattern)


def together(
    left: bool | None,
    joined: str,
    right: bool | None,
) -> bool | None:
    """Return what two conditions come to with `&&` or `||` between them."""
    decides = joined == "||"
    if decides in (left, right):
        return decides
    return None if None in (left, right) else not decides


class _Branch:
    """One `if` or `case`, at the branch that is read."""

    def __init__(self, condition: bool | None) -> None:
        self.holds = condition
        self.is_decided = condition is True
        self.is_open = condition is None
        """Whether a branch before may have run."""
        self.undo: dict[str, Callable[[], None]] = {}
        """What sets variables back once a branch that does not run ends."""

    def set_back(self) -> None:
        for set_back in self.undo.values():
            set_back()
        self.undo.clear()


class Branches:
    """The branches of `if` and `case` around a command, the innermost last."""

    def __init__(self) -> None:
        """Begin outside of all."""
        self._around: list[_Branch] = []
        self._subjects: list[str | None] = []

    @property
    def is_run(self) -> bool:
        """Whether the command may run."""
        return all(one.holds is not False for one in self._around)

    @property
    def is_in_case(self) -> bool:
        """Whether patterns are read here."""
        return bool(self._subjects)

    def set_back_later(
        self, name: str, saved: Callable[[], Callable[[], None]]
    ) -> None:
        """Keep what a variable was before it is set in a branch that does not run."""
        undo = [one.undo for one in self._around if one.holds is False][-1]
        if name not in undo:
            undo[name] = saved()

    def begin(self, condition: bool | None) -> None:
        """Begin `if` with its condition."""
        self._around.append(_Branch(condition))

    def turn(self, condition: bool | None) -> None:
        """Begin the next branch: it runs where none before it has."""
        for one in self._around[-1:]:
            one.set_back()
            one.holds = False if one.is_decided else condition
            one.is_decided |= condition is True
            one.is_open |= condition is None

    def otherwise(self) -> None:
        """Begin `else`."""
        self.turn(None if self._around and self._around[-1].is_open else True)

    def end(self) -> None:
        """End the innermost `if`."""
        if self._around:
            self._around.pop().set_back()

    def begin_case(self, subject: Word) -> None:
        """Begin `case` with what its patterns are compared with."""
        self._subjects.append(told(subject))
        self.begin(condition=False)

    def turn_to(self, patterns: str) -> None:
        """Begin the branch of patterns: `a|b`."""
        subject = self._subjects[-1]
        written = [one.strip().strip("\"'") for one in patterns.split("|")]
        is_any = None if subject is None else any(fits(subject, p) for p in written)
        self.turn(is_any)

    def end_case(self) -> None:
        """End the innermost `case`."""
        if self._subjects:
            self._subjects.pop()
            self.end()
