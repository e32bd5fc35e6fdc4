"""The variables that commands of a text see, held once for all of its commands.

A text can set thousands of variables and run thousands of commands: a table of its own
for each of them would need the square of that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

_Value = TypeVar("_Value")
_Made = TypeVar("_Made")
_History = Mapping[str, Sequence[tuple[int, _Value]]]
"""Of each name, when it was set, and to what; in the order of time."""


class Until(Mapping[str, _Value]):
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

    def __len__(self) -> int:
        """Return how many names were set until then."""
        return sum(1 for _ in self)


class Over(Mapping[str, _Value]):
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

    def __len__(self) -> int:
        """Return the number of names."""
        return sum(1 for _ in self)


class Made(Mapping[str, _Made]):
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

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._source)
