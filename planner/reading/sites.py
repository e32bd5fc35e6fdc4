"""Where the arguments of a start stand in a text, and how each is changed there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import groupby, islice, pairwise
from typing import Any, TypeVar

from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.reading.passage import Edit
from planner.reading.scripts.shell import Word
from planner.values import frozen

_Found = TypeVar("_Found")
_MOST_STARTS = 200
"""In one text: each of them sees all variables of its text."""
_JOINS = ("eval", "ssh")
"""Programs whose words a shell reads again."""
_BLANKS = re.compile(r"(?:\s|\\[nrt]?|[\^`])*+")
"""Between two words of a command, escaped in a quoted text or not."""


@frozen
class Site:
    """One argument where it is written."""

    name: str
    """As vLLM spells it in Python; `model` for the model."""
    value: Any
    """Typed as vLLM types it; None where a variable leaves it open."""
    replace: Callable[[object], list[Edit]]
    """Writes another value in its place."""
    remove: Callable[[], list[Edit]]
    path: tuple[str, ...] = ()
    """Names inside a table: ("method",) of `--speculative-config.method`."""
    variables: tuple[str, ...] = ()
    """Variables whose values the text does not tell."""
    written: str = ""
    """The flag or name as it is written."""
    is_appended: bool = False
    """Whether the value joins a list: `--flag+ value`."""
    at: tuple[tuple[int, int], ...] = ()
    """Characters of the whole text that name and value come from."""


@frozen
class Start:
    """One start of vLLM as a text holds it."""

    sites: tuple[Site, ...]
    add: Callable[[str, object], list[Edit]]
    """Writes an argument that the text does not have."""
    entrypoint: str = "serve"
    env: Mapping[str, Site] = field(default_factory=dict)
    version: Site | None = None
    """The release, such as an image's tag; its value has no leading v."""
    gpu: str | GPU | None = None
    """The GPU that the text names."""
    gpus: int | None = None
    """GPUs that the text grants."""
    devices: tuple[str, ...] = ()
    """Which GPUs of its machine they are, by number or id; empty: any."""
    trainer: str = ""
    """The framework that trains on the same GPUs; empty: none does."""
    shown: str = ""
    """What the text calls it: a container's or a service's name."""
    notes: tuple[str, ...] = ()
    """What was left aside, and why, in sentences."""
    open: tuple[str, ...] = ()
    """What the text leaves open, in sentences."""
    open_at: tuple[tuple[int, int], ...] = ()
    """Characters of the whole text that stand for words which it does not tell."""


@frozen
class WordList:
    """The words of a command, or the items of a list of words, with their places."""

    words: tuple[Word, ...]
    spans: tuple[tuple[int, int], ...]
    """What goes with each word when it is removed: the space or the dash before it; of
    words with commas between them, the words alone."""
    before_flag: str = " "
    before_value: str = " "
    """What stands before another word in this list."""
    has_commas: bool = False
    is_joined: bool = False
    """Whether flags are written --flag=value."""
    is_closed: bool = False
    """Whether no word is added here."""
    write: Callable[[str], str] | None = None
    """Writes another word; None: as the word before it is written."""
    by_hand: Callable[[], PlannerError] | None = None
    """Why none of its words is taken out, where that is so."""
    lists: Mapping[int, WordList] = field(default_factory=dict)
    """The list that each word stands in, by where its span ends; else this one."""

    def replace(self, first: int, last: int, values: Sequence[str]) -> list[Edit]:
        """Return the edits that put `values` in the place of a flag and its values.

        Words that stay the same are not written again.
        """
        old = self.words[first:last]
        edits = [
            word.replaced(value)
            for word, value in zip(old, values, strict=False)
            if word.value != value
        ]
        if len(values) < len(old):
            edits += self.remove(first + len(values), last)
        elif len(values) > len(old):
            edits += self.insert(last - 1, values[len(old) :], is_flag=False)
        return edits

    def remove(self, first: int, last: int) -> list[Edit]:
        """Return the edits that take out words, `last` excluded."""
        several = groupby(range(first, last), key=lambda at: id(self._list_at(at)))
        runs = [[*run] for _, run in several]
        return [edit for run in runs for edit in self._taken_out(run[0], run[-1] + 1)]

    def _list_at(self, at: int) -> WordList | None:
        """Return the list that a word stands in; None where there is no word."""
        if not 0 <= at < len(self.words):
            return None
        return self.lists.get(self.spans[at][1], self)

    def _taken_out(self, first: int, last: int) -> list[Edit]:
        """Take out words of one list, with the comma before or behind them."""
        own, spans = self._list_at(first) or self, self.spans[first:last]
        if own.by_hand is not None:
            raise own.by_hand()
        start, end = spans[0][0], spans[-1][1]
        is_one = all(before[1] == span[0] for before, span in pairwise(spans))
        if own.has_commas and self._list_at(first - 1) is own:
            start = self.spans[first - 1][1]
        elif own.has_commas and self._list_at(last) is own:
            end = self.spans[last][0]
        elif not own.has_commas and not is_one:
            return [Edit(start=begin, end=stop, text="") for begin, stop in spans]
        return [Edit(start=start, end=end, text="")]

    def insert(
        self, after: int, values: Sequence[str], *, is_flag: bool = True
    ) -> list[Edit]:
        """Return the edit that adds a flag and its values, or further values.

        Raises:
            PlannerError: where the text has no list to add to.
        """
        if not values:
            return []
        lists = [self._list_at(at) or self for at in range(after + 1)]
        places = [at for at, one in enumerate(lists) if not one.is_closed]
        if not places or not self.words:
            said = PlannerError("The text has no list of arguments to add to.")
            raise next((one.by_hand() for one in lists if one.by_hand), said)
        own, word = lists[places[-1]], self.words[places[-1]]
        place = self.spans[places[-1]][1]
        if is_flag and word.via is not None and own.write is None:
            word = word.via  # the variable may be set on a condition
            place = word.end
        if is_flag and own.is_joined and len(values) == len(("flag", "value")):
            values = ["=".join(values)]
        leads = [own.before_flag if is_flag else own.before_value]
        leads += [own.before_value] * (len(values) - 1)
        write = own.write or word.write
        pairs = zip(leads, values, strict=True)
        text = "".join(before + write(value) for before, value in pairs)
        return [Edit(start=place, end=place, text=text)]


