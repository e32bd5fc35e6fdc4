"""Tables of plain text, as a terminal shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def columns(rows: Iterable[Sequence[str]], sides: str = "<>") -> list[str]:
    """Write a table's rows, each column as wide as its widest cell.

    `sides` has a sign for each column: "<" aligns it left, ">" right. The last sign
    applies to all columns that follow.

    >>> columns([("", "tokens"), ("A", "8")])
    ['   tokens', 'A       8']
    >>> columns([("", "state"), ("A", "fits")], "<")
    ['   state', 'A  fits']
    """
    cells = list(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    signs = sides.ljust(len(widths), sides[-1])
    formats = [f"{sign}{width}" for sign, width in zip(signs, widths, strict=False)]
    return ["  ".join(map(format, row, formats)).rstrip() for row in cells]
