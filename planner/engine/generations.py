"""Generations of NVIDIA's GPUs, by the compute capability with which each begins."""

from __future__ import annotations

from typing import NamedTuple


class Capability(NamedTuple):
    """A compute capability; it compares with the pair that a GPU has."""

    major: int
    minor: int

    @property
    def number(self) -> int:
        """As one number: 90 of 9.0."""
        return 10 * self.major + self.minor


TURING = Capability(7, 5)
"""T4, RTX 20."""
AMPERE = Capability(8, 0)
"""A100; 8.6 are RTX 30, A10 and A40."""
ADA = Capability(8, 9)
"""L4, L40S, RTX 40: the first with FP8 arithmetic."""
HOPPER = Capability(9, 0)
"""H100, H200, H20."""
DATACENTER_BLACKWELL = Capability(10, 0)
"""B200."""
B300 = Capability(10, 3)
WORKSTATION_BLACKWELL = Capability(12, 0)
"""RTX 50, RTX PRO 6000 Blackwell."""
UNIFIED = (Capability(8, 7), Capability(11, 0), Capability(12, 1))
"""Orin, Thor and GB10, which share the processor's memory."""
_NAMES = {
    (10, 0): "Blackwell",
    HOPPER: "Hopper",
    ADA: "Ada",
    AMPERE: "Ampere",
    TURING: "Turing",
    (0, 0): "Volta",
}


def generation_of(capability: tuple[int, int]) -> str:
    """Return NVIDIA's name of a compute capability's generation.

    >>> generation_of((12, 1)), generation_of((8, 6))
    ('Blackwell', 'Ampere')
    """
    return next(name for least, name in _NAMES.items() if capability >= least)
