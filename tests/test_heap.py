"""The server's freed memory: it goes back to the system where the C library can."""

import ctypes
import sys

import pytest

from planner.voila import heap


def test_free_memory_goes_back_to_the_system() -> None:
    """On Linux with glibc the call is there."""
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip(f"the C library of {sys.platform} has no malloc_trim")
    assert heap.give_back()


def test_another_c_library_is_left_alone(monkeypatch) -> None:
    """musl and macOS have no such call."""
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda _name: object())

    assert not heap.give_back()
