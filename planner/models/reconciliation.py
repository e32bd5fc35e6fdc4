"""A checkpoint's headers compared with the weights that were computed."""

from __future__ import annotations

from dataclasses import dataclass

from planner.units import format_size

WORTH_SAYING = 0.005
"""From this share of the weights on a difference is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDifference:
    """One part of the weights, as computed and in the files."""

    name: str
    computed_bytes: int
    checkpoint_bytes: int

    @property
    def difference_bytes(self) -> int:
        """Computed less published."""
        return self.computed_bytes - self.checkpoint_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The weights of a whole model on one GPU, as computed and in the files."""

    computed_bytes: int
    checkpoint_bytes: int
    """Of the tensors that vLLM loads, plain floats counted in the model's dtype."""
    parts: tuple[PartDifference, ...]
    """Largest difference first; a part may be known by another name in the files."""

    @property
    def share(self) -> float:
        """The difference as a share of what the files hold."""
        return self.computed_bytes / self.checkpoint_bytes - 1

    def __str__(self) -> str:
        """Say what agrees, or what differs and where."""
        text = (
            f"The checkpoint's files hold {format_size(self.checkpoint_bytes)} of "
            f"weights, {format_size(self.computed_bytes)} were computed "
            f"({self.share:+.2%})"
        )
        if abs(self.share) <= WORTH_SAYING:
            return f"{text}: they agree."
        differing = [part for part in self.parts if part.difference_bytes]
        shown = ", ".join(
            f"{part.name} {format_size(part.computed_bytes)} computed, "
            f"{format_size(part.checkpoint_bytes)} in the files"
            for part in differing[:4]
        )
        return f"{text}. The parts that differ most: {shown}."
