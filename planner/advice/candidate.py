"""A change that might help, before it has been planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Burden(IntEnum):
    """How much a change asks of its user, least first."""

    NOTHING = 0  # nobody misses what it takes away
    SPEED = 1  # some speed, or some room for surprises
    ACCURACY = 2  # fewer bits
    ABILITY = 3  # shorter requests, no images, much speed
    HARDWARE = 4  # more GPUs, or another one
    NEARLY_ALL = 5  # most of the speed


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One change, what it is called, and what it costs."""

    kind: str
    """The argument that changes."""
    title: str
    changes: Mapping[str, Any]
    """Keyword arguments for `Plan.changed`."""
    cost: str
    """One plain sentence."""
    burden: Burden
