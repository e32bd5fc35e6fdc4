"""Numbers as learners write them: with a unit, without one, or with the wrong one."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from planner.units import GIB, KIB, MIB
from planner.values import frozen

_WRITTEN = re.compile(
    r"[~≈]?\s*(-?[0-9]+(?:\.[0-9]*)?(?:e-?[0-9]+)?)\s*([a-z]*)(?:\s+[a-z]+)?\Z"
)
_THOUSANDS = re.compile(r"(?<=[0-9])[,_](?=[0-9]{3}(?![0-9]))")
_DECIMAL = re.compile(r"(?<=[0-9]),(?=[0-9])")
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
_SAME_LETTER = {
    "GiB": "GB",
    "MiB": "MB",
    "KiB": "KB",
    "TiB": "TB",
}
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


def is_untouched(answer: object) -> bool:
    """Return whether an answer is missing: `...`, None, blanks or underscores.

    >>> is_untouched(...), is_untouched("___"), is_untouched(0)
    (True, True, False)
    """
    if answer is None or answer is ...:
        return True
    return isinstance(answer, str) and answer.strip().strip("_") in _UNTOUCHED


def size_readings(answer: object) -> Iterator[Quantity]:
    """Yield what `answer` may mean in bytes, the likeliest first; none if unreadable.

    >>> [reading.value for reading in size_readings("2 GiB")][0]
    2147483648.0
    """
    written = _written(answer)
    if written is None:
        return
    number, unit = written
    if not unit:
        yield from _unitless(number)
    elif unit in _UNIT_NAMES:
        yield from _with_unit(number, _UNIT_NAMES[unit])


def number_reading(answer: object) -> Quantity | None:
    """Return `answer` as a number; a word after it, such as x or GPUs, is ignored.

    >>> number_reading("1,024 tokens").value, number_reading("22k tokens").value
    (1024.0, 22000.0)
    """
    written = _written(answer)
    if written is None:
        return None
    number, word = written
    return Quantity(value=number * _TIMES.get(word, 1))


def _written(answer: object) -> tuple[float, str] | None:
    """Return the number and the unit in lower case; None if it is not a number."""
    if isinstance(answer, bool):
        return None
    if isinstance(answer, int | float):
        return (float(answer), "") if math.isfinite(answer) else None
    if not isinstance(answer, str):
        return None
    plain = _DECIMAL.sub(".", _THOUSANDS.sub("", answer.lower().strip()))
    plain = plain.replace("billion bytes", "gb").replace("million bytes", "mb")
    match = _WRITTEN.match(plain)
    if match is None:
        return None
    number = float(match[1])
    return (number, match[2]) if math.isfinite(number) else None


def _unitless(number: float) -> Iterator[Quantity]:
    for unit, factor in _BYTES_PER_UNIT.items():
        remark = "" if unit == "bytes" else f"Read as {unit}."
        yield Quantity(value=number * factor, remark=remark)


def _with_unit(number: float, unit: str) -> Iterator[Quantity]:
    yield Quantity(value=number * _BYTES_PER_UNIT[unit])
    other = _SAME_LETTER.get(unit) or _binary(unit)
    if other:
        yield Quantity(
            value=number * _BYTES_PER_UNIT[other],
            remark=f"{OTHER_UNIT}{unit}; the number is right in {other}.",
        )


def _binary(unit: str) -> str | None:
    return next((two for two, ten in _SAME_LETTER.items() if ten == unit), None)
