"""Models by the words of their names: "Llama 3.3 70B" in a question or a note."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache

from planner.engine.not_covered import why_not_covered
from planner.models.catalogue import Entry, entries, find, search
from planner.reading.sign_table import signs
from planner.reading.starts.images import gpu_named_in
from planner.values import frozen

_UNKNOWN = '"{}" is not in the catalogue: give its name on the Hub, such as org/name.'
_LONGEST_NAME = 8
"""Words of a model's name."""
_LATIN = r"A-Za-z0-9\u00c0-\u024f\u1e00-\u1eff"
_MOST_ALIKE = 100
"""Models of which a few words of a name can be a part."""
_WORD = re.compile(rf"[{_LATIN}](?:[{_LATIN}_./+-]*[{_LATIN}_])?")
_FAMILY = re.compile(r"[a-z]{2,}")
_BETWEEN = frozenset(signs("ends a model's name"))
"""Words that end a model's name."""
_PLAIN = frozenset(("instruct", "it", "chat", "hf", "meta", "v0.1"))
"""Parts of a name that people leave out."""
_USES = frozenset(
    """
    agent command content dev dynamic embedding embeddings english intermediate labs
    large light medium multilingual reasoning reranker safety small static step
    """.split()
)
"""What is said of a model or its use behind its name, though it is in others' names."""
_FORMATS = frozenset(("awq", "gptq", "fp", "int", "gguf", "bnb"))
_REPUBLISHED = ("unsloth/", "NousResearch/")
"""Owners of copies, which have the models' own names."""
_PART = re.compile(r"[^a-z0-9.]+")
_ENDS = ",;:?!|，；：？！、"  # noqa: RUF001 - full width, as people write them
"""What ends a name."""
_SIZE = re.compile(r"(?i)(?<![\w.])(?:\d+x)?\d+(?:\.\d+)?[bm](?![a-z])")
"""Parameters in a model's name."""
_ACTIVE = re.compile(r"a\d+(?:\.\d+)?b")
"""Parameters that each token uses, in a model's name."""
_LETTERS_AND_NUMBER = re.compile(r"(?=.*\d)[a-z][a-z0-9]{5,}")
_JOINED = re.compile(r"(?<=[a-z])(?=\d)")
"""Where "llama3.3" could be two words."""
_OWN_NAME = re.compile(
    r"(?<![\w./-])(?!\d+-?bit)(?=[\w-]*[A-Za-z])[\w-]+/(?=[\w.-]*[A-Za-z])[\w.-]*\d[\w.-]*\w(?![\w/])",
    re.ASCII,
)
"""A model of the Hub, as people write it out."""
_SAID = re.compile(
    r"(?:\bmod(?:el|[eè]le|elo|ell)|模型|モデル)(?: is| ist| est| es|是|は| ?[:=]) ?"
    r"(?P<name>(?=[\w./-]*[A-Za-z])(?=[\w./-]*[\d-])[\w./-]*\w)",
    re.IGNORECASE | re.ASCII,
)
"""What is said to be the model."""
_DASHED = re.compile(r"[A-Za-z][A-Za-z\d.]*-[\w.-]*\d[\w.-]*", re.ASCII)
"""A name of a family with a number in it."""
_SIZED = re.compile(
    r"(?<![\w./-])(?:[A-Za-z][\w.-]*-|[A-Z][\w.-]*(?: [A-Z0-9][\w.-]*){0,2} )"
    r"\d{1,4}(?:\.\d+)?[bB](?:-[\w.-]*\w)?(?![\w])",
    re.ASCII,
)
"""What has a model's size behind it."""


@frozen
class NamedModel:
    """A model that a question names."""

    name: str
    """Empty for one that is not known: the note says so."""
    written: str
    note: str = ""
    start: int = 0
    """Where it is written."""
    others: tuple[str, ...] = ()
    """Further models whose names have these words."""

    @property
    def end(self) -> int:
        """Where its words end."""
        return self.start + len(self.written)


def models_in(text: str) -> tuple[NamedModel, ...]:
    """Return the models that a text names, in its order, each once."""
    first: dict[str, NamedModel] = {}
    for one in mentions_in(text):
        first.setdefault(one.name or one.written, one)
    return tuple(first.values())


