"""The server's freed memory: it goes back to the system where the C library can."""

from types import SimpleNamespace

from planner.app.voila import kernels


def test_free_memory_goes_back_to_the_system(monkeypatch) -> None:
    """glibc is told to keep nothing that is free."""
    kept = []
    monkeypatch.setattr(
        kernels.ctypes, "CDLL", lambda _name: SimpleNamespace(malloc_trim=kept.append)
    )
    kernels.give_back()

    assert kept == [0]


def test_another_c_library_is_left_alone(monkeypatch) -> None:
    """musl and macOS have no such call; what Python itself holds is collected."""
    collected = []
    monkeypatch.setattr(kernels.ctypes, "CDLL", lambda _name: object())
    monkeypatch.setattr(kernels.gc, "collect", lambda: collected.append("garbage"))
    kernels.give_back()

    assert collected == ["garbage"]
