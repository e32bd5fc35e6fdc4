"""Sizes as the numbers that plotly draws, and the measures of a bar."""

from __future__ import annotations

from planner.units import GIB

INK = "#767676"
"""Reads on white and on near-black; a page with a theme replaces it by its own."""
FONT = (
    "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'Liberation Sans', sans-serif"
)
BAR_PIXELS = 46
GAP_PIXELS = 24
LABEL_PIXELS = 20
"""More gap where a label stands below each bar."""


def in_gib(size_bytes: int) -> float:
    """Return a size for drawing; three decimals of a GiB are finer than a pixel."""
    return round(max(size_bytes, 0) / GIB, 3)
