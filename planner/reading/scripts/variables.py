"""The variables that commands of a text see, held once for all of its commands.

A text can set thousands of variables and run thousands of commands: a table of its own
for each of them would need the square of that.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from planner.reading.passage import Passage, together
from planner.reading.scripts.word import Word

_Value = TypeVar("_Value")
_Made = TypeVar("_Made")
_History = Mapping[str, Sequence[tuple[int, _Value]]]
"""Of each name, when it was set, and to what; in the order of time."""
_KEY = re.compile(r"\[([^\[\]]+)\]=")
_REST = ("@", "*")


class _View(Mapping[str, _Value]):
    """A table that is counted by going through it."""

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Until(_View[_Value]):
    """What was set until a time: a view of the history, which may go on.

    >>> history = {"A": [(1, "x"), (3, "y")], "B": [(3, "z")]}
    >>> dict(Until(history, 2)), dict(Until(history, 3))
    ({'A': 'x'}, {'A': 'y', 'B': 'z'})
    """

    def __init__(self, history: _History[_Value], time: int) -> None:
        """Store the history and the last time of it that counts."""
        self._history = history
        self._time = time

    def __getitem__(self, name: str) -> _Value:
        """Return the last value until then."""
        values = self._history[name]
        at = bisect_right(values, self._time, key=lambda value: value[0])
        if not at:
            raise KeyError(name)
        return values[at - 1][1]

    def __iter__(self) -> Iterator[str]:
        """Yield the names that were set until then."""
        for name, values in self._history.items():
            if values[0][0] <= self._time:
                yield name


class Over(_View[_Value]):
    """A few values before those of another table, which is not copied.

    >>> dict(Over({"A": "x"}, {"A": "y", "B": "z"}))
    {'A': 'x', 'B': 'z'}
    """

    def __init__(
        self, first: Mapping[str, _Value], others: Mapping[str, _Value]
    ) -> None:
        """Store both."""
        self._first = first
        self._others = others

    def __getitem__(self, name: str) -> _Value:
        """Return the first value of a name."""
        return self._first[name] if name in self._first else self._others[name]

    def __iter__(self) -> Iterator[str]:
        """Yield each name once, those of the other table first."""
        yield from self._others
        yield from (name for name in self._first if name not in self._others)


class Made(_View[_Made]):
    """A table whose values are made from another one's, each when it is asked for.

    >>> Made({"A": 2}, lambda name, value: name * value)["A"]
    'AA'
    """

    def __init__(
        self, source: Mapping[str, _Value], make: Callable[[str, _Value], _Made]
    ) -> None:
        """Store the table and what makes a value of a name and its value there."""
        self._source = source
        self._make = make

    def __getitem__(self, name: str) -> _Made:
        """Return the value of a name."""
        return self._make(name, self._source[name])

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self._source)


class Variables:
    """Variables, arrays and arguments, as the commands before have set them."""

    def __init__(
        self,
        passage: Passage,
        known: Mapping[str, str | Word],
        arguments: Sequence[Word] | None,
    ) -> None:
        """Begin with what is set around the script."""
        self._nothing = passage.part(0, 0)
        self._own: dict[str, Word] = {}
        self.arguments = arguments
        """`$1`, `$2` ...; None where the text does not tell them."""
        self.arrays: dict[str, list[Word]] = {}
        self.optional: set[str] = set()
        """Variables that were last set on a condition."""
        self.history: dict[str, list[tuple[int, Word]]] = {}
        self.time = 0
        self.all: Mapping[str, str | Word] = Over[str | Word](self._own, known)

    def words(self, name: str) -> Sequence[Word] | None:
        """Return the items of an array, or one value; None where it is not told."""
        if name in _REST:
            return self.arguments
        if name.isdecimal():
            return self._argument(int(name) - 1)
        if name in self.arrays:
            return self.arrays[name]
        found = self.all.get(name)
        return None if found is None else [self._word(found)]

    def set_array(self, name: str, items: list[Word], *, is_more: bool) -> None:
        """Set an array, or add items to it."""
        if is_more and name in self.arrays:
            self.arrays[name].extend(items)
        else:
            before = self.words(name) if is_more else None
            self.arrays[name] = [*(before or ()), *items]

    def saved(self, name: str) -> Callable[[], None]:
        """Return what sets a variable back to what it is now."""
        word, items = self._own.get(name), self.arrays.get(name)
        copied = None if items is None else list(items)

        def set_back() -> None:
            self._own.pop(name, None)
            self.arrays.pop(name, None)
            if word is not None:
                self._own[name] = word
            if copied is not None:
                self.arrays[name] = copied

        return set_back

    def keys(self, name: str) -> Sequence[str]:
        """Return the numbers of an array's items, or the names that they have."""
        items = enumerate(self.arrays.get(name, ()))
        named = [(at, _KEY.match(item.value)) for at, item in items]
        return [str(at) if key is None else key[1] for at, key in named]

    def _argument(self, number: int) -> Sequence[Word] | None:
        if number < 0 or self.arguments is None:
            return None
        given = self.arguments[: number + 1]
        is_open = any(
            rest in v for one in given for v in one.variables for rest in _REST
        )
        return None if is_open else given[number:]

    def _word(self, found: str | Word) -> Word:
        if isinstance(found, Word):
            return found
        passage = self._nothing.inside(found, [0] * (len(found) + 1), str)
        place = passage.places[0]
        return Word(passage=passage, start=place, end=place)

    def appended(self, name: str, word: Word) -> Word:
        """Return a word behind what its variable was: `A+=" --flag"`."""
        found = self.words(name)
        if not found:
            return word
        before, after = found[0], word.passage
        text = before.value
        after.expansion.add(len(text))
        first = before.passage
        if not self.is_certain(name):
            first = after.inside(text, [0] * (len(text) + 1), str)
        variables = (*before.variables, *word.variables)
        return replace(word, passage=together([first, after]), variables=variables)

    def is_certain(self, name: str) -> bool:
        """Return whether a value stands where it is written, whatever happens."""
        return name not in self.optional and not isinstance(self.all.get(name), str)

    def set(self, name: str, value: Word) -> None:
        """Set a variable in any case."""
        self.keep({name: value}, is_optional=False)

    def keep(self, own: Mapping[str, Word], *, is_optional: bool) -> None:
        """Set variables for all that follows."""
        self.time += 1
        (self.optional.update if is_optional else self.optional.difference_update)(own)
        for name, word in own.items():
            self.arrays.pop(name, None)
            self.history.setdefault(name, []).append((self.time, word))
            self._own[name] = word
