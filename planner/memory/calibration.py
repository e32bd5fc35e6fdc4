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
    """By generation: Hopper and later, or earlier."""
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
    return _fitted("non_torch", name)


def _fitted(table: str, name: str) -> Fitted:
    entry = _table(table)["parts"][name]
    return Fitted(
        size_bytes=_bytes(entry["gib"]),
        low_bytes=_bytes(entry["low_gib"]),
        high_bytes=_bytes(entry["high_gib"]),
        starts=len(entry["starts"]),
    )


def processor_part(name: str) -> Fitted:
    """Return a part of what a worker on a processor takes, by its name.

    Raises:
        KeyError: when the calibration has no such part.
    """
    return _fitted("processor", name)


def experts_range(size_bytes: int, *, is_batch_given: bool) -> tuple[int, int]:
    """Return by how much published starts need less and more for routed experts.

    Which kernel serves experts, and what it takes for itself, depends on what is
    installed and on variables that no argument shows. `size_bytes` is the formula's.
    """
    entry = _table("experts")["given" if is_batch_given else "default"]
    below, above = 1 - float(entry["low"]), float(entry["high"]) - 1
    return int(below * size_bytes), int(above * size_bytes)


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
