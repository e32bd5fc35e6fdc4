"""Which bodies a person reads together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.release.wheels import package
from tools.release.differing import differences, paired
from tools.release.reach import mentions
from tools.release.together import together

TOGETHER = {
    "alike": ("def one(a): return a", "def two(a): return a"),
    "helper": ("def one(a): return a", ""),
    "twin": (
        "class Runner:\n    def f(self): return 1",
        "class Runner:\n    def f(self): return 2",
    ),
}
TOGETHER_NOW = {
    "alike": ("def one(a): return a + 1", "def two(a): return a + 1"),
    "helper": ("def one(a): return room_of(a)", "def room_of(a): return a * 2"),
    "twin": (
        "class Runner:\n    def f(self): return 3",
        "class Runner:\n    def f(self): return 4",
    ),
    "helper of two": (
        "def one(a): return room_of(a)\ndef two(a): return 1 + room_of(a)",
        "def room_of(a): return a * 2",
    ),
}


@pytest.mark.parametrize(
    ("before", "after", "readings"),
    [
        ("alike", "alike", [["a.py::one", "b.py::two"]]),
        ("helper", "helper", [["a.py::one", "b.py::room_of"]]),
        ("twin", "twin", [["a.py::Runner.f", "b.py::Runner.f"]]),
        ("helper", "helper of two", [["a.py::one"], ["a.py::two"], ["b.py::room_of"]]),
    ],
)
def test_what_is_read_together_is_one_reading(
    tmp_path: Path, before: str, after: str, readings: list[list[str]]
) -> None:
    """The same edit, what only one body calls, and the same method of two runners."""
    old, new = (
        package(tmp_path / name, dict(zip(("a.py", "b.py"), texts, strict=True)))
        for name, texts in (
            ("old", TOGETHER[before]),
            ("new", TOGETHER_NOW[after]),
        )
    )
    found = together(paired(differences(old, new)), mentions(new))
    assert readings == sorted(sorted(one.key for one in bodies) for bodies in found)
