"""From what the driver tells of a GPU to the GPU that a plan needs."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.engine.devices.planned_gpu import PlannedMemory, planned_gpu, system_memory
from planner.units import GIB, KIB


@given(
    total=st.integers(2 * GIB, 400 * GIB),
    reserved=st.integers(0, GIB),
    used=st.integers(0, 400 * GIB),
)
def test_more_is_never_free_than_the_total(
    total: int, reserved: int, used: int
) -> None:
    """A law: whatever a driver tells becomes a GPU that can be."""
    free = max(0, total - used)
    gpu, _ = planned_gpu(
        device_name="NVIDIA RTX 9000",
        compute_capability=(12, 0),
        memory=PlannedMemory(
            total_bytes=total, free_bytes=free, reserved_bytes=reserved
        ),
    )

    assert gpu is not None
    assert total - reserved == gpu.total_memory_bytes
    assert gpu.free_memory_bytes == min(free, total - reserved)


def test_the_systems_memory_is_read_in_kib(tmp_path: Path) -> None:
    """MemAvailable, not MemFree: caches can be given up."""
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable:  400 kB\n")

    expected = PlannedMemory(
        total_bytes=1000 * KIB, free_bytes=400 * KIB, reserved_bytes=None
    )
    assert expected == system_memory(meminfo)


@pytest.mark.parametrize("text", [None, "", "MemTotal: 1000 kB\n"])
def test_a_system_that_does_not_tell_is_no_error(
    tmp_path: Path, text: str | None
) -> None:
    """No such file outside Linux; half an account is none."""
    meminfo = tmp_path / "meminfo"
    if text is not None:
        meminfo.write_text(text)

    assert system_memory(meminfo) is None
