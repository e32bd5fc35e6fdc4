"""Sizes as the numbers that plotly draws, and the measures of a bar."""

from __future__ import annotations

from planner.units import GIB

INK = "#767676"
"""Reads on white and on near-black; a page with a theme replaces it by its own."""
FONT = (
    "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'Liberation Sans', sans-serif"
)
BAR_PIXELS = 42
GAP_PIXELS = 40
"""Half of it below a bar holds a label, whether there is one or not: a plan that no
longer fits moves nothing on the page."""


def in_gib(size_bytes: int) -> float:
    """Return a size for drawing; three decimals of a GiB are finer than a pixel."""
    return round(max(size_bytes, 0) / GIB, 3)