def not_too_many(found: Iterable[_Found]) -> list[_Found]:
    """Return starts; none after the first that are too many is looked for.

    Raises:
        PlannerError: for more than 200.
    """
    first = list(islice(found, _MOST_STARTS + 1))
    if len(first) > _MOST_STARTS:
        raise PlannerError(
            f"The text holds more than {_MOST_STARTS} starts of vLLM, the most that "
            "are read. Cut out the ones to plan."
        )
    return first


def joined_lists(lists: Sequence[WordList]) -> WordList:
    """Return lists that follow each other, such as command and args, as one."""
    own = {span[1]: one.lists.get(span[1], one) for one in lists for span in one.spans}
    return WordList(
        words=tuple(word for one in lists for word in one.words),
        spans=tuple(span for one in lists for span in one.spans),
        lists=own,
    )


def shell_list(words: Sequence[Word], text: str) -> WordList:
    """Return the words of a shell command; `text` is the whole text."""
    if words[0].value in _JOINS:
        words = [_read_twice(word) for word in words]
    places = [_place(word) for word in words]
    gaps = [
        text[before[1] : place[0]]
        for (before, place), word in zip(pairwise(places), words[1:], strict=True)
        if word.value.startswith("-")
    ]
    return WordList(
        words=tuple(words),
        spans=tuple(_spans(places, text)),
        before_flag=_continued(gaps),
    )


def _read_twice(word: Word) -> Word:
    """Return a word in whose place only a word without quotes is written."""

    def write(value: str) -> str:
        if shlex.quote(value) != value:
            raise PlannerError(
                f"{value[:80]!r} needs quotes that are read twice in this command. "
                "Change it by hand."
            )
        return word.write(value)

    via = None if word.via is None else _read_twice(word.via)
    return replace(word, write=write, via=via)


def _place(word: Word) -> tuple[int, int]:
    """Return where a command has a word; it may be a variable as a whole."""
    via = word.via
    one = word if via is None or via.value != word.value else via
    return one.start, one.end


def _spans(places: Sequence[tuple[int, int]], text: str) -> Iterator[tuple[int, int]]:
    """Yield each word's place with the blanks before it.

    One that stands in a variable's value, or after a redirection, is alone.
    """
    yield places[0]
    for before, (start, end) in pairwise(places):
        is_next = _BLANKS.fullmatch(text, before[1], start)
        yield (before[1] if is_next else start), end


def _continued(gaps: Sequence[str]) -> str:
    """Return what stands before a flag: a continued line where the text has those.

    In a folded text of YAML a line continues without a backslash.
    """
    usual = [gap for gap in gaps if gap.strip() in ("\\", "\\\\")]
    folded = [gap for gap in gaps if "\n" in gap and not gap.strip()]
    return (usual or folded or [" "])[-1]


def merged(sites: Iterable[Site]) -> dict[str, Any]:
    """Return the values by name; of a name that stands twice, the last one's.

    Parts of a table are put together: `--compilation-config.mode 3` beside `-cc {...}`.
    """
    values: dict[str, Any] = {}
    for site in sites:
        if site.value is None:
            continue
        if not site.path:
            values[site.name] = site.value
            continue
        table = values.get(site.name)
        values[site.name] = _put(
            table if isinstance(table, Mapping) else {}, site.path, site
        )
    return values


def _put(table: Mapping[str, Any], path: tuple[str, ...], site: Site) -> dict[str, Any]:
    name, *rest = path
    old = table.get(name)
    if rest:
        inner = old if isinstance(old, Mapping) else {}
        return {**table, name: _put(inner, tuple(rest), site)}
    if site.is_appended:
        return {**table, name: [*(old if isinstance(old, list) else []), site.value]}
    return {**table, name: site.value}
