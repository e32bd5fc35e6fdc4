"""Shapes of weights that Marlin's kernels take, and the padding up to them.

Source: vLLM 0.33.0 `layers/quantization/utils/marlin_utils.py`.
"""

from __future__ import annotations

from math import lcm

from planner.quantization.rounding import round_up


def padded_nk(size_n: int, size_k: int, group_size: int = -1) -> tuple[int, int]:
    """Return rows and columns after padding to the cheaper of Marlin's two tiles.

    Tiles are 64 rows by 128 columns or the reverse; columns stay whole groups.

    Source: marlin_padded_nk.
    """
    group = group_size if group_size > 0 else 1
    candidates = (
        (round_up(size_n, 64), round_up(size_k, lcm(128, group))),
        (round_up(size_n, 128), round_up(size_k, lcm(64, group))),
    )
    return min(candidates, key=lambda nk: (nk[0] * nk[1], nk[0] + nk[1]))
