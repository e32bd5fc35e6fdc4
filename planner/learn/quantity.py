"""Numbers as learners write them: with a unit, without one, or with the wrong one."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from planner.units import GIB, KIB, MIB
from planner.values import frozen

_WRITTEN = re.compile(
    r"(-?[0-9]+(?:\.([0-9]*))?(?:e(-?[0-9]+))?)\s*([a-z]*)(?: +[a-z]+)*\Z"
)
_ABOUT = re.compile(r"(?:[~≈]|(?:about|around|roughly|some|maybe|nearly|ca\.?)\b)\s*")
_THOUSANDS = re.compile(r"(?<=[0-9])[,_'\s](?=[0-9]{3}(?![0-9]))")
_DECIMAL = re.compile(r"(?<=[0-9]),(?=[0-9])")
_AMBIGUOUS = re.compile(
    r"(?<![0-9])[0-9]{1,3}(?:([.,])[0-9]{3})(?:\1[0-9]{3})*(?![0-9])"
)
"""12.160 and 12,160: thousands to some people, decimals to others."""
_SWAPPED = str.maketrans(".,", ",.")
_NUMBER_WORDS = {
    word: number
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen "
        "fourteen fifteen sixteen seventeen eighteen nineteen twenty".split()
    )
} | {
    word: 10 * number
    for number, word in enumerate(
        "thirty forty fifty sixty seventy eighty ninety hundred".split(), start=3
    )
}
_TIMES = {"k": 10**3, "thousand": 10**3, "m": 10**6, "million": 10**6}
"""What multiplies a count."""
_BYTES_PER_UNIT = {
    "bytes": 1,
    "GiB": GIB,
    "GB": 10**9,
    "MiB": MIB,
    "MB": 10**6,
    "KiB": KIB,
    "KB": 10**3,
    "TiB": 1 << 40,
    "TB": 10**12,
}
"""In the order in which a number without a unit is tried."""
_UNIT_NAMES = {
    **{unit.lower(): unit for unit in _BYTES_PER_UNIT},
    "b": "bytes",
    "byte": "bytes",
    "g": "GiB",
    "m": "MiB",
    "k": "KiB",
    "t": "TiB",
    "gigabytes": "GB",
    "gibibytes": "GiB",
    "megabytes": "MB",
    "mebibytes": "MiB",
}
_UNTOUCHED = ("", "...", "?")
OTHER_UNIT = "You wrote "
"""Begins the remark on a number that is right in another unit than the written one."""


@frozen
class Quantity:
    """One way to read what a learner wrote."""

    value: float
    """In bytes, where a size is required."""
    remark: str = ""
    """The unit that was assumed, where none was written."""
    half_digit: float = 0.0
    """Half of the last digit that was written: what rounding may have hidden."""
    is_guessed: bool = False
    """Whether the learner may have meant another reading just as well."""

    def rounds(self, expected: float) -> bool:
        """Return whether this is `expected`, rounded to the digits that it has."""
        return self.value > 0 and abs(self.value - expected) <= self.half_digit


def is_untouched(answer: object) -> bool:
    """Return whether an answer is missing: `...`, None, blanks or underscores.

    >>> is_untouched(...), is_untouched("___"), is_untouched(0)
    (True, True, False)
    """
    if answer is None or answer is ...:
        return True
    return isinstance(answer, str) and answer.strip().strip("_") in _UNTOUCHED


@frozen
class _Written:
    """A number, and the word behind it."""

    number: float
    half_digit: float
    word: str
    is_guessed: bool
    """Whether its point or comma may have meant the other thing."""
    remark: str

    def times(
        self, factor: float, remark: str = "", *, guessed: bool = False
    ) -> Quantity:
        """Return it in another unit."""
        return Quantity(
            value=self.number * factor,
            remark=f"{self.remark} {remark}".strip(),
            half_digit=self.half_digit * factor,
            is_guessed=guessed or self.is_guessed,
        )


def size_readings(answer: object) -> Iterator[Quantity]:
    """Yield what `answer` may mean in bytes, the likeliest first; none if unreadable.

    >>> [reading.value for reading in size_readings("about 2 GiB")][0]
    2147483648.0
    """
    for written in _written(answer):
        if not written.word:
            yield from _unitless(written)
        elif written.word in _UNIT_NAMES:
            yield from _with_unit(written, _UNIT_NAMES[written.word])


def number_readings(answer: object) -> Iterator[Quantity]:
    """Yield what `answer` may mean as a number; a word after it, such as x, is ignored.

    >>> [one.value for one in number_readings("22k tokens")]
    [22000.0]
    >>> [one.value for one in number_readings("12.160")]
    [12.16, 12160.0]
    """
    for written in _written(answer):
        yield written.times(_TIMES.get(written.word, 1))


def _written(answer: object) -> Iterator[_Written]:
    """Yield the number and the word in lower case; nothing if it is not a number."""
    if isinstance(answer, bool) or not isinstance(answer, int | float | str):
        return
    plain = _in_digits(_ABOUT.sub("", str(answer).lower().strip(), count=1))
    plain = plain.replace("billion bytes", "gb").replace("million bytes", "mb")
    may_differ = isinstance(answer, str) and _AMBIGUOUS.search(plain) is not None
    for text in (plain, plain.translate(_SWAPPED)) if may_differ else (plain,):
        match = _WRITTEN.match(_DECIMAL.sub(".", _THOUSANDS.sub("", text)))
        number = float(match[1]) if match else math.inf
        if match and math.isfinite(number):
            digit = int(match[3] or 0) - len(match[2] or "")
            yield _Written(
                number=number,
                half_digit=0.5 * 10.0**digit,
                word=match[4],
                is_guessed=may_differ,
                remark="" if text == plain else f"Read as {number:,g}.",
            )


def _in_digits(text: str) -> str:
    """Write a number that begins a text in digits: four GiB is 4 gib."""
    first, *rest = text.split(" ")
    parts = first.split("-")
    if not all(part in _NUMBER_WORDS for part in parts):
        return text
    return " ".join([str(sum(_NUMBER_WORDS[part] for part in parts)), *rest])


def _unitless(written: _Written) -> Iterator[Quantity]:
    for unit, factor in _BYTES_PER_UNIT.items():
        remark = "" if unit == "bytes" else f"Read as {unit}."
        yield written.times(factor, remark, guessed=True)


def _with_unit(written: _Written, unit: str) -> Iterator[Quantity]:
    yield written.times(_BYTES_PER_UNIT[unit])
    if unit != "bytes":
        # The other unit with the same letter: GB for GiB.
        other = unit.replace("i", "") if "i" in unit else f"{unit[0]}iB"
        says = f"{OTHER_UNIT}{unit}; the number is right in {other}."
        yield written.times(_BYTES_PER_UNIT[other], says)
    if unit in ("MB", "MiB"):
        says = (
            f"{OTHER_UNIT}{unit}; these are thousandths of a GiB, which has 1,024 MiB."
        )
        yield written.times(GIB / 1000, says)
