"""Run what is too long for every change, and note when it last passed.

    make nightly                          all of it: about five hours on two cores
    python tools/nightly.py laws long     these alone

The table in docs/nightly.md has a row for each part. One that fails, or that this
machine cannot run, keeps its row.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.page_table import with_rows  # noqa: E402

PAGE = ROOT / "docs" / "nightly.md"
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One command of the night."""

    name: str
    looks_for: str
    command: tuple[str, ...]


PARTS = (
    Part(
        name="laws",
        looks_for="laws with ten times the examples, other ones each night",
        command=(
            *_PYTEST,
            *("-m", "not browser and not server and not nightly"),
            "--hypothesis-profile=night",
        ),
    ),
    Part(
        name="long",
        looks_for="tests marked `nightly`: every page of the documentation under "
        "axe-core, the browser edition, killed workers of a real Ray",
        command=(*_PYTEST, "-m", "nightly"),
    ),
    Part(
        name="mutants",
        looks_for="rules that can be changed without a test that notices",
        command=(sys.executable, "tools/mutants.py", "--seed", "{day}"),
    ),
    Part(
        name="fuzz",
        looks_for="input that ends in a traceback, in too much time or memory",
        command=("make", "fuzz", "MINUTES=60"),
    ),
    Part(
        name="fuzz-guided",
        looks_for="texts that reach lines of the readers which no text reached before",
        command=("make", "fuzz-guided", "MINUTES=30"),
    ),
    Part(
        name="soak",
        looks_for="what visitors leave behind in a published app",
        command=("make", "soak", "MINUTES=30"),
    ),
    Part(
        name="targets",
        looks_for="targets of the Makefile that need more than they install",
        command=(sys.executable, "tools/targets.py"),
    ),
    Part(
        name="versions",
        looks_for="the oldest and the newest of each dependency",
        command=("make", "test-versions"),
    ),
    Part(
        name="container",
        looks_for="the image, built and started",
        command=("make", "test-container"),
    ),
    Part(
        name="systemd",
        looks_for="the unit, started by systemd",
        command=("make", "test-systemd"),
    ),
)


def main() -> int:
    """Run the parts, one after the other; 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART")
    names = parser.parse_args().parts
    unknown = set(names) - {part.name for part in PARTS}
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: the parts are {_listed()}.")
    failed = [
        part.name
        for part in PARTS
        if (not names or part.name in names) and not _passed(part)
    ]
    print(f"Failed: {', '.join(failed)}." if failed else "All passed.")
    return int(bool(failed))


def _listed() -> str:
    return ", ".join(map(_name, PARTS))


def _passed(part: Part) -> bool:
    """Run a part; where it passes, its row is written at once."""
    print(f"== {part.name}", flush=True)
    now = datetime.now(UTC)
    words = [word.format(day=now.strftime("%Y%m%d")) for word in part.command]
    before = time.monotonic()
    done = subprocess.run(words, cwd=ROOT, check=False)
    minutes = (time.monotonic() - before) / 60
    if done.returncode:
        return False
    row = (part.name, part.looks_for, f"{now:%Y-%m-%d}", _commit(), f"{minutes:.0f}")
    page = with_rows(PAGE.read_text("utf-8"), "nightly", [row], map(_name, PARTS))
    PAGE.write_text(page, encoding="utf-8")
    return True


def _name(part: Part) -> str:
    return part.name


def _commit() -> str:
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=ROOT,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
    )
    return told.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
