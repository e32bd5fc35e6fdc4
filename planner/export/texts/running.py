"""Running servers."""

from planner.export.texts.reading import Reading


def is_address(_text: str) -> bool:
    """Return no yet."""
    return False


def reading_of_server(_address: str) -> Reading:
    """Read nothing yet."""
    raise NotImplementedError
