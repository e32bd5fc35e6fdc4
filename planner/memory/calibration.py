"""What only a GPU can tell, fitted to published start-ups.

The figures, the starts behind them and their residuals lie in `data/calibration/`;
`tools/calibrate.py` writes them anew.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from planner.units import GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A fitted figure, and within which bounds nine of ten starts lie."""

    size_bytes: int
    low_bytes: int
    high_bytes: int
    starts: int
    """How many published starts stand behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFit:
    """Memory of CUDA graphs: a pool, and so much for each graph of each layer."""

    pool_bytes: dict[str, int]
    """By generation: hopper, or other."""
    bytes_per_layer_and_graph: float
    low_bytes: int
    """How far below the fit nine of ten starts lie; negative."""
    high_bytes: int
    starts: int


def non_torch(name: str) -> Fitted:
    """Return a part of the memory that PyTorch does not know of, by its name.

    Raises:
        KeyError: when the calibration has no such part.
    """
    entry = _table("non_torch")["parts"][name]
    return Fitted(
        size_bytes=_bytes(entry["gib"]),
        low_bytes=_bytes(entry["low_gib"]),
        high_bytes=_bytes(entry["high_gib"]),
        starts=len(entry["starts"]),
    )


def experts(*, is_batch_given: bool) -> tuple[float, float]:
    """Return between which multiples of the formula published starts of experts lie."""
    key = "given" if is_batch_given else "default"
    entry = _table("experts")[key]
    return float(entry["low"]), float(entry["high"])


def graphs(name: str) -> GraphFit:
    """Return the fit of "estimated" or "actual" graph memory."""
    entry = _table("cudagraphs")[name]
    return GraphFit(
        pool_bytes={key: _bytes(gib) for key, gib in entry["pool_gib"].items()},
        bytes_per_layer_and_graph=entry["mib_per_layer_and_graph"] * (1 << 20),
        low_bytes=_bytes(entry["low_gib"]),
        high_bytes=_bytes(entry["high_gib"]),
        starts=len(entry["starts"]),
    )


@cache
def _table(name: str) -> dict[str, Any]:
    path = Path(__file__).parents[1] / "data" / "calibration" / f"{name}.json"
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return table


def _bytes(gib: float) -> int:
    return round(gib * GIB)
