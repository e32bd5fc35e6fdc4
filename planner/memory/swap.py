"""The swap space that older releases checked, and no longer took.

Their engine of today keeps no blocks in it, but refuses to start where it would take
more than 70 % of the machine's memory.

Source: vLLM 0.9.2 `config.py` and 0.10.0 to 0.17.1 `config/cache.py`
verify_with_parallel_config; gone with 0.18.0.
"""

from __future__ import annotations

from math import ceil

from planner.errors import Refused
from planner.releases import Release
from planner.units import GIB, vllm_gib

_USUAL_GIB = 4.0
_MOST_PERCENT = 70
_GONE = (0, 18)
_SHORT_FIGURES = (0, 14)


def check_swap_space(
    asked: object,
    tensor_parallel_size: int,
    capacity_bytes: int | None,
    release: Release,
) -> None:
    """Refuse more swap space than 70 % of a machine's memory, where that is known.

    Raises:
        Refused: in vLLM's words.
    """
    if capacity_bytes is None or release.since(*_GONE):
        return
    gib = asked if isinstance(asked, int | float) else _USUAL_GIB
    taken = ceil(gib * GIB) * tensor_parallel_size
    if 100 * taken > _MOST_PERCENT * capacity_bytes:
        raise Refused(
            f"Too large swap space. {_figure(taken, release)} GiB out of the "
            f"{_figure(capacity_bytes, release)} GiB total CPU memory is allocated for "
            "the swap space."
        )


def _figure(size_bytes: int, release: Release) -> str:
    if release.since(*_SHORT_FIGURES):
        return vllm_gib(size_bytes)
    return f"{size_bytes / GIB:.2f}"
