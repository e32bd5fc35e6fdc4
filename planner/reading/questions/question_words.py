"""A text taken apart by the words that ten languages have for a load and its machine.

The words are rows of `planner/data/question_words.json`, a table for each language; the
rules here know kinds of words only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from math import ceil
from typing import Any

from planner.data import DATA
from planner.reading.sign_table import signs
from planner.values import frozen

_KINDS = (
    *(
        "part",
        "pool",
        "rate",
        "budget",
        "taken",
        "job",
        "copy",
        "user",
        "concurrency",
        "shared",
        "own",
    ),
    *(
        "prompt",
        "answer",
        "context",
        "token",
        "image",
        "video",
        "frame",
        "audio",
        "vram",
        "ram",
    ),
    *("utilization", "card", "node", "unit", "total", "loose", "link"),
)
"""Kinds of words; of a word in two tables, the first kind counts."""
_INTENTS = (
    *("upgrade", "why", "cheapest", "which_models", "users", "speed", "which_gpu"),
    *("other", "fits"),
)
"""What may be asked; of a text that asks two things, the first."""
_L = "A-Za-z\u00c0-\u024f\u0400-\u04ff"
"""Letters of scripts in which blanks part words: Latin, Cyrillic."""
_ASKS = re.compile(r"\?\Z|[か吗么呢][.!\s]*\Z")
"""How a sentence ends that asks."""
_HALF_WIDTH = {wide: chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F)} | {
    **dict.fromkeys((0x3000, 0xA0, 0x202F, 0x2009), " "),
    **dict.fromkeys((0x3001, 0xFF0C), ";"),  # a comma is no part of a number there
    0x3002: ".",
    0xD7: "x",
    0x2019: "'",
    0x2013: "-",
}
_KANA = re.compile("[\u3040-\u30ff]")
_TIMES = re.compile(r"(?<=\d)\u0445|\u0445(?=\d)|(?<=\d )\u0445(?= )")
_CHINESE = {one: at for at, one in enumerate("一二三四五六七八九", 1)} | {
    "两": 2,
    "单": 1,
    "双": 2,
}
_TENS = {"十": 10, "百": 100, "千": 1000}
_UNITS = {
    "memory": r"[\s-]?(?:GiB|GB?|Go|gigs?|gigabytes?|ГБ|гиг\w*|기가(?:바이트)?)",
    "bytes": r"\s?(?:[KMT]i?B|[kmt]b|bytes?)",
    "percent": r"\s?(?:%|per ?cent|Prozent|pour ?cent|por ciento|パーセント)",
    "bits": r"[\s-]?(?:bits?|比特|位(?=量化)|ビット|бит\w*|비트)",
    "size": r"B",
    "money": r"\s?(?:[$€£¥元円]|dollars?|euros?|USD|EUR)",
    "pixels": r"(?<=\d{3})\s?x\s?\d{3,4}(?:px)?",
    "time": (
        r"[\s-]?(?:ms|sec(?:ond)?s?|Sekunden?|secondes?|segundos?|秒|сек\w*|초(?!당))"
    ),
}
"""What follows a number directly and says what it counts."""
_POINTS = re.compile(r"[1-9]\d{0,2}(?:[ .,']\d{3})+")
_K = {"k": 1024, "m": 1024**2}
_TOPIC = re.compile(
    r"vllm|\bLLMs?\b|VRAM|\bGPUs?\b|KV[ -]?cache|\bOOM\b|out of memory|显存|显卡|大模型"
    r"|グラボ|Grafik(?:speicher|karte)|carte graphique|tarjeta gráfica"
    r"|видео(?:карт|памя)|placa de vídeo|scheda video|그래픽 ?카드",
    re.IGNORECASE,
)
_NEAR = 40
"""Characters as far as a denial stands from what it denies."""
_SENTENCE = re.compile(r"[^.!?\n]*(?:[.!](?!\s|\Z)[^.!?\n]*)*[.!?\n]?")


@frozen
class Term:
    """A word, a number or a name in a text, of a kind."""

    kind: str
    """One of the tables', `number`, `sep`, `sign`, `times` or `word`."""
    start: int
    end: int
    written: str
    value: Any = None
    """Of a number what it counts, of a name what it names."""
    unit: str = ""
    """Of a number what follows it directly, such as memory."""
    letter: str = ""
    """Of a number the letter that multiplies it, such as k."""
    low: int = 0
    """Of a range its lower end; 0: it is none."""

    @property
    def is_digits(self) -> bool:
        """Whether it is a number, and not written in letters."""
        return self.kind == "number" and any(map(str.isdigit, self.written))


def half_width(text: str) -> str:
    """Return a text with the digits and signs of Latin scripts, none moved.

    So is the letter that stands for times in Cyrillic, and traditional Chinese, which
    Japanese has in its own words, as it is simplified.

    >>> half_width("\uff14\u5f20\uff0c32\uff4b")
    '4\u5f20;32k'
    """
    plain = _TIMES.sub("x", text.translate(_HALF_WIDTH))
    return plain if _KANA.search(plain) else plain.translate(_simplified())


