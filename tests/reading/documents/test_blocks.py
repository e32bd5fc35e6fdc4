"""HCL, TOML and lines of NAME=value as nodes with their places."""

import pytest

from planner.reading.documents.blocks import blocks_of
from planner.reading.passage import Passage


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ('[a.b]\nc = [1, "x"] # y\n', ("a", "b", "c"), [1, "x"]),
        ('resource "x" "y" {\n  n = 2\n}\n', ("resource", "x", "y", "n"), 2),
        ("A=1\nB='x y'\n", ("B",), "x y"),
    ],
)
def test_values_stand_at_their_paths(text: str, path: tuple[str, ...], value) -> None:
    """And know where they are written."""
    root = blocks_of(Passage.whole(text))
    assert root is not None
    node = root.get(*path)

    assert node is not None
    assert node.value == value


@pytest.mark.parametrize("sign", "{}](),=:")
def test_a_sign_that_begins_nothing_ends_the_reading(sign: str) -> None:
    """It was waited for without an end."""
    found = blocks_of(Passage.whole(f'[a]\nb = "c"\n{sign}\n[d]\n'))

    assert found is None or found.get("a") is not None
