"""Logs."""

from planner.export.texts.reading import Reading


def is_log(_text: str) -> bool:
    """Return no yet."""
    return False


def reading_of_log(_text: str) -> Reading:
    """Read nothing yet."""
    raise NotImplementedError
