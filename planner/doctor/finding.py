"""What one check says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How a part of the planner stands on this machine."""

    WORKS = "works"
    LIMITED = "limited"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the answer."""

    name: str
    """What was looked at, as `--need` takes it."""
    state: State
    says: str
    """What was found, with version or size."""
    does: str = ""
    """What works, or does not, because of it."""
    remedy: str = ""
    """What to do; empty where nothing has to be done."""
