"""One colour, label colour and hatch per memory line, safe for colour-blind readers.

The hues are those of Okabe and Ito (Color Universal Design, 2008). Each label colour
has WCAG's contrast of 4.5:1 on its fill and on the hatch, which a test checks.
"""

from __future__ import annotations

from functools import lru_cache

from planner.memory.account import Basis
from planner.values import frozen


@frozen
class Swatch:
    """How one line of the account is drawn."""

    fill: str
    hatch: str
    """Colour of the hatch strokes on the fill."""
    label: str
    """Colour of text on the fill."""


_BLACK = "#000000"
_WHITE = "#FFFFFF"

SWATCHES = {
    "weights": Swatch(fill="#0072B2", hatch="#005A8E", label=_WHITE),
    # What features add to the weights:
    "model weights": Swatch(fill="#0072B2", hatch="#005A8E", label=_WHITE),
    "encoder weights": Swatch(fill="#486060", hatch="#2F4444", label=_WHITE),
    "LoRA adapters": Swatch(fill="#904830", hatch="#6A2F1B", label=_WHITE),
    "draft model": Swatch(fill="#7830D8", hatch="#5A1FA8", label=_WHITE),
    "frontend video decoding": Swatch(fill="#A0E080", hatch="#CDF0BC", label=_BLACK),
    "persistent buffers": Swatch(fill="#56B4E9", hatch="#A3D6F3", label=_BLACK),
    "peak activation": Swatch(fill="#E69F00", hatch="#FFCF66", label=_BLACK),
    "non-torch": Swatch(fill="#CC79A7", hatch="#E3B3CC", label=_BLACK),
    "CUDA graphs": Swatch(fill="#F0E442", hatch="#BDB219", label=_BLACK),
    "KV cache": Swatch(fill="#009E73", hatch="#24B086", label=_BLACK),
    "unused budget": Swatch(fill="#DDDDDD", hatch="#F2F2F2", label=_BLACK),
    "not planned": Swatch(fill="#BBBBBB", hatch="#DDDDDD", label=_BLACK),
    # In CPU memory, so never on one bar with the lines of a GPU:
    "offloaded weights": Swatch(fill="#0072B2", hatch="#005A8E", label=_WHITE),
    "weights while asleep": Swatch(fill="#56B4E9", hatch="#A3D6F3", label=_BLACK),
    "offloaded KV blocks": Swatch(fill="#009E73", hatch="#24B086", label=_BLACK),
    "token ids": Swatch(fill="#E69F00", hatch="#FFCF66", label=_BLACK),
    "rope positions": Swatch(fill="#F0E442", hatch="#BDB219", label=_BLACK),
    "processed images": Swatch(fill="#486060", hatch="#2F4444", label=_WHITE),
    "KV transfer buffers": Swatch(fill="#A0E080", hatch="#CDF0BC", label=_BLACK),
    "LMCache": Swatch(fill="#7830D8", hatch="#5A1FA8", label=_WHITE),
    "worker processes": Swatch(fill="#CC79A7", hatch="#E3B3CC", label=_BLACK),
    "engine processes": Swatch(fill="#BBBBBB", hatch="#DDDDDD", label=_BLACK),
    "API server": Swatch(fill="#DDDDDD", hatch="#F2F2F2", label=_BLACK),
}
OTHER = Swatch(fill="#999999", hatch="#C4C4C4", label=_BLACK)
"""For a line without a colour of its own."""
MISSING = "#D55E00"
"""Vermilion: memory that is needed but missing."""
# plotly 5 reads no alpha in hexadecimal, so colours with one are written as rgba.
CLEAR = "rgba(0, 0, 0, 0)"
EDGE = "rgba(0, 0, 0, 0.33)"
"""Between two bars of one colour."""
GRID = "rgba(128, 128, 128, 0.2)"
"""Lines behind the bars, on white and on near-black."""
FAINT = "rgba(128, 128, 128, 0.13)"
"""Where nothing is allocated or served."""

PLOTLY_HATCHES = {
    Basis.EXACT: "",
    Basis.DRY_RUN: "-",
    Basis.FORMULA: "/",
    Basis.MEASURED: ".",
    Basis.ASSUMED: "x",
}


def swatch(name: str) -> Swatch:
    """Return how the line called `name` is drawn."""
    return SWATCHES.get(name, OTHER)


def faded(colour: str, alpha: float) -> str:
    """Return a colour, written in hexadecimal, with an alpha.

    >>> faded("#0072B2", 0.5)
    'rgba(0, 114, 178, 0.50)'
    """
    red, green, blue = bytes.fromhex(colour[1:])
    return f"rgba({red}, {green}, {blue}, {alpha:.2f})"


@lru_cache(256)
def css_background(name: str, basis: Basis) -> str:
    """Write a line's fill and hatch as a CSS background, as the chart draws them."""
    colours = swatch(name)
    stripes = f"{colours.hatch} 0 2px, transparent 2px 6px"
    layers = {
        Basis.EXACT: (),
        Basis.DRY_RUN: (f"repeating-linear-gradient(0deg, {stripes})",),
        Basis.FORMULA: (f"repeating-linear-gradient(135deg, {stripes})",),
        Basis.MEASURED: (f"radial-gradient({colours.hatch} 30%, transparent 32%)",),
        Basis.ASSUMED: (
            f"repeating-linear-gradient(135deg, {stripes})",
            f"repeating-linear-gradient(45deg, {stripes})",
        ),
    }[basis]
    sized = [
        f"{layer} 0 0 / 6px 6px" if "radial" in layer else layer for layer in layers
    ]
    return ", ".join([*sized, colours.fill])
