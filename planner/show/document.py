"""A page of its own around what is shown: its style sheets, narrow or wide."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from planner.show.html import Content, Html, fragment, tag
from planner.show.pieces import NOTHING


@cache
def tokens() -> str:
    """Return the design's colours, type and spacing as a style sheet."""
    return _sheet("tokens.css")


@cache
def style() -> Html:
    """Return the style sheet that this page and the explorer share."""
    return Html(f"{tokens()}\n{_sheet('plan.css')}")


def _sheet(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def whole(
    *content: Content, class_: str = "pl-plan pl-whole", sheets: Html = NOTHING
) -> Html:
    """Wrap content in the box of a plan, with the style sheets that it needs."""
    styled = tag("style", style(), sheets)
    return fragment(styled, tag("div", content, class_=class_))


@cache
def wide_style() -> Html:
    """Return the styles of tables of plans, changes, sweeps, GPUs and bounds."""
    return Html(_sheet("comparison.css"))


def wide_page(*content: Content) -> Html:
    """Wrap content with wide tables in the box of a plan, with its style sheets."""
    return whole(*content, sheets=wide_style())
