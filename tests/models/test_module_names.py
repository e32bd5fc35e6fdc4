"""Long lists of module names as patterns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.models.module_names import can_pack, pack, unpack

_PARTS = st.sampled_from(
    ["layers", "0", "1", "2", "17", "007", "w1", "e4m3", "*", "mlp"]
)


def test_names_that_differ_in_numbers_become_one_pattern():
    """2 layers x 3 experts."""
    names = [f"layers.{i}.experts.{j}" for i in range(2) for j in range(3)]
    assert pack(names) == ["layers.{0-1}.experts.{0-2}"]


def test_gaps_are_kept():
    """A pattern stands for exactly the names it was made from."""
    assert pack(["l.0", "l.1", "l.2", "l.9", "head"]) == ["head", "l.{0-2,9}"]


def test_patterns_are_written_out_in_order():
    """The last number runs fastest."""
    assert unpack(["a.{0-1}.{3,5}"]) == ["a.0.3", "a.0.5", "a.1.3", "a.1.5"]


@given(st.sets(st.lists(_PARTS, min_size=1, max_size=5).map(".".join), max_size=40))
def test_unpacking_gives_back_the_same_names(names: set[str]):
    """Nothing is lost, added or said twice, whatever the numbers look like."""
    unpacked = unpack(pack(names))
    assert set(unpacked) == names
    assert len(unpacked) == len(names)


@pytest.mark.parametrize(
    ("name", "expected"), [("re:.*mlp.[0-9]{1,2}", False), ("re:.*head", True)]
)
def test_regular_expressions_with_braces_are_left_alone(name: str, expected: bool):
    """Their braces would be taken for ours."""
    assert can_pack([name, "lm_head"]) is expected
