"""The pages on comparing and on speed show what the planner says."""

import doctest

import pytest


@pytest.mark.parametrize("name", ["compare.md", "speed.md"])
def test_what_a_page_shows_is_what_the_planner_says(root, name) -> None:
    """Every example of the page, run as it stands."""
    found = doctest.testfile(
        str(root / "docs" / name),
        module_relative=False,
        optionflags=doctest.NORMALIZE_WHITESPACE,
        encoding="utf-8",
    )

    assert found.attempted > 0
    assert 0 == found.failed