def mentions_in(text: str) -> list[NamedModel]:
    """Return every place where a text names a model; those not known, too."""
    words = list(_WORD.finditer(text))
    found: list[NamedModel] = []
    at = 0
    while at < len(words):
        model, number = _model_at(words[at : at + _LONGEST_NAME])
        if model is not None:
            found.append(model)
        at += max(number, 1)
    own = (
        NamedModel(name=match[0], written=match[0], start=match.start())
        for match in _OWN_NAME.finditer(text)
        if _is_of_the_hub(match[0])
    )
    said = (
        NamedModel(
            name="",
            written=match["name"],
            note=_UNKNOWN.format(match["name"]),
            start=match.start("name"),
        )
        for match in _SAID.finditer(text)
    )
    for one in (*own, *_not_known(text), *said):
        if all(one.end <= each.start or each.end <= one.start for each in found):
            found.append(one)
    return sorted(found, key=lambda each: each.start)


def _is_of_the_hub(written: str) -> bool:
    """Return whether a name with a slash is a model's, and not "FP16/BF16", "4k/8k"."""
    is_word = re.search("[A-Za-z]{3}", written) or find(written) is not None
    return bool(is_word) and not any(map(gpu_named_in, written.split("/")))


def _not_known(text: str) -> Iterator[NamedModel]:
    """Yield what is written as a model's name is, without the words around it."""
    for match in _SIZED.finditer(text):
        words = match[0].split()
        while words and words[0].lower() in _BETWEEN:
            del words[0]
        written = " ".join(words)
        if re.match("[A-Za-z]", written) and not why_not_covered(written):
            yield NamedModel(
                name="",
                written=written,
                note=_UNKNOWN.format(written),
                start=match.end() - len(written),
            )


def _model_at(words: Sequence[re.Match[str]]) -> tuple[NamedModel | None, int]:
    """Return the model whose name begins here, and the number of its words."""
    family = _FAMILY.match(words[0][0].lower().rpartition("/")[2])
    if family is None or family[0] not in _families():
        return _joined_at(words)
    for number in range(len(words), 0, -1):
        span = words[:number]
        if any(map(_is_apart, span, span[1:])):
            continue
        written = [word[0].lower() for word in span]
        is_sized = any(re.search(r"[\d/]", word) for word in written)
        parts = (*written[0].split("-")[1:], *written[1:])  # "BGE-large"
        is_sized = is_sized or any(part in _variants() for part in parts)
        if not is_sized or any(word in _BETWEEN for word in written):
            continue
        if any(gpu_named_in(word) for word in written[1:]):
            continue
        found = _found(tuple(written))
        if found:
            text = span[0].string[span[0].start() : span[-1].end()]
            variant = _variant(text, words[number:])
            if variant is not None:
                return variant, number + 1
            return replace(_named(found, written, text), start=span[0].start()), number
    joined = _joined_at(words)
    return joined if joined[0] is not None else _of_no_entry(words)


def _joined_at(words: Sequence[re.Match[str]]) -> tuple[NamedModel | None, int]:
    """Return the model of a name without its dashes: "gptoss120b", "kimik2.6"."""
    for number in (2, 1):
        span = words[:number]
        text = span[0].string[span[0].start() : span[-1].end()]
        found = [] if "_" in text else _by_letters().get(_letters([text]), [])
        if found and not any(map(_is_apart, span, span[1:])):
            named = _named(found, [text.lower()], text)
            return replace(named, start=span[0].start()), number
    return None, 0


def _of_no_entry(words: Sequence[re.Match[str]]) -> tuple[NamedModel | None, int]:
    """Return a family with a size that the catalogue does not have: "mixtral 8x22b"."""
    if _DASHED.fullmatch(words[0][0]):
        one = words[0]
        return NamedModel(
            name="", written=one[0], note=_UNKNOWN.format(one[0]), start=one.start()
        ), 1
    is_sized = len(words) > 1 and (
        _SIZE.fullmatch(words[1][0]) is not None or words[1][0].lower() in _variants()
    )
    if not is_sized or _is_apart(words[0], words[1]):
        return None, 0
    start = words[0].start()
    written = words[0].string[start : words[1].end()]
    note = _UNKNOWN.format(written)
    return NamedModel(name="", written=written, note=note, start=start), 2


@lru_cache(maxsize=256)
def _found(words: tuple[str, ...]) -> list[Entry]:
    """Return the models with these words; "llama3.3" is "llama 3.3" where it must."""
    apart = tuple(_JOINED.sub(" ", " ".join(words)).split())
    parted = tuple(" ".join(words).replace("-", " ").split())
    found = {
        each: [o for o in search(" ".join(each), _MOST_ALIKE) if _holds(o.name, each)]
        for each in dict.fromkeys((words, apart, parted))
    }
    return list({one.name: one for each in found.values() for one in each}.values())


def _is_apart(word: re.Match[str], following: re.Match[str]) -> bool:
    """Return whether two words are of no one name.

    Letters stand between them, such as Japanese ones, or a comma; or the second counts
    something: "8B 4 users".
    """
    between = word.string[word.end() : following.start()]
    is_count = following[0].isdecimal() and _SIZE.search(word[0].lower()) is not None
    return is_count or any(one.isalnum() or one in _ENDS for one in between)


