"""Every `Change` of the planner: what each release of vLLM changed, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from planner.engine.releases import MODELLED, number_of
from planner.engine.releases.change import Change

ROOMS = ("engine", "models", "memory", "planning", "export", "confirming")
"""Rooms whose modules have rules that follow releases."""
_PACKAGE = Path(__file__).parents[1] / "planner"
_OF_OTHERS = ("beside_vllm", "inside_vllm", "beside_ray")
"""Folders whose files run in vLLM's or Ray's Python."""
_DEEPEST = 4
"""Of rows in tables in tables."""


@cache
def changes() -> tuple[tuple[str, Change], ...]:
    """Return each change once, with the module that has it, in the modules' order."""
    found: dict[Change, str] = {}
    for room in ROOMS:
        for path in sorted((_PACKAGE / room).rglob("*.py")):
            if path.parent.name not in _OF_OTHERS:
                for change in _of_module(path):
                    found.setdefault(change, path.relative_to(_PACKAGE).as_posix())
    return tuple((module, change) for change, module in found.items())


def by_release() -> Iterator[tuple[str, list[Change], list[Change]]]:
    """Yield each release, newest first, with the changes that began and that ended."""
    every = [change for _module, change in changes()]
    for release in MODELLED:
        number = number_of(release)
        began = [one for one in every if _padded(one.since) == number]
        ended = [one for one in every if _padded(one.until or ()) == number]
        yield release, began, ended


def _padded(number: tuple[int, ...]) -> tuple[int, ...]:
    return (*number, 0)[:3] if number else ()


def _of_module(path: Path) -> Iterator[Change]:
    if "Change" not in path.read_text(encoding="utf-8"):
        return
    parts = path.relative_to(_PACKAGE.parent).with_suffix("").parts
    module = import_module(".".join(parts).removesuffix(".__init__"))
    for value in vars(module).values():
        yield from _within(value, _DEEPEST)


def _within(value: object, depth: int) -> Iterator[Change]:
    if isinstance(value, Change):
        yield value
    elif depth and isinstance(value, Mapping):
        for key, one in value.items():
            yield from _within(key, depth - 1)
            yield from _within(one, depth - 1)
    elif depth and isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from _within(one, depth - 1)
    elif depth and is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _within(getattr(value, field.name), depth - 1)
