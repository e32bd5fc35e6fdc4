"""What stands for hundreds of tests fails for each of their rows."""

from __future__ import annotations

import pytest

from tests.rows import each_row


def test_every_row_that_fails_is_named(tmp_path) -> None:
    """And the rest is asked nevertheless; fixtures are handed on."""
    asked = []

    @each_row("number", (1, 2, 3, 4), ids="row {}".format)
    def holds(number: int, folder: object) -> None:
        asked.append((number, folder))
        assert number % 2, f"{number} is even"
        if number == 3:
            raise KeyError(number)

    with pytest.raises(AssertionError) as failed:
        holds(folder=tmp_path)

    assert [(number, tmp_path) for number in (1, 2, 3, 4)] == asked
    told = str(failed.value)
    assert "row 2: AssertionError: 2 is even" in told
    assert "row 3: KeyError: 3" in told
    assert "row 4: AssertionError: 4 is even" in told
    assert "row 1" not in told


def test_an_empty_table_is_no_success() -> None:
    """A glob that finds nothing would hold every rule."""

    @each_row("row", ())
    def holds(row: object) -> None:
        raise ValueError(row)

    with pytest.raises(AssertionError, match="no row"):
        holds()