@cache
def _simplified() -> Mapping[int, int]:
    return str.maketrans(*signs("traditional Chinese"))


def blanked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return a text with blanks in the place of what was taken from it."""
    rest: list[str] = []
    done = 0
    for start, end in sorted(spans):
        rest += [text[done:start], " " * (end - max(start, done))]
        done = max(end, done)
    return "".join([*rest, text[done:]])


def terms_of(text: str, names: Sequence[Term] = ()) -> list[Term]:
    """Return the terms of a text, in its order; `names` are known already.

    >>> [(one.kind, one.value) for one in terms_of("vier Nutzer")]
    [('number', 4), ('user', None)]
    """
    rest = blanked(text, ((one.start, one.end) for one in names))
    found = [_term(match) for match in _pattern().finditer(rest)]
    return sorted([*names, *found], key=lambda one: one.start)


def intents_in(text: str) -> dict[str, bool]:
    """Return what a text may ask, the first first: whether a sentence does ask it."""
    found: dict[str, bool] = {}
    text = words_of("unimportant").sub("", text)
    for sentence in filter(str.strip, _SENTENCE.findall(text)):
        for kind in _INTENTS:
            match = words_of(kind).search(sentence)
            if match is not None:
                rest = sentence[: match.start()], sentence[match.end() :].rstrip(".! ")
                asks = bool(_ASKS.search(sentence)) or not rest[0].strip()
                asks = asks or (kind == "why" and not rest[1].strip())
                found[kind] = found.get(kind, False) or asks
    return {kind: found[kind] for kind in _INTENTS if kind in found}


def asking_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of the sentences that ask.

    >>> list(asking_in("8k fails. Does 4k fit?"))
    [(9, 22)]
    """
    for match in _SENTENCE.finditer(text):
        if _ASKS.search(match[0].rstrip()):
            yield match.span()


def is_of_planning(text: str) -> bool:
    """Return whether a text is about the memory of models, whatever it says of it."""
    return _TOPIC.search(text) is not None


@cache
def words_of(kind: str) -> re.Pattern[str]:
    """Return the pattern of a kind of words, in every language."""
    return re.compile(_words(kind), re.IGNORECASE)


def is_denied(text: str, start: int, end: int) -> bool:
    """Return whether a text says of what stands there that it is not meant.

    >>> is_denied("no H100 but an A100", 3, 7), is_denied("or not on an H100", 13, 17)
    (True, False)
    """
    before, behind = text[max(start - _NEAR, 0) : start], text[end : end + _NEAR]
    alone, on, denied, but = _denial()
    is_on_other = on.search(before) and but.search(behind.partition("?")[0])
    return bool(alone.search(before) or is_on_other or denied.match(behind))


@cache
def _denial() -> tuple[re.Pattern[str], ...]:
    """Return the patterns of what denies a name: before it, on it, behind it.

    "It does not run on a T4" denies no T4, and "not on a T4 but on an L4" does: what
    stands there for "but" is the last.
    """
    said = rf"(?<!or )(?<!and )(?<!why )(?<!oder )(?<!ou )(?<!o )(?:{_words('not')})"
    some = rf"(?:\s*(?:{_words('filler')}))*[\s-]*\Z"
    return tuple(
        re.compile(pattern, re.IGNORECASE)
        for pattern in (
            said + some,
            rf"{said}\s*(?:{_words('on')}){some}",
            rf"(?:[\s(]*\d{{1,3}} ?GB?\)?)?\s*(?:{_words('denied')})",
            _words("but"),
        )
    )


def asks_to_hold(text: str) -> bool:
    """Return whether a text asks if a machine bears its load."""
    return words_of("holds").search(text) is not None


def _term(match: re.Match[str]) -> Term:
    kind = "sep" if match["mark"] else str(match.lastgroup)
    start, end = match.span()
    low = match["low"] or ""
    if kind == "number":
        unit = next((unit for unit in _UNITS if match[unit]), "")
        unit = "money" if match["currency"] else unit
        letter = (match["letter"] or "").lower()
        value = _value(match["digits"]) * _power(letter)
        return Term(
            kind=kind, start=start, end=end, unit=unit,
            written=match[0][match.start("digits") - start if low else 0 :],
            value=ceil(value) if value == int(value) or letter else value,
            letter=letter if letter in _K else "", low=int(low or 0),
        )  # fmt: skip
    if kind == "fraction":
        part = next(part for word, part in _fractions() if word.fullmatch(match[0]))
        return Term(
            kind="number", start=start, end=end, written=match[0],
            value=Fraction(100, part), unit="percent",
        )  # fmt: skip
    if kind not in ("letters", "numeral", "power"):
        return Term(kind=kind, start=start, end=end, written=match[0])
    return Term(
        kind="number", start=start, end=end, written=match[0], value=_in_letters(match)
    )


def _in_letters(match: re.Match[str]) -> int:
    """Return a number in letters: "zwei", "eight thousand", "achttausend"."""
    if match["numeral"]:
        return _chinese(match[0])
    power = _power(match["power"].strip().lower()) if match["power"] else 1
    return _numbers()[match["letters"].lower()] * power


