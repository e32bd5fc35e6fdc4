"""The L2 cache of a GPU, whose size some of PyTorch's buffers have."""

from __future__ import annotations

from planner.engine.gpu import GPU
from planner.units import MIB

# MiB by the first word of the catalogue's name. A slice of a card is taken for a whole.
# Source: NVIDIA's architecture papers and data sheets.
_BY_NAME = {
    "A2": 2,
    "A30": 24,
    "A4000": 4,
    "B300": 126,
    "GB300": 126,
    "H20": 60,
    "L4": 48,
    "L20": 96,
    "L40": 96,
    "L40S": 96,
    "RTX2080Ti": 5.5,
    "RTX3060": 3,
    "RTX3080": 5,
    "RTX4000Ada": 48,
    "RTX4060Ti": 32,
    "RTX4070": 36,
    "RTX4070TiSuper": 48,
    "RTX4080": 64,
    "RTX4080Super": 64,
    "RTX5000Ada": 64,
    "RTX5060Ti": 32,
    "RTX5070": 48,
    "RTX5070Ti": 48,
    "RTX5080": 64,
    "RTX5090": 96,
    "RTX6000Ada": 96,
    "T4": 4,
}
# MiB of the usual cards of a compute capability.
_BY_CAPABILITY = {
    (7, 0): 6,
    (7, 5): 6,
    (8, 0): 40,
    (8, 6): 6,
    (8, 7): 4,
    (8, 9): 72,
    (9, 0): 50,
    (10, 0): 126,
    (10, 3): 126,
    (11, 0): 32,
    (12, 0): 128,
    (12, 1): 24,
}


def l2_cache_bytes(gpu: GPU) -> int:
    """Return the size of the L2 cache; 0 for a GPU of an unknown generation."""
    known = _BY_CAPABILITY.get(gpu.compute_capability, 0)
    return int(_BY_NAME.get(gpu.name.partition("-")[0], known) * MIB)
