"""A QR code of a short address, by the standard library alone.

Bytes at the lowest level of error correction, which is enough for a screen: versions 1
to 5 have a single block each, so 106 bytes fit. A package for these few lines would
have to be installed, locked and audited by everybody who serves the app.

Source: ISO/IEC 18004:2015, sections 7 and 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby, pairwise, product

from planner.errors import PlannerError

_BLOCKS = ((19, 7), (34, 10), (55, 15), (80, 20), (108, 26))
"""Bytes of data and of correction, of versions 1 to 5 at level L."""
MOST_BYTES = _BLOCKS[-1][0] - 2
_LEVEL = 0b01
_QUIET = 4
"""Modules of the margin."""
_MASKS: tuple[Callable[[int, int], int], ...] = (
    lambda y, x: (y + x) % 2,
    lambda y, _x: y % 2,
    lambda _y, x: x % 3,
    lambda y, x: (y + x) % 3,
    lambda y, x: (y // 2 + x // 3) % 2,
    lambda y, x: y * x % 2 + y * x % 3,
    lambda y, x: (y * x % 2 + y * x % 3) % 2,
    lambda y, x: ((y + x) % 2 + y * x % 3) % 2,
)
"""A module is turned where it is 0."""
_FINDER = (True, False, True, True, True, False, True)


def qr_path(text: str) -> tuple[int, str]:
    """Return the width of a QR code, and its dark modules as the path of an SVG.

    Raises:
        PlannerError: for more than 106 bytes.
    """
    rows = qr_modules(text)
    squares = (
        f"M{x + _QUIET} {y + _QUIET}h1v1h-1z"
        for y, row in enumerate(rows)
        for x, is_dark in enumerate(row)
        if is_dark
    )
    return len(rows) + 2 * _QUIET, "".join(squares)


def qr_modules(text: str) -> list[list[bool]]:
    """Return the modules of a QR code, row by row; dark ones are true.

    Raises:
        PlannerError: for more than 106 bytes.
    """
    content = text.encode()
    fitting = [n for n, (room, _) in enumerate(_BLOCKS) if len(content) <= room - 2]
    if not fitting:
        raise PlannerError(f"A QR code here has at most {MOST_BYTES} bytes.")
    version = fitting[0] + 1
    words = _words(content, *_BLOCKS[version - 1])
    drawn = (_drawn(version, words, mask) for mask in range(len(_MASKS)))
    return min(drawn, key=_penalty)


def _words(content: bytes, room: int, correction: int) -> bytes:
    """Return the data, filled up to the block's room, and its correction."""
    bits = f"0100{len(content):08b}{''.join(f'{byte:08b}' for byte in content)}0000"
    data = int(bits, 2).to_bytes(len(bits) // 8, "big")
    pad = bytes((0xEC, 0x11)) * room
    whole = data + pad[: room - len(data)]
    return whole + remainder(whole, correction)


def _times(a: int, b: int) -> int:
    """Multiply in the field of 256 elements that QR codes use."""
    found = 0
    for bit in range(7, -1, -1):
        found = found << 1 ^ (0x11D if found & 0x80 else 0)
        found ^= a if b >> bit & 1 else 0
    return found


def remainder(data: bytes, count: int) -> bytes:
    """Return the Reed-Solomon bytes of data: together they are 0 at `count` powers."""
    factors, root = [1], 1
    for _ in range(count):
        longer = [*factors, 0]
        for at, factor in enumerate(factors):
            longer[at + 1] ^= _times(factor, root)
        factors, root = longer, _times(root, 2)
    rest = bytearray(count)
    for byte in data:
        first = byte ^ rest[0]
        rest = rest[1:] + b"\0"
        for at, factor in enumerate(factors[1:]):
            rest[at] ^= _times(factor, first)
    return bytes(rest)


def _drawn(version: int, words: bytes, mask: int) -> list[list[bool]]:
    size = 17 + 4 * version
    fixed = dict(_patterns(version, size)) | dict(_format(mask, size))
    bits = (byte >> shift & 1 for byte in words for shift in range(7, -1, -1))
    for y, x in _path(size):
        if (y, x) not in fixed:
            fixed[y, x] = bool(next(bits, 0)) ^ (_MASKS[mask](y, x) == 0)
    return [[fixed[y, x] for x in range(size)] for y in range(size)]


def _patterns(version: int, size: int) -> Iterator[tuple[tuple[int, int], bool]]:
    """Yield the modules that every code of a version has."""
    for at in range(size):
        yield (6, at), at % 2 == 0
        yield (at, 6), at % 2 == 0
    if version > 1:
        for y, x in product(range(-2, 3), repeat=2):
            yield (size - 7 + y, size - 7 + x), max(abs(y), abs(x)) != 1
    for top, left in ((3, 3), (3, size - 4), (size - 4, 3)):
        for y, x in product(range(-4, 5), repeat=2):
            if 0 <= top + y < size and 0 <= left + x < size:
                yield (top + y, left + x), max(abs(y), abs(x)) not in (2, 4)


def _format(mask: int, size: int) -> Iterator[tuple[tuple[int, int], bool]]:
    """Yield the level and the mask, twice, and the module that is always dark."""
    word = rest = (_LEVEL << 3 | mask) << 10
    for shift in range(4, -1, -1):
        rest ^= 0x537 << shift if rest >> 10 + shift & 1 else 0
    word = (word | rest) ^ 0x5412
    beside = [0, 1, 2, 3, 4, 5, 7, 8]
    for at in range(15):
        is_dark = bool(word >> at & 1)
        yield (beside[at] if at < 8 else size - 15 + at, 8), is_dark  # noqa: PLR2004
        place = size - 1 - at if at < 8 else beside[14 - at]  # noqa: PLR2004
        yield (8, place), is_dark
    yield (size - 8, 8), True


def _path(size: int) -> Iterator[tuple[int, int]]:
    """Yield the places of bits: two columns at a time, up and down, from the right."""
    columns = [x for x in range(size - 1, 0, -2) if x > 6]  # noqa: PLR2004 - the timing
    for number, right in enumerate((*columns, 5, 3, 1)):
        rows = range(size) if number % 2 else range(size - 1, -1, -1)
        yield from ((y, x) for y in rows for x in (right, right - 1))


def _penalty(rows: list[list[bool]]) -> int:
    """Return how hard a code is to read; the mask with the least is used."""
    lines = [*rows, *map(list, zip(*rows, strict=True))]
    total = 0
    for line in lines:
        runs = [len(list(group)) for _, group in groupby(line)]
        total += sum(length - 2 for length in runs if length >= 5)  # noqa: PLR2004
        for begin in range(len(line) - 10):
            part = tuple(line[begin : begin + 11])
            blank = (False,) * 4
            total += 40 * (part in ((*blank, *_FINDER), (*_FINDER, *blank)))
    for upper, lower in pairwise(rows):
        squares = zip(upper, upper[1:], lower, lower[1:], strict=False)
        total += 3 * sum(len(set(four)) == 1 for four in squares)
    dark = sum(map(sum, rows)) / len(rows) ** 2
    return total + 10 * int(abs(dark - 0.5) * 20)