def _variant(written: str, following: Sequence[re.Match[str]]) -> NamedModel | None:
    """Return what is not known: the name goes on, as "GLM 4.5 Air" is not GLM 4.5."""
    word = following[0] if following else None
    if word is None or word[0].lower() not in _variants() - _USES:
        return None
    if not re.search(rf"{re.escape(written)}[\s-]+\Z", word.string[: word.start()]):
        return None
    whole = f"{written} {word[0]}"
    start = word.end() - len(whole)
    return NamedModel(name="", written=whole, note=_UNKNOWN.format(whole), start=start)


def _named(found: Sequence[Entry], words: Sequence[str], written: str) -> NamedModel:
    """Return the plainest of the models whose names have these words."""
    ranked = sorted(
        found,
        key=lambda one: (
            not _is_exact(one.name, written),
            _more(one.name, words),
            "-".join(words) not in _without_plain(one.name),
            one.name.startswith(_REPUBLISHED),
            -(one.num_downloads or 0),
        ),
    )
    best, *others = [one.name for one in ranked]
    is_sized = _SIZE.search(" ".join(words)) is not None
    dashed = "-".join(written.split())
    if not is_sized:
        best = next((one.name for one in ranked if _is_exact(one.name, dashed)), best)
    if not _is_exact(best, dashed) and not is_sized:
        sizes = {match[0] for name in (best, *others) for match in _SIZE.finditer(name)}
        if len(sizes) > 1:
            shown = ", ".join([best, *others[:3]])
            note = f'"{written}" stands for models of several sizes: {shown}.'
            return NamedModel(name="", written=written, note=note)
    also = f" Others: {', '.join(others[:3])}." if others else ""
    note = "" if _is_exact(best, written) else f'"{written}" is taken for {best}.{also}'
    is_exact = _is_exact(best, written)
    return NamedModel(
        name=best, written=written, note=note, others=() if is_exact else tuple(others)
    )


def _is_exact(name: str, written: str) -> bool:
    return written.lower() in (name.lower(), _bare(name))


def _more(name: str, words: Sequence[str]) -> int:
    """Return how many parts a name has that no word stands for."""
    parts = (part for part in _PART.split(_bare(name)) if part not in _PLAIN)
    more = [p for p in parts if not any(w in p or p in w for w in words)]
    return sum(2 if part.isalpha() else 1 for part in more)


def _without_plain(name: str) -> str:
    """Return a name without the parts that people leave out."""
    return "-".join(part for part in _bare(name).split("-") if part not in _PLAIN)


def _bare(name: str) -> str:
    return name.rpartition("/")[2].lower()


@cache
def _variants() -> frozenset[str]:
    """Return the words that tell models of one family apart."""
    parts = (_PART.split(_bare(entry.name)) for entry in entries())
    known = {part for each in parts for part in each[1:] if part.isalpha()}
    return frozenset(known | {"air"}) - _BETWEEN - _PLAIN - _FORMATS


@cache
def _families() -> frozenset[str]:
    """Return the words that names of the catalogue begin with."""
    begins = (_FAMILY.match(_bare(entry.name)) for entry in entries())
    return frozenset(match[0] for match in begins if match) - _BETWEEN


@cache
def _by_letters() -> Mapping[str, list[Entry]]:
    """Return the models by the letters of their names, with and without active sizes.

    Names without a number are left out: they are words as well.
    """
    found: dict[str, list[Entry]] = {}
    for entry in entries():
        parts = [one for one in _PART.split(_bare(entry.name)) if one not in _PLAIN]
        plain = [one for one in parts if not _ACTIVE.fullmatch(one)]
        for key in {_letters(parts), _letters(plain)}:
            if _LETTERS_AND_NUMBER.fullmatch(key):
                found.setdefault(key, []).append(entry)
    return found


def is_part_of(family: NamedModel, model: NamedModel) -> bool:
    """Return whether a model that is named in full is one of a family named beside."""
    return not family.name and _letters([family.written]) in _letters([model.name])


def _letters(parts: Iterable[str]) -> str:
    return re.sub(r"[^a-z0-9]", "", "".join(parts).lower())


def _holds(name: str, words: Sequence[str]) -> bool:
    """Return whether a name has these words whole: "20" is not in "2025"."""
    return all(
        re.search(
            r"(?:(?<![a-z0-9.])|(?<=[a-z])(?=\d))"
            + re.escape(word)
            + r"(?![a-z]|\.?\d)",
            name.lower(),
        )
        for word in words
    )
