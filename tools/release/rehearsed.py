"""Read a release as if it were new, and keep what the machine says of it.

    python -m tools.release.rehearsed OLD NEW [RAN]

OLD and NEW are folders with a package `vllm` each; sources are enough. RAN says which
lines the cases of the new one ran, as `python -m tools.release --ran` wrote it; it is
kept in short, and read where it is not given. What
the planner learnt from the new release is taken out first (`hindsight.py`), and what is
written to `tests/data/releases/rehearsal-RELEASE.json` is held to the changes that were
needed, `needed.json` beside it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tools.dry_sweep import rows
from tools.release import (
    evidence,
    hindsight,
    judging,
    missing,
    ranking,
    sources,
    symbols,
)
from tools.release.evidence import NONE, Evidence
from tools.release.judging import Judged

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "data" / "releases"
KEPT = 300
"""Readings that are kept: enough to see what others would outrank."""


def main(words: list[str]) -> None:
    """Rehearse, and keep what was found."""
    old, new = (Path(word) / "vllm" for word in words[:2])
    begin = time.process_time()
    if words[2:]:
        watched = _evidence(old, new, Path(words[2]))
        evidence.keep(watched, {*_changed(old, new)}, _ran(new))
    found = rehearsed(old, new)
    found["seconds"] = round(time.process_time() - begin)
    path = FOLDER / f"rehearsal-{found['release']}.json"
    path.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
    sys.stdout.write(f"{path}\n")


def rehearsed(old: Path, new: Path) -> dict[str, Any]:
    """Return what the machine says of a release, without hindsight."""
    planner = ROOT / "planner"
    release = _release(new)
    cited = hindsight.cited_before(symbols.citations(planner), planner, release)
    names = [sources.names(one) for one in (old, new)]
    values = [sources.values(one)["config_defaults"] for one in (old, new)]
    return {
        "release": release,
        "before": _release(old),
        **said(judging.judged(old, new, cited, _evidence(old, new, _ran(new)))),
        "names": [name for name, _lack in missing.missing(names[0], names[1], new)],
        "defaults": sorted(
            name for name, one in values[1].items() if values[0].get(name) != one
        ),
    }


def _ran(new: Path) -> Path:
    return FOLDER / f"ran-{_release(new)}.json.xz"


def _changed(old: Path, new: Path) -> Iterator[str]:
    for path in new.rglob("*.py"):
        file = path.relative_to(new)
        was = old / file
        if not was.is_file() or was.read_bytes() != path.read_bytes():
            yield file.as_posix()


def _evidence(old: Path, new: Path, ran: Path) -> Evidence:
    if not ran.is_file():
        return NONE
    before, after = (rows(FOLDER / f"{_release(one)}.jsonl") for one in (old, new))
    return evidence.read(ran, before, after)


def _release(package: Path) -> str:
    (path,) = package.parent.glob("vllm-*.dist-info")
    return path.name.removeprefix("vllm-").removesuffix(".dist-info").partition("+")[0]


def said(found: Judged) -> dict[str, Any]:
    """Return what was judged as plain values."""
    return {
        "bodies": found.bodies,
        "closed": dict(found.reasons.most_common()),
        "left": len(found.readings),
        "tables": {
            one.key: [*map(sorted, judging.came_and_went(one))] for one in found.tables
        },
        "kept": [list(pair) for pair in found.kept],
        "readings": [
            {
                "key": one.key,
                "near": one.near,
                "rules": ranking.counted(one.rules),
                "kinds": sorted(one.kinds),
                "models": one.models,
                "statements": one.statements,
                "alike": sorted(body.key for body in one.alike),
                "beside": sorted(body.key for body in one.beside),
                "suspicion": one.suspicion,
            }
            for one in found.readings[:KEPT]
        ],
    }


def ordered(readings: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return kept readings in the order in which they are opened now."""

    def order(one: dict[str, Any]) -> tuple[float, str]:
        what = (one["near"], one["rules"], one["kinds"], one["models"])
        return -ranking.weight(*what, suspicion=one["suspicion"]), one["key"]

    return ranking.in_order(readings, order, lambda one: one["suspicion"])


if __name__ == "__main__":
    main(sys.argv[1:])
