"""CUDA_VISIBLE_DEVICES chooses and orders devices as CUDA does."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.engine.devices.attached import visible

THREE = tuple(
    SimpleNamespace(index=index, uuid=uuid)
    for index, uuid in enumerate(["GPU-1aaa", "GPU-1bbb", "GPU-2ccc"])
)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (None, [0, 1, 2]),
        ("0", [0]),
        ("2,0", [2, 0]),
        (" 1 , 2 ", [1, 2]),
        ("GPU-2", [2]),
        ("gpu-1BBB,0", [1, 0]),
        ("GPU-1", []),
        ("0,7,1", [0]),
        ("1,-1,0", [1]),
        ("1,1", [1]),
        ("", []),
        ("-1", []),
        (f"0,{'9' * 5000}", [0]),
        ("NoDevFiles", []),
    ],
)
def test_a_list_of_devices_ends_at_the_first_that_is_none(
    setting: str | None, expected: list[int]
) -> None:
    """As CUDA reads it: order counts, UUIDs may be cut short if one fits."""
    assert expected == [one.index for one in visible(THREE, setting)]


@given(
    setting=st.lists(
        st.one_of(
            st.integers(-1, 4).map(str), st.sampled_from(["GPU-2", "x", "", "MIG-1"])
        ),
        max_size=6,
    ).map(",".join)
)
def test_a_selection_holds_each_device_once_and_none_that_is_not_there(
    setting: str,
) -> None:
    """A law of the selection; and no more devices than entries."""
    chosen = visible(THREE, setting)

    assert len(chosen) == len({one.index for one in chosen})
    assert len(chosen) <= len(setting.split(","))
    assert all(one in THREE for one in chosen)
