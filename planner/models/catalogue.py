"""The bundled models: facts of published config files, for use without a network.

`planner/data/models.jsonl` holds one model per line: its name, where the facts come
from, whether that is certain, and what of its config.json bears on memory
(`tools/build_catalogue.py`).

`pack` and `unpack` shorten lists of module names, of which quantised checkpoints have
tens of thousands that differ in their numbers only: braces hold the numbers, as in
`layers.{0-59}.mlp.experts.{0-127}.w{1-3}`, and every combination is meant.

`rank` orders names by what the user types. Every word typed must be found in the name;
best first: the whole model name, its beginning, the beginning of one of its words,
anywhere, and last the letters in order with others between. Separators do not matter.
The page ranks the same (`widgets/static/ranking.js`): `tests/data/ranking_cases.json`
tests both.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from typing import Any

from planner.data import DATA
from planner.late import late
from planner.models.files import ModelFiles

_DATA = DATA / "models.jsonl"
_CLOSEST = "difflib:get_close_matches"
_NEAR = 0.5

_NUMBER = re.compile(r"(?<![0-9])(0|[1-9][0-9]*)(?![0-9])")
_BRACES = re.compile(r"\{([0-9,-]+)\}")

_WORD = re.compile(r"[0-9]+|[a-z]+")
_SIGNS = re.compile(r"[-_. ]+")

_WHOLE, _BEGINS, _OWNER_BEGINS, _WORD_BEGINS, _HOLDS, _LETTERS = range(6)
_MISS = 1_000_000

Row = tuple[frozenset[int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One bundled model, as a list shows it."""

    name: str
    """Such as meta-llama/Llama-3.1-8B-Instruct."""
    num_parameters: int | None
    """As the publisher counts them; None when not known."""
    is_certain: bool
    """False when the facts are a reconstruction rather than the published file."""
    source: str


def entries() -> tuple[Entry, ...]:
    """Return every bundled model, sorted by name."""
    return tuple(entry for entry, _ in _models().values())


def configs() -> tuple[tuple[Entry, Mapping[str, Any]], ...]:
    """Return every bundled model with its config.json as the file keeps it."""
    return tuple((entry, row["config"]) for entry, row in _models().values())


def find(text: str) -> ModelFiles | None:
    """Return the model of this name, or None.

    The name may differ in case, and its organisation may be omitted where that is
    unambiguous. The same name returns the same object.
    """
    name = _names().get(text) or _names().get(text.lower())
    return _files(name) if name else None


def search(text: str, limit: int = 20) -> tuple[Entry, ...]:
    """Return models whose names contain the typed words, best first."""
    found = rank(text, _search_index())
    return tuple(_models()[name][0] for name in found[:limit])


def nearest(text: str, limit: int = 3) -> tuple[str, ...]:
    """Return the names closest to one that was not found."""
    wanted = text.lower()
    key = str.lower if "/" in wanted else _model_part
    by_key = {key(name): name for name in reversed(tuple(_models()))}
    near: list[str] = late(_CLOSEST, wanted, by_key, n=limit, cutoff=_NEAR)
    return tuple(by_key[match] for match in near)


def entry_line(entry: Entry) -> str:
    """Write an entry as one line of a list.

    >>> entry_line(
    ...     Entry(name="org/m", num_parameters=8 * 10**9, is_certain=True, source="")
    ... )
    'org/m                                                        8.0 B  published'
    """
    count = entry.num_parameters
    size = "" if count is None else f"{count / 10**9:,.1f} B"
    basis = "published" if entry.is_certain else "reconstructed"
    return f"{entry.name:55} {size:>10}  {basis}"


def entry_dict(entry: Entry) -> dict[str, Any]:
    """Return an entry for JSON."""
    return asdict(entry)


def _model_part(name: str) -> str:
    return name.rpartition("/")[2].lower()


@cache
def _models() -> Mapping[str, tuple[Entry, Mapping[str, Any]]]:
    rows = map(json.loads, _DATA.read_text("utf-8").splitlines())
    return {row["id"]: (_entry(row), row) for row in rows}


def _entry(row: Mapping[str, Any]) -> Entry:
    return Entry(
        name=row["id"],
        num_parameters=row.get("parameters"),
        is_certain=row["certain"],
        source=row["source"],
    )


@cache
def _names() -> Mapping[str, str]:
    """Return every unambiguous way to write a bundled name."""
    short: dict[str, str | None] = {}
    for name in _models():
        part = _model_part(name)
        short[part] = None if part in short else name
    names = {part: name for part, name in short.items() if name}
    names.update((name.lower(), name) for name in _models())
    names.update((name, name) for name in _models())
    return names


@cache
def _files(name: str) -> ModelFiles:
    _, row = _models()[name]
    return ModelFiles(
        name=name,
        config=_with_names(row["config"]),
        hf_quant_config=_with_names(row.get("hf_quant_config")),
        preprocessor_config=row.get("preprocessor_config"),
        num_parameters=row.get("parameters"),
        checkpoint_bytes=row.get("checkpoint_bytes"),
        source=f"bundled catalogue: {row['source']}",
        is_certain=row["certain"],
    )


