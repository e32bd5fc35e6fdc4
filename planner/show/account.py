"""A text with its pieces marked: used, kept, open or not understood."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from planner.show.html import Content, Html, fragment, tag
from planner.show.pieces import NOTHING, to_open

if TYPE_CHECKING:
    from planner.reading.account import Piece
    from planner.reading.reading import Reading

USES = ("used", "kept", "open", "not understood")
"""As `planner.reading.account.Use` has them."""
_LONGEST, _MOST_LINES = 20_000, 12
"""Characters that are marked, and lines that are shown without being opened."""
_KEY = re.compile(
    r"(?i)((?:api[-_]?key|token|passw(?:or)?d|secret)[\w-]{0,40}"
    r"(?:\"|')?[ \t]*(?:[=:,][ \t]*|[ \t])[\"']?)([^\s\"',]+)"
)
"""What only its owner should see, behind its name."""
_TITLE = "Your text, piece by piece"


def account_html(reading: Reading) -> Html:
    """Show a text with its pieces marked; a long one is folded, a log is left out."""
    text = reading.given
    if len(text) > _LONGEST or reading.log is not None or not text.strip():
        return NOTHING
    pieces = reading.account
    hidden = _KEY.sub(lambda match: match[1] + "\u2022" * len(match[2]), text)
    written = tag(
        "pre",
        _marked(hidden, pieces),
        class_="pl-account",
        tabindex="0",
        aria_label=_TITLE,
    )
    inside = fragment(tag("style", _style()), _legend(), written)
    said = f"{_TITLE}: {summary_of(pieces)}"
    if text.strip().count("\n") >= _MOST_LINES:
        return to_open(said, inside, key="account")
    return fragment(tag("p", said, class_="pl-account-said"), inside)


def summary_of(pieces: Sequence[Piece]) -> str:
    """Say how much of a text is used, kept, open and not understood."""
    counts = Counter(str(piece.use) for piece in pieces)
    return ", ".join(f"{counts[use]:,} {use}" for use in USES)


def not_understood(pieces: Sequence[Piece]) -> list[str]:
    """Return what was not understood, each with what it would have to be.

    Of a flag and its values, which are told alike, the flag alone.
    """
    found = [piece for piece in pieces if piece.use == USES[-1]]
    before = [None, *found]
    return [
        f"{one.text!r}: {one.what}"
        for last, one in zip(before, found, strict=False)
        if last is None or last.what != one.what or one.text.startswith("-")
    ]


def _marked(text: str, pieces: Sequence[Piece]) -> Iterator[Content]:
    done = 0
    for piece in pieces:
        yield text[done : piece.start]
        yield tag(
            "span",
            text[piece.start : piece.end],
            data_use=piece.use.replace(" ", "-"),
            title=f"{piece.use}: {piece.what}",
        )
        done = piece.end
    yield text[done:]


def _legend() -> Html:
    keys = [tag("span", use, data_use=use.replace(" ", "-")) for use in USES]
    return tag("p", keys, class_="pl-account-legend", aria_hidden="true")


def _style() -> Html:
    sheet = Path(__file__).parent / "account.css"
    return Html(sheet.read_text(encoding="utf-8"))
