"""What a terminal can show: its width, whether it has colours, and text for it.

Colour never says anything alone: a verdict has its symbol, a part of a bar its pattern.
Without a terminal, the text is the same without colours, and its lines are as long as
they are, so that a program finds a figure and its arithmetic in one line; COLUMNS folds
them all the same.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from contextlib import suppress
from io import StringIO, TextIOWrapper
from itertools import groupby, pairwise
from typing import ParamSpec, TextIO

from planner.errors import PlannerError
from planner.units import whole_number
from planner.values import frozen

NARROWEST, USUAL, WIDEST = 60, 80, 200
UNBOUNDED = 1 << 20
"""The width of what is no terminal."""
COLORS = ("auto", "always", "never")
_STRICT = ("strict", "surrogateescape")
"""How Python's own standard output treats what its encoding lacks."""
_IN_PLAIN = "planner.plain"
_PLAIN = {
    "✔": "OK",
    "✘": "X",
    "⊘": "X",
    "\u00d7": "x",
    "·": "-",
    "…": "...",
    "▏": "|",
    "≈": "~",
    "≤": "<=",
    "≥": ">=",
    "→": "->",
    "│": "|",
    "◐": "o",
    **dict.fromkeys("█▓▒░▉▊▋▌▍▎▩▨▧▦▥▤▞▚", "#"),
}
"""For the characters that the planner writes, where a code page lacks them."""
_GREEN, _YELLOW, _RED = "32", "33", "31"
_OF_SYMBOL = {"✔": _GREEN, "!": _YELLOW, "✘": _RED, "⊘": _RED}
_VERDICT = re.compile(r"^( *)([✔!✘⊘]) (\S.*)$", re.MULTILINE)
_IN_A_TABLE = re.compile(r"(?<=  )([✔!✘⊘])(?= \S)")
_NUMBER_AND_UNIT = re.compile(
    r"(?<=\d) (?=(?:[KMGT]i?B|bytes|tokens|requests|blocks)\b)"
)
_CONTROL = re.compile(
    r"(?!\x1b\[(?:0|(?:1;)?3[0-7]|38;5;\d+|38;2;\d+;\d+;\d+)m)"
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
"""Control characters, without line breaks, tabs and what begins a colour."""
_BOUND = "\0"
"""Stands for a space that no line may break at."""
_HANGS_FROM = 60
"""Columns that arithmetic needs to stand beside its figure."""
_NAME, _FIGURE, _BASIS = 19, 12, 8
_INDENT = 6
_LONGEST_CELL = 40
"""Characters; what is longer at the end of a row is a sentence."""
_COMMAND = re.compile(r" *(?:vllm |planner |docker |--\w|\[-|\w+=\S+ vllm )")
"""A line to be copied."""
_Given = ParamSpec("_Given")


@frozen
class Screen:
    """Where text is shown."""

    width: int = UNBOUNDED
    """In characters, from 60 to 200; `UNBOUNDED` without a terminal."""
    has_color: bool = False
    is_terminal: bool = False
    """Whether somebody looks at it, so that a picture is of use."""

    def shown(self, text: str) -> str:
        """Return text laid out for the width, with its verdicts in colour."""
        return self.painted(laid_out(text, self.width))

    def painted(self, text: str) -> str:
        """Return text with its verdicts in colour, where there are colours."""
        if not self.has_color:
            return text
        text = _VERDICT.sub(_whole_verdict, text)
        return _IN_A_TABLE.sub(_symbol, text)

    def dyed(self, text: str, style: str) -> str:
        """Return text in a style (SGR parameters), where there are colours."""
        return f"\x1b[{style}m{text}\x1b[0m" if self.has_color and style else text


class _Visible(TextIOWrapper):
    """Output in which control characters are seen, not obeyed, but for colours.

    A name in a file of others could set the window's title, or write over a verdict; a
    pipe ends on a terminal too, or in the log of a workflow.
    """

    def write(self, text: str) -> int:
        """Write text, and return how long it is as it was given."""
        super().write(_CONTROL.sub(lambda one: f"\\x{ord(one[0][0]):02x}", text))
        return len(text)


class _Closed(StringIO):
    """Standard output where there is none: what would be lost is refused."""

    def write(self, _text: str) -> int:
        """Refuse.

        Raises:
            PlannerError: always.
        """
        raise PlannerError(
            "Standard output is closed, so the answer cannot be shown. Let it go to a "
            "terminal, a pipe or a file: `planner ... > answer.txt`."
        )


def prepare_output() -> None:
    """Make every text writable: in an old code page, and where there is no output."""
    if sys.stderr is None:
        sys.stderr = StringIO()
    if sys.stdout is None:
        sys.stdout = _Closed()
    elif isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors in _STRICT:
        codecs.register_error(_IN_PLAIN, _in_plain)
        sys.stdout.reconfigure(errors=_IN_PLAIN)
    sys.stdout, sys.stderr = _visible(sys.stdout), _visible(sys.stderr)


def _visible(stream: TextIO) -> TextIO:
    if not isinstance(stream, TextIOWrapper):
        return stream
    kept = {
        name: getattr(stream, name)
        for name in ("encoding", "errors", "line_buffering", "write_through")
    }
    return _Visible(stream.detach(), **kept)


def _in_plain(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return plain characters for those that an encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    plain = "".join(
        _PLAIN.get(one) or one.encode("ascii", "backslashreplace").decode()
        for one in lacking
    )
    return plain, error.end


def screen_of(stream: TextIO | None = None, color: str = "auto") -> Screen:
    """Return what a stream shows; None: standard output.

    `color` "auto" means colours on a terminal, unless NO_COLOR is set; FORCE_COLOR asks
    for them elsewhere too.
    """
    found = sys.stdout if stream is None else stream
    is_terminal = found is not None and found.isatty()
    return Screen(
        width=width_of(found),
        has_color=_has_color(color, is_terminal=is_terminal),
        is_terminal=is_terminal,
    )


def width_of(stream: TextIO | None = None) -> int:
    """Return COLUMNS, else the terminal's width, within 60 to 200; else `UNBOUNDED`."""
    found = sys.stdout if stream is None else stream
    given = os.environ.get("COLUMNS", "")
    if columns := whole_number(given):
        width = columns
    elif found is not None and found.isatty():
        width = USUAL
        with suppress(OSError):  # not that of a real terminal
            width = os.get_terminal_size(found.fileno()).columns or USUAL
    else:
        return UNBOUNDED
    return max(NARROWEST, min(width, WIDEST))


def _has_color(color: str, *, is_terminal: bool) -> bool:
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_terminal and os.environ.get("TERM", "") != "dumb"


def fold(text: str, width: int, hang: int = 2) -> list[str]:
    """Return text as lines of at most `width`, those after the first indented.

    A number stays beside its unit; a word that is longer than a line stays whole.

    >>> fold("weights 15.27 GiB and more", 20)
    ['weights 15.27 GiB', '  and more']
    """
    from textwrap import wrap  # noqa: PLC0415 - slow

    bound = _NUMBER_AND_UNIT.sub(_BOUND, text)
    lines = wrap(
        bound,
        width,
        subsequent_indent=" " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_BOUND, " ") for line in lines] or [""]


def row(name: str, figure: str, basis: str, why: str, *, width: int) -> list[str]:
    """Return the lines of one figure: its name, size, basis and arithmetic.

    The arithmetic stands beside the figure where it has room, else below it.
    """
    head = f"  {name:<{_NAME}}{figure:>{_FIGURE}}  {basis:<{_BASIS}}  "
    return _hung(head, why, width)


def _hung(head: str, why: str, width: int) -> list[str]:
    beside = width - len(head)
    if len(why) <= beside:
        return [head + why]
    if beside >= _HANGS_FROM:
        first, *rest = fold(why, beside, 0)
        return [head + first, *(" " * len(head) + line for line in rest)]
    below = fold(why, width - _INDENT, 0)
    return [head.rstrip(), *(" " * _INDENT + line for line in below)]


def laid_out(text: str, width: int) -> str:
    """Return text for a width: sentences folded, wide tables in parts.

    Commands stay in one line, to be copied, and so do figures.
    """
    if max(map(len, text.splitlines()), default=0) <= width:
        return text
    lines: list[str] = []
    for is_empty, block in groupby(text.splitlines(), key=lambda line: not line):
        found = list(block)
        lines += found if is_empty else _block(found, width)
    return "\n".join(lines)


def _block(lines: list[str], width: int) -> list[str]:
    """Lay out lines that follow each other: a table, or sentences one by one."""
    if max(map(len, lines)) <= width:
        return lines
    columns = _columns(lines)
    if len(lines) > 1 and len(columns) > 1:
        last, _ = columns[-1]
        is_prose = max(len(line) - last for line in lines) > _LONGEST_CELL
        return (
            _arithmetic_below(lines, last, width)
            if is_prose
            else _in_parts(lines, columns, width)
        )
    hang = 2 if len(lines) > 1 else 0
    return [part for line in lines for part in _sentence(line, width, hang)]


def _columns(lines: list[str]) -> list[tuple[int, int]]:
    """Return where each column begins and ends: two spaces of all lines part them."""
    longest = max(map(len, lines))
    filled = "".join(
        " " if all(line[at : at + 1] in ("", " ") for line in lines) else "x"
        for at in range(longest)
    )
    return [match.span() for match in re.finditer(r"\S+(?: \S+)*", filled)]


def _arithmetic_below(lines: list[str], last: int, width: int) -> list[str]:
    """Fold the last column, where it is sentences, below the others."""
    folded = []
    for line in lines:
        head, why = line[:last], line[last:]
        if len(line) <= width or last > width:
            folded.append(line)
        else:
            folded += _hung(head, why, width)
    return folded


def _in_parts(
    lines: list[str], columns: list[tuple[int, int]], width: int
) -> list[str]:
    """Write a table as several below each other, each with the first column."""
    ends = [end for _, end in columns]
    names = [line[: ends[0]].ljust(ends[0]) for line in lines]
    parts: list[list[slice]] = [[]]
    room = width - ends[0]
    for start, end in pairwise(ends):
        if parts[-1] and end - start > room:
            parts.append([])
            room = width - ends[0]
        parts[-1].append(slice(start, end))
        room -= end - start
    written = []
    for part in parts:
        written += [
            (name + "".join(line[c].ljust(c.stop - c.start) for c in part)).rstrip()
            for name, line in zip(names, lines, strict=True)
        ]
        written.append("")
    return written[:-1]


def _sentence(line: str, width: int, hang: int) -> list[str]:
    if _COMMAND.match(line):
        return [line]
    indent = len(line) - len(line.lstrip())
    hang = 2 if _VERDICT.match(line) else hang
    return [" " * indent + one for one in fold(line[indent:], width - indent, hang)]


def _whole_verdict(match: re.Match[str]) -> str:
    """Paint the verdict at the beginning of a line, up to its figures."""
    indent, symbol, words = match.groups()
    headline, colon, rest = words.partition(":")
    style = f"1;{_OF_SYMBOL[symbol]}"
    return f"{indent}\x1b[{style}m{symbol} {headline}{colon}\x1b[0m{rest}"


def _symbol(match: re.Match[str]) -> str:
    return f"\x1b[{_OF_SYMBOL[match[1]]}m{match[1]}\x1b[0m"