def _with_names(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Expand the lists of modules that the file keeps as patterns."""
    if not isinstance(value, dict):
        return value
    return dict(_item(key, inner) for key, inner in value.items())


def _item(key: str, value: Any) -> tuple[str, Any]:  # noqa: ANN401 - any JSON
    if key == "quantized_layers{}":
        return key[:-2], _layers(value)
    if key.endswith("{}"):
        return key[:-2], unpack(value)
    return key, _with_names(value)


def _layers(packed: Iterable[tuple[Any, list[str]]]) -> dict[str, Any]:
    return {name: value for value, patterns in packed for name in unpack(patterns)}


def can_pack(names: Iterable[str]) -> bool:
    """Whether the names contain no braces (as regular expressions do)."""
    return not any("{" in name or "}" in name for name in names)


def pack(names: Iterable[str]) -> list[str]:
    """Return patterns that match exactly these names; the order is not kept."""
    rows: defaultdict[tuple[str, ...], set[tuple[int, ...]]] = defaultdict(set)
    for name in set(names):
        pieces = _NUMBER.split(name)
        rows[tuple(pieces[::2])].add(tuple(int(piece) for piece in pieces[1::2]))
    return sorted(
        _pattern(words, row) for words, found in rows.items() for row in _merge(found)
    )


def unpack(patterns: Iterable[str]) -> list[str]:
    """Return the names that the patterns match.

    >>> unpack(["lm_head", "layers.{0-1,4}.mlp"])
    ['lm_head', 'layers.0.mlp', 'layers.1.mlp', 'layers.4.mlp']
    """
    return [name for pattern in patterns for name in _expand(pattern)]


def _expand(pattern: str) -> Iterable[str]:
    pieces = _BRACES.split(pattern)
    if len(pieces) == 1:
        return (pattern,)
    choices = [
        [str(number) for number in _numbers(piece)] if index % 2 else [piece]
        for index, piece in enumerate(pieces)
    ]
    return map("".join, product(*choices))


def _numbers(ranges: str) -> Iterable[int]:
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _merge(found: set[tuple[int, ...]]) -> list[Row]:
    """Join number tuples that differ in one place only, place by place."""
    rows: list[Row] = [tuple(frozenset((n,)) for n in numbers) for numbers in found]
    for place in reversed(range(len(rows[0]))):
        joined: defaultdict[tuple[Row, Row], set[int]] = defaultdict(set)
        for row in rows:
            joined[row[:place], row[place + 1 :]] |= row[place]
        rows = [
            (*before, frozenset(numbers), *after)
            for (before, after), numbers in joined.items()
        ]
    return rows


def _pattern(words: tuple[str, ...], row: Row) -> str:
    pieces = [words[0]]
    for numbers, word in zip(row, words[1:], strict=True):
        pieces += [_ranges(numbers), word]
    return "".join(pieces)


def _ranges(numbers: frozenset[int]) -> str:
    if len(numbers) == 1:
        return str(*numbers)
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = (str(a) if a == b else f"{a}-{b}" for a, b in ranges)
    return "{" + ",".join(texts) + "}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A name taken apart for searching."""

    name: str
    whole: str
    """owner/model, lower case, without signs."""
    model: str
    """The part after the last slash, lower case, without signs."""
    starts: frozenset[int]
    """Where words begin in `whole`."""

    @classmethod
    def of(cls, name: str) -> Named:
        """Take a name apart."""
        whole, starts = "", set()
        for piece in re.split(r"([-_. ]+|/)", name.lower()):
            if _SIGNS.fullmatch(piece):
                continue
            starts |= {len(whole) + word.start() for word in _WORD.finditer(piece)}
            whole += piece
        model = whole.rpartition("/")[2]
        return cls(name=name, whole=whole, model=model, starts=frozenset(starts))


def rank(text: str, names: Sequence[Named]) -> tuple[str, ...]:
    """Return the names that contain every word of `text`, best first.

    Equally good ones are ordered by length (a plain model before its variants), then
    by name. Scattered letters count only where no name contains the words themselves.
    An empty text returns every name, in the given order.
    """
    words = [_SIGNS.sub("", word) for word in text.lower().split()]
    words = [word for word in words if word]
    if not words:
        return tuple(named.name for named in names)
    found = [(_score(words, named), len(named.name), named.name) for named in names]
    found = [row for row in found if row[0] < _MISS] or [
        (_LETTERS, len(named.name), named.name)
        for named in names
        if all(_has_letters(word, named.whole) for word in words)
    ]
    return tuple(name for _, _, name in sorted(found))


def _score(words: list[str], named: Named) -> int:
    return sum(_word_score(word, named) for word in words)


def _word_score(word: str, named: Named) -> int:
    if word in (named.model, named.whole):
        return _WHOLE
    if named.model.startswith(word):
        return _BEGINS
    if named.whole.startswith(word):
        return _OWNER_BEGINS
    place = named.whole.find(word)
    while place >= 0:
        if place in named.starts:
            return _WORD_BEGINS
        following = named.whole.find(word, place + 1)
        if following < 0:
            return _HOLDS
        place = following
    return _MISS


def _has_letters(word: str, whole: str) -> bool:
    """Whether the letters of `word` appear in their order."""
    rest = iter(whole)
    return all(letter in rest for letter in word)


@cache
def _search_index() -> tuple[Named, ...]:
    return tuple(map(Named.of, _models()))
