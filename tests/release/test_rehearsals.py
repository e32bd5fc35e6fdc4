"""Two releases read as if they were new: what the machine closed, and what came first.

The records are those of `python -m tools.release.rehearsed`; `needed.json` names each
change that was needed, with the bodies that show it ("own"), bodies whose edits lead to
it, or why no body can show it.
"""

from __future__ import annotations

import json
import os
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from planner.engine.releases import number_of
from planner.engine.releases.change import Change
from tools.changes import changes
from tools.release import judging, rehearsed

SOURCES = os.environ.get("PLANNER_VLLM_SOURCES", "")
"""A folder with a folder for each release, which holds its package `vllm`."""
FOUND = {"0.32.0": (6, 8, 14, 15), "0.33.0": (8, 10, 21, 22)}
"""Of the needed changes: shown by one of the first forty readings, or led to by one of
them, or by one of the short edits too, or on the page at all, whose lists count."""
MISSED = {
    "0.32.0": ["That kernel of gated delta nets serves speculative decoding alone"]
}
"""On no page: found since, by a start that nobody chose."""


def record(release: str) -> dict[str, Any]:
    """Return what a rehearsal kept."""
    path = rehearsed.FOLDER / f"rehearsal-{release}.json"
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return kept


def needed(release: str) -> list[dict[str, Any]]:
    """Return the changes of a release, each with what shows it."""
    path = rehearsed.FOLDER / "needed.json"
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))[release]
    return found


@pytest.mark.parametrize("release", FOUND)
def test_every_change_of_a_release_is_accounted_for(release: str) -> None:
    """Shown by a body, or with the reason why none can show it."""
    number = number_of(release)

    def is_of_it(change: Change) -> bool:
        ends = (change.since, change.until or ())
        return number in [(*end, 0)[:3] for end in ends if end]

    every = [one.what for _module, one in changes() if is_of_it(one)]
    listed = [one["what"] for one in needed(release)]
    assert [] == [what for what in every if not any(one in what for one in listed)]
    assert [] == [one for one in listed if not any(one in what for what in every)]
    assert all(one.get("own") or one.get("elsewhere") for one in needed(release))


@pytest.mark.parametrize("release", FOUND)
def test_the_needed_changes_come_early(release: str) -> None:
    """In the order of today's weights; docs/adding-a-release.md says what is missed."""
    kept = record(release)
    ordered = rehearsed.ordered(kept["readings"])
    first, short = (
        {key for one in some for key in (one["key"], *one["beside"], *one["alike"])}
        for some in (
            judging.first(ordered, itemgetter("statements")),
            judging.short(ordered, itemgetter("statements")),
        )
    )
    listed = {*kept["tables"], *kept["names"], *kept["defaults"]}
    listed |= {body for body, _statement in kept["kept"]}
    every = [one for one in needed(release) if "own" in one]
    own = [one for one in every if first & {*one["own"]}]
    led = [one for one in every if first & {*one["own"], *one["leads"]}]
    lines = [one for one in every if (first | short) & {*one["own"], *one["leads"]}]
    page = [one for one in every if {*one["own"]} & listed or one in lines]
    assert FOUND[release] == tuple(map(len, (own, led, lines, page)))
    missed = [one["what"] for one in every if one not in page]
    assert MISSED.get(release, []) == missed


@pytest.mark.parametrize("release", FOUND)
def test_what_was_closed_has_its_reason(release: str) -> None:
    """Every body once: closed, a list of names, or in a reading."""
    kept = record(release)
    left = kept["bodies"] - sum(kept["closed"].values()) - len(kept["tables"])
    shown = sum(1 + len(one["alike"] + one["beside"]) for one in kept["readings"])
    assert all(kept["closed"])
    assert left >= shown > 0
    assert kept["left"] >= len(kept["readings"]) == rehearsed.KEPT


@pytest.mark.nightly
@pytest.mark.skipif(not SOURCES, reason="PLANNER_VLLM_SOURCES names no sources")
@pytest.mark.parametrize("release", FOUND)
def test_the_sources_say_what_was_kept(release: str) -> None:
    """The same bodies, closed for the same reasons, in the same order."""
    kept = record(release)
    old, new = (Path(SOURCES, kept[which], "vllm") for which in ("before", "release"))
    if not (old.is_dir() and new.is_dir()):
        pytest.skip(f"no sources of vLLM {kept['before']} and {release}")
    again = rehearsed.rehearsed(old, new)
    assert (kept["bodies"], kept["closed"]) == (again["bodies"], again["closed"])
    assert kept["readings"] == json.loads(json.dumps(again["readings"]))
