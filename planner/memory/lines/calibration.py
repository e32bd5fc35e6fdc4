"""Figures that only a GPU can show, fitted to published starts.

The figures, the starts behind them and their residuals are in `data/calibration/`,
which `tools/calibrate.py` generates.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from planner.data import DATA
from planner.units import GIB
from planner.values import frozen


@frozen
class Fitted:
    """A fitted figure, with the bounds that contain nine of ten starts."""

    size_bytes: int
    low_bytes: int
    high_bytes: int
    starts: int
    """The number of published starts behind it."""


@frozen
class GraphFit:
    """Memory of CUDA graphs: a pool, and a constant for each graph of each layer."""

    pool_bytes: dict[str, int]
    """By generation: Hopper and later, or earlier."""
    bytes_per_layer_and_graph: float
    latent_weight: float
    """How many layers one of latent attention counts as."""
    low_share: float
    """Lower bound of nine of ten starts as a share of the fit."""
    high_share: float
    starts: int

    def range_of(self, size_bytes: int) -> tuple[int, int]:
        """Return the bounds of a fitted size."""
        return int(self.low_share * size_bytes), int(self.high_share * size_bytes)


def non_torch(name: str) -> Fitted:
    """Return a part of the memory that PyTorch does not allocate, by its name.

    Raises:
        KeyError: when the calibration has no such part.
    """
    return _fitted("non_torch", name)


def context_of(threads: int) -> Fitted:
    """Return CUDA's context on a GPU that holds so many threads at once."""
    entry = _table("non_torch")["context"]
    return Fitted(
        size_bytes=entry["bytes_per_thread"] * threads,
        low_bytes=entry["low"] * threads,
        high_bytes=entry["high"] * threads,
        starts=len(entry["starts"]),
    )


def processor_part(name: str) -> Fitted:
    """Return a part of the memory of a worker of the CPU build, by its name.

    Raises:
        KeyError: when the calibration has no such part.
    """
    return _fitted("processor", name)


def experts_range(size_bytes: int, *, is_batch_given: bool) -> tuple[int, int]:
    """Return by how much published starts fall below and exceed the formula's size.

    Which kernel serves routed experts, and what it allocates, depends on the installed
    packages and on environment variables that no argument shows.
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
        latent_weight=entry["latent_weight"],
        low_share=entry["low_share"],
        high_share=entry["high_share"],
        starts=len(entry["starts"]),
    )


def error_bytes(table: str, name: str) -> int:
    """Return the mean error of a fitted figure for starts that were left out of it."""
    entries = _table(table)
    entry = entries.get("parts", entries)[name]
    return _bytes(entry["left_out_error_gib"] or 0.0)


def _fitted(table: str, name: str) -> Fitted:
    entry = _table(table)["parts"][name]
    return Fitted(
        size_bytes=_bytes(entry["gib"]),
        low_bytes=_bytes(entry["low_gib"]),
        high_bytes=_bytes(entry["high_gib"]),
        starts=len(entry["starts"]),
    )


@cache
def _table(name: str) -> dict[str, Any]:
    path = DATA / "calibration" / f"{name}.json"
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return table


def _bytes(gib: float) -> int:
    return round(gib * GIB)
