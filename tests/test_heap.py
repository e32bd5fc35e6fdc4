"""The server's freed memory: it goes back to the system where the C library can."""

from types import SimpleNamespace

from planner.voila import heap


def test_free_memory_goes_back_to_the_system(monkeypatch) -> None:
    """glibc is told to keep nothing that is free."""
    kept = []
    monkeypatch.setattr(
        heap.ctypes, "CDLL", lambda _name: SimpleNamespace(malloc_trim=kept.append)
    )
    heap.give_back()

    assert kept == [0]


def test_another_c_library_is_left_alone(monkeypatch) -> None:
    """musl and macOS have no such call; what Python itself holds is collected."""
    collected = []
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda _name: object())
    monkeypatch.setattr(heap.gc, "collect", lambda: collected.append("garbage"))
    heap.give_back()

    assert collected == ["garbage"]