def _value(digits: str) -> float:
    """Return a number: 32.768, 32 768 and 32,768 are one, 1,5 is 1.5."""
    if _POINTS.fullmatch(digits):
        return float(re.sub(r"\D", "", digits))
    return float(digits.replace(",", "."))


def _power(letter: str) -> int:
    if not letter or letter in _K:
        return _K.get(letter, 1)
    return next(value for sign, value in _powers() if sign.fullmatch(letter))


def _chinese(written: str) -> int:
    """Return a number in Chinese letters.

    >>> _chinese("三十二"), _chinese("十六"), _chinese("两百"), _chinese("三万二千")
    (32, 16, 200, 32000)
    """
    total, digit = 0, 0
    for one in written:
        if one == "万":
            total, digit = (total + digit) * 10_000, 0
        elif one in _TENS:
            total += (digit or 1) * _TENS[one]
            digit = 0
        else:
            digit = _CHINESE[one]
    return total + digit


@cache
def _tables() -> tuple[Mapping[str, Any], ...]:
    path = DATA / "question_words.json"
    return tuple(json.loads(path.read_text(encoding="utf-8")).values())


@cache
def _numbers() -> Mapping[str, int]:
    """Return the numbers in letters, of every language."""
    rows = (row for table in _tables() for row in table["numbers"].items())
    return {word.lower(): value for word, value in rows}


@cache
def _powers() -> tuple[tuple[re.Pattern[str], int], ...]:
    rows = (row for table in _tables() for row in table["powers"].items())
    return tuple((re.compile(word, re.IGNORECASE), value) for word, value in rows)


@cache
def _fractions() -> tuple[tuple[re.Pattern[str], int], ...]:
    """Return the words for a half, a third and so on, with what they divide by."""
    rows = (row for table in _tables() for row in table.get("fractions", {}).items())
    return tuple((re.compile(word, re.IGNORECASE), part) for word, part in rows)


def _fractions_of_users() -> str:
    """Return the pattern of a fraction before the words for who is active of all."""
    words = _any(word.pattern for word, _part in _fractions())
    return rf"(?<![{_L}])(?:{words})(?=\s?(?:{_words('part')}))"


def _words(kind: str) -> str:
    """Return the pattern of a kind; a word of a Latin script stands alone."""
    rows = [row for table in _tables() for row in table.get(kind, ())]
    latin = [row for row in rows if re.match(rf"[{_L}]", row.lstrip("(?:"))]
    other = [row for row in rows if row not in latin]
    alone = f"(?<![{_L}])(?:{_any(latin)})(?![{_L}])" if latin else ""
    return "|".join(filter(None, (alone, _any(other))))


def _any(rows: Iterable[str]) -> str:
    """Return the pattern of one of these, the longest first."""
    return "|".join(sorted(rows, key=len, reverse=True))


@cache
def _pattern() -> re.Pattern[str]:
    """Return the pattern of every term."""
    powers = _any(word for table in _tables() for word in table["powers"])
    units = "|".join(f"(?P<{unit}>{sign})" for unit, sign in _UNITS.items())
    number = (
        r"(?P<currency>[$€£¥]\s?)?"
        r"(?:(?<![\w.,-])|(?<=[^\x00-\u024f])|(?<![\w.,-][xX*])(?<=[xX*]))"
        r"(?:(?P<low>\d{1,12})\s?[kK]?"
        r"(?:[-~至到](?=\d)|\s?(?:to|bis|à|a)\s(?=\d)|\s?[-~至到]\s?(?=\d{1,4}\s?[kK]\b)))?"
        r"(?P<digits>\d{1,3}(?:[ .,']\d{3})+(?!\d)|\d{1,12}(?!\d)(?:[.,]\d{1,12})?)"
        rf"(?:\s?(?P<letter>[km](?![A-Za-z])|(?:{powers})(?![{_L}])))?"
        rf"(?:(?:{units})(?![{_L}0-9]))?(?![a-wyz0-9_\u00c0-\u024f\u0400-\u0444\u0446-\u04ff])"
    )
    kinds = "|".join(f"(?P<{kind}>{_words(kind)})" for kind in _KINDS)
    return re.compile(
        rf"(?P<sep>\n)|(?!\s)(?:(?P<number>{number})|(?P<fraction>{_fractions_of_users()})"
        rf"|(?P<numeral>[一二两三四五六七八九十][一二两三四五六七八九十百千万]*|[单双])"
        rf"|(?<![{_L}])(?P<letters>{_any(map(re.escape, _numbers()))})"
        rf"(?P<power>[ -]?(?:{powers}))?(?![{_L}])"
        rf"|(?P<times>[x*](?![{_L}]))|{kinds}"
        r"|(?P<mark>[,;!?/|]|\.(?=\s|\Z))|(?P<sign>[:=()])"
        rf"|(?P<word>[{_L}][{_L}\d']*|[^\s\x00-\u024f]))",
        re.IGNORECASE,
    )
