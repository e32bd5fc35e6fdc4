"""Whether others reach this process."""

import pytest

from planner.surroundings import PUBLISHED, is_published


@pytest.mark.parametrize(
    ("value", "expected"), [("1", True), ("0", False), ("", False), ("yes", True)]
)
def test_the_variable_decides(monkeypatch, value, expected) -> None:
    """Anything but nothing and 0 publishes: the safe side."""
    monkeypatch.setenv(PUBLISHED, value)

    assert is_published() is expected


def test_a_process_is_private_unless_told_otherwise(monkeypatch) -> None:
    """Without the variable."""
    monkeypatch.delenv(PUBLISHED, raising=False)

    assert not is_published()
