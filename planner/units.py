"""Sizes and counts as text, text as sizes; no other module formats a size.

Sizes inside the planner are whole bytes (`int`, suffix `_bytes`); text is in GiB.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from planner.errors import PlannerError

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

_SIZE = r"(-?[0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\Z"
_BYTES_PER_UNIT = {
    "": 1,
    "b": 1,
    "kib": KIB,
    "mib": MIB,
    "gib": GIB,
    "tib": 1 << 40,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
}

_MOST_FOR_A_FLOAT = 1 << 80
"""No size that is planned has as many bytes; a wrong argument may."""


def format_gib(size_bytes: int, *, signed: bool = False) -> str:
    """Write bytes as GiB with two decimals, the precision of vLLM's log.

    >>> format_gib(3 * GIB // 2), format_gib(-GIB, signed=True)
    ('1.50 GiB', '-1.00 GiB')
    """
    sign = "+" if signed else ""
    if abs(size_bytes) > _MOST_FOR_A_FLOAT:
        return f"more than {_MOST_FOR_A_FLOAT // GIB:,} GiB"
    return f"{size_bytes / GIB:{sign},.2f} GiB"


def format_size(size_bytes: int) -> str:
    """Write bytes in the largest binary unit that is not larger than the size.

    >>> format_size(65536), format_size(3 * GIB), format_size(12)
    ('64.0 KiB', '3.00 GiB', '12 B')
    """
    if abs(size_bytes) >= GIB:
        return format_gib(size_bytes)
    if abs(size_bytes) >= MIB:
        return f"{size_bytes / MIB:,.1f} MiB"
    if abs(size_bytes) >= KIB:
        return f"{size_bytes / KIB:,.1f} KiB"
    return f"{size_bytes} B"


def counted(number: int, unit: str) -> str:
    """Write a number with its unit, which is given in the plural.

    >>> counted(1, "requests"), counted(4096, "more tokens"), counted(1, "copies")
    ('1 request', '4,096 more tokens', '1 copy')
    """
    if number != 1:
        return f"{number:,} {unit}"
    one = f"{unit[:-3]}y" if unit.endswith("ies") else unit.removesuffix("s")
    return f"1 {one}"


def vllm_gib(size_bytes: int) -> str:
    """Write GiB as vLLM's messages do: rounded to two decimals, without zeros.

    >>> vllm_gib(GIB), vllm_gib(GIB * 5 // 4)
    ('1.0', '1.25')

    Source: vLLM 0.33.0 `utils/mem_utils.py` format_gib.
    """
    return str(round(size_bytes / GIB, 2))


_MOST_DIGITS = 18
"""Digits of a whole number: more than any count of bytes has."""


def whole_number(text: str) -> int | None:
    """Return a whole number of at most 18 ASCII digits; None for any other text.

    >>> whole_number("4096"), whole_number("-1"), whole_number("two")
    (4096, None, None)
    """
    is_whole = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if is_whole else None


_LONGEST_SIZE = 100
"""Characters of a size."""


def parse_size(text: str) -> int:
    """Read a size such as `80GiB`, `512 MB` or a plain number of bytes.

    Raises:
        PlannerError: when the text is not a number with a known unit.
    """
    match = re.match(_SIZE, text.strip()) if len(text) <= _LONGEST_SIZE else None
    if match is None or match[2].lower() not in _BYTES_PER_UNIT:
        known = ", ".join(unit for unit in ("B", "KiB", "MiB", "GiB", "KB", "MB", "GB"))
        raise PlannerError(
            f"Size {text!r} was not understood. "
            f"Write a number and one of: {known}, such as 80GiB."
        )
    whole, _, decimals = match[1].partition(".")
    scaled = int(whole + decimals) * _BYTES_PER_UNIT[match[2].lower()]
    return int(scaled // 10 ** len(decimals))


_MOST_NAMED = 8
_LONGEST_NAME = 80


def on_each(
    names: Sequence[str],
    one: Callable[[str, str], str],
    rest: Callable[[int, str], str],
) -> list[str]:
    """Return a sentence on each of the first names, and one on all others.

    Args:
        names: a text of others may hold thousands.
        one: a sentence from a name and how it is shown.
        rest: a sentence from the number of the others and how the last one is shown.
    """
    shown = [
        name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."
        for name in (*names[:_MOST_NAMED], *names[-1:])
    ]
    first = names[:_MOST_NAMED]
    sentences = [one(*both) for both in zip(first, shown, strict=False)]
    others = len(names) - len(first)
    return [*sentences, rest(others, shown[-1])] if others else sentences
