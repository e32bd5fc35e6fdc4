"""The bundled models: facts of published config files, for use without a network.

`planner/data/models.jsonl` holds one model per line: its name, where the facts come
from, how certain that is, and what of its config.json bears on memory
(`tools/build_catalogue.py`). A model that shares another's shape says `like` which, and
`changes` what differs; the rest is read from there.

`popular` orders them by use: first those that vLLM's recipes name, then the others,
each by downloads from the Hub (`tests/data/configs/POPULARITY.json` names the source).

`rank` orders names by what the user types. Every word typed must be found in the name;
best first: the whole model name, its beginning, the beginning of one of its words,
anywhere, and last the letters in order with others between. Separators do not matter.
The page ranks the same (`widgets/static/ranking.js`): `tests/data/ranking_cases.json`
tests both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

from planner.data import DATA
from planner.errors import close_words
from planner.models import estimates
from planner.models.files import ModelFiles, merged
from planner.models.module_names import with_names
from planner.values import frozen

_DATA = DATA / "models.jsonl"
_NEAR = 0.5
_ID = '{"id":"'
_BODY = (',"changes":', ',"config":', ',"hf_quant_config":')
"""What follows the facts that a list shows; inside a JSON string it cannot occur."""

_WORD = re.compile(r"[0-9]+|[a-z]+")
_SIGNS = re.compile(r"[-_. ]+")

_WHOLE, _BEGINS, _OWNER_BEGINS, _WORD_BEGINS, _HOLDS, _LETTERS = range(6)
_MISS = 1_000_000


@frozen
class Entry:
    """One bundled model, as a list shows it."""

    name: str
    """Such as meta-llama/Llama-3.1-8B-Instruct."""
    num_parameters: int | None
    """As the publisher counts them; None when not known."""
    is_certain: bool
    """True for a published file as it stands, nothing else."""
    source: str
    shape_of: str = ""
    """The model of the same shape whose config.json it has; empty for its own."""
    num_downloads: int | None = None
    """From the Hub; None when not known."""
    is_in_recipes: bool = False
    """Whether vLLM's recipes name it."""

    @property
    def certainty(self) -> str:
        """Say in words how certain its facts are."""
        if self.is_certain:
            return "published"
        return f"same shape as {self.shape_of}" if self.shape_of else "reconstructed"


def entries() -> tuple[Entry, ...]:
    """Return every bundled model, sorted by name."""
    return tuple(_entries().values())


@cache
def popular() -> tuple[Entry, ...]:
    """Return every bundled model, the most used first.

    Those that vLLM's recipes name come before the others; each by downloads, and by
    name where these are equal or unknown.
    """
    return tuple(sorted(entries(), key=_use))


def _use(entry: Entry) -> tuple[bool, int]:
    return not entry.is_in_recipes, -(entry.num_downloads or 0)


def configs() -> tuple[tuple[Entry, Mapping[str, Any]], ...]:
    """Return every bundled model with its config.json as the file keeps it.

    The most used come first.
    """
    return tuple((entry, _row(entry.name)["config"]) for entry in popular())


def find(text: str) -> ModelFiles | None:
    """Return the model of this name, or None.

    The name may differ in case, and its organisation may be omitted where that is
    unambiguous: where one organisation has the model's own config.json, and others have
    copies, that one is meant. The same name returns the same object. `name~AWQ` is an
    estimated checkpoint of a bundled model (`planner.models.estimates`).

    Raises:
        PlannerError: for an estimated checkpoint of a model that is quantised already.
    """
    if text in _lines():
        return _files(text)
    name = _names().get(text) or _names().get(text.lower())
    if name:
        return _files(name)
    parts = estimates.split_name(text)
    if parts is None:
        return None
    base = find(parts[0])
    return None if base is None else estimates.estimated(base, parts[1])


def search(text: str, limit: int = 20) -> tuple[Entry, ...]:
    """Return models whose names contain the typed words, best first."""
    found = rank(text, _search_index())
    return tuple(_entries()[name] for name in found[:limit])


def nearest(text: str, limit: int = 3) -> tuple[str, ...]:
    """Return the names closest to one that was not found."""
    wanted = text.lower()
    key = str.lower if "/" in wanted else _model_part
    by_key = {key(name): name for name in reversed(tuple(_lines()))}
    near = close_words(wanted, by_key, most=limit, cutoff=_NEAR)
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
    return f"{entry.name:55} {size:>10}  {entry.certainty}"


def entry_dict(entry: Entry) -> dict[str, Any]:
    """Return an entry for JSON."""
    return asdict(entry) | {"certainty": entry.certainty}


def _model_part(name: str) -> str:
    return name.rpartition("/")[2].lower()


@cache
def _lines() -> Mapping[str, str]:
    """Return each model's line; most are never read as JSON."""
    lines = _DATA.read_text("utf-8").splitlines()
    start = len(_ID)
    return {line[start : line.index('"', start)]: line for line in lines}


@cache
def _entries() -> Mapping[str, Entry]:
    return {name: _entry(json.loads(_head(line))) for name, line in _lines().items()}


def _head(line: str) -> str:
    """Return the part of a line that a list needs, which is JSON by itself."""
    ends = (line.find(key) for key in _BODY)
    end = min((end for end in ends if end >= 0), default=len(line) - 1)
    return line[:end] + "}"


def _entry(row: Mapping[str, Any]) -> Entry:
    return Entry(
        name=row["id"],
        num_parameters=row.get("parameters"),
        is_certain=row["certain"],
        source=row["source"],
        shape_of=row.get("shape_of", ""),
        num_downloads=row.get("downloads"),
        is_in_recipes=row.get("recipe", False),
    )


@cache
def _names() -> Mapping[str, str]:
    """Return every unambiguous way to write a bundled name."""
    short: dict[str, str | None] = {}
    # A model's own line comes before those that only share its shape.
    for own in (True, False):
        named: dict[str, str | None] = {}
        for name, line in _lines().items():
            if own is not (_LIKE in line):
                part = _model_part(name)
                named[part] = None if part in named else name
        short = named | short
    names = {part: name for part, name in short.items() if name}
    names.update((name.lower(), name) for name in _lines())
    names.update((name, name) for name in _lines())
    return names


_LIKE = ',"like":'


@cache
def _row(name: str) -> Mapping[str, Any]:
    """Return a model's line with everything in it that is read from another's."""
    row: dict[str, Any] = json.loads(_lines()[name])
    if "like" in row:
        other = _row(row["like"])
        row["config"] = merged(other["config"], row.get("changes", {}))
        for file in ("hf_quant_config", "preprocessor_config", "modules"):
            row.setdefault(file, other.get(file))
    return row


@cache
def _files(name: str) -> ModelFiles:
    row = _row(name)
    return ModelFiles(
        name=name,
        config=with_names(row["config"]),
        hf_quant_config=with_names(row.get("hf_quant_config")),
        preprocessor_config=row.get("preprocessor_config"),
        modules=_modules(row.get("modules")),
        num_parameters=row.get("parameters"),
        checkpoint_bytes=row.get("checkpoint_bytes"),
        source=f"bundled catalogue: {row['source']}",
        is_certain=row["certain"],
        shape_of=row.get("shape_of", ""),
    )


def _modules(names: Sequence[str] | None) -> Mapping[str, Any] | None:
    """Return modules.json of a release of sentence-transformers."""
    if names is None:
        return None
    listed = [
        {
            "path": f"{index}_{name}" if index else "",
            "type": f"sentence_transformers.models.{name}",
        }
        for index, name in enumerate(names)
    ]
    return {"modules": listed}


@frozen
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
    return tuple(map(Named.of, _lines()))
