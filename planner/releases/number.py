"""A release by its number."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Numbered:
    """What has the number of a release."""

    number: tuple[int, int, int]

    @property
    def version(self) -> str:
        """The release as text, such as 0.33.0."""
        return ".".join(map(str, self.number))

    def since(self, major: int, minor: int, patch: int = 0) -> bool:
        """Return whether this release is that one or a later one."""
        return self.number >= (major, minor, patch)
