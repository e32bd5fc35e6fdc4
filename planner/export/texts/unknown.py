"""Names in a text that no release of vLLM knows, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from planner.engine.arguments import ARGUMENTS
from planner.engine.server import SERVER_FLAGS
from planner.late import late
from planner.units import counted

_LONGEST = 80
_MOST_NAMED = 8
"""Names that get a sentence each, with the nearest argument."""


def unknown_notes(names: Sequence[str]) -> list[str]:
    """Return a sentence on each of the first names, and one on all others."""
    notes = [
        f"{_shown(name)} is not an argument of any release of vLLM.{_nearest(name)}"
        for name in names[:_MOST_NAMED]
    ]
    rest = len(names) - len(notes)
    if rest:
        notes.append(
            f"No release of vLLM has {counted(rest, 'more names')} of the text, such "
            f"as {_shown(names[-1])}."
        )
    return notes


def _shown(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..."


@lru_cache(maxsize=256)
def _nearest(written: str) -> str:
    name = written.lstrip("-").partition(".")[0].replace("-", "_")
    near: list[str] = late(
        "difflib:get_close_matches", name, [*ARGUMENTS, *SERVER_FLAGS], n=1
    )
    if not near:
        return ""
    is_flag = written.startswith("-")
    return f" Did you mean {'--' + near[0].replace('_', '-') if is_flag else near[0]}?"
