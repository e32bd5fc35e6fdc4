"""GPUs by their memory: of a log that names none, of "a 24 GB card"."""

from __future__ import annotations

from collections.abc import Sequence

from planner.engine.generations import AMPERE
from planner.engine.gpu import catalogue
from planner.solve.price_list import list_prices
from planner.units import GIB, format_gib

_SAME_SIZE = 0.2 * GIB, 0.005
"""How far totals of one kind of GPU are apart, in bytes or as a share: drivers differ.

Source: published logs with 23.65 and 23.52 GiB of an RTX 4090, and with 179.06 and
178.35 GiB of a B200.
"""


def gpus_of_gib(size: int) -> list[str]:
    """Return the GPUs that are sold with so many GB, and report a little less."""
    return of_size(round(0.96 * size * GIB), within=round(0.06 * size * GIB))


def of_size(
    total: int, *, within: int | None = None, is_bfloat16: bool = True
) -> list[str]:
    """Return the GPUs of a size: what one can rent first, then the newest."""
    rented = list_prices().prices
    least, share = _SAME_SIZE
    apart = max(least, share * total) if within is None else within
    found = [
        gpu
        for gpu in catalogue()
        if not gpu.mig_profile
        and abs(gpu.total_memory_bytes - total) <= apart
        and (gpu.compute_capability >= AMPERE or not is_bfloat16)
    ]
    found.sort(
        key=lambda gpu: (
            gpu.name not in rented,
            -gpu.compute_capability[0],
            -gpu.compute_capability[1],
        )
    )
    return [gpu.name for gpu in found]


def same_size_words(names: Sequence[str], total: int) -> str:
    """Say which of several GPUs with the same memory was taken."""
    first, *others = names
    also = f", and so have {', '.join(others)}" if others else ""
    return (
        f"The text names no GPU. {first} has the {format_gib(total)} that it reports"
        f"{also}: planned on {first} unless another is named."
    )
