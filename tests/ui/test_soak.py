"""A short soak: `make soak` is the long one."""

import pytest

from benchmarks.soak import __main__ as soaking

pytestmark = [pytest.mark.server, pytest.mark.nightly]

SECONDS = 9


def test_visitors_who_come_and_go_leave_nothing_behind() -> None:
    """No session, kernel, process, file or memory; whatever they send or kill."""
    table = soaking.soak(SECONDS)
    done = {figure.name: figure.value for figure in table}

    assert [] == [(one.name, one.value, one.note) for one in table if not one.holds]
    assert done["kernels killed"] > 0
    assert done["times that the disk was full"] > 0
    assert done["steps of a slider"] > 0
