"""Sizes become text in one place, and text becomes whole bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import PlannerError
from planner.units import (
    GIB,
    format_gib,
    format_size,
    parse_size,
    vllm_gib,
    whole_number,
)


def test_a_gib_is_two_to_the_thirtieth() -> None:
    """1 GiB = 1024 x 1024 x 1024 bytes."""
    assert 1073741824 == GIB
    assert "1.00 GiB" == format_gib(GIB)


def test_a_signed_size_shows_its_sign() -> None:
    """A margin says on which side of zero it is."""
    assert "+1.50 GiB" == format_gib(3 * GIB // 2, signed=True)
    assert "-0.50 GiB" == format_gib(-GIB // 2, signed=True)


def test_vllm_drops_trailing_zeros() -> None:
    """vLLM prints round(bytes / 2**30, 2), so 16 GiB is 16.0."""
    assert "16.0" == vllm_gib(16 * GIB)
    assert "0.33" == vllm_gib(GIB // 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("80GiB", 80 * GIB), ("1.5 GiB", 3 * GIB // 2), ("2GB", 2 * 10**9), ("512", 512)],
)
def test_sizes_are_read_with_their_unit(text: str, expected: int) -> None:
    """GiB counts in 1024s, GB in 1000s."""
    assert expected == parse_size(text)


@pytest.mark.parametrize("text", ["", "many", "5 parsecs", "1.2.3GiB"])
def test_a_size_that_is_none_says_what_to_write(text: str) -> None:
    """The message names the given text and an example."""
    with pytest.raises(PlannerError, match="80GiB"):
        parse_size(text)


@given(st.integers(min_value=0, max_value=1 << 45))
def test_plain_bytes_survive_the_round_trip(size: int) -> None:
    """A number without a unit is bytes."""
    assert size == parse_size(str(size))


@given(st.integers(min_value=0, max_value=1 << 45))
def test_every_size_names_its_unit(size: int) -> None:
    """No figure without a unit."""
    assert format_size(size).split()[-1] in ("B", "KiB", "MiB", "GiB")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("0080", 80),
        ("9" * 18, 10**18 - 1),
        ("9" * 19, None),
        ("9" * 5000, None),
        ("\u00b2", None),  # str.isdigit takes it, int() does not
        ("\uff11", None),
        ("-1", None),
        (" 1", None),
        ("", None),
    ],
)
def test_a_whole_number_is_one_of_few_ascii_digits(
    text: str, number: int | None
) -> None:
    """Whatever else `isdigit` takes is none."""
    assert number == whole_number(text)
