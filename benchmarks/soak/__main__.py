"""Let visitors come and go, then look for what they left: `make soak MINUTES=30`.

    python -m benchmarks.soak --minutes 30 --write

Prints a table, and exits with 1 when anything was left behind or any visit failed
that nothing excuses.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.app import crowd, figures, processes, served
from benchmarks.app.figures import MB, Figure
from benchmarks.soak.visits import Soak, Tally
from tests.ui import servers

POOL = 3
GROWTH_LIMIT_MB = 15
OPEN_FILES_LIMIT = 8
"""Connections that clients have not closed yet."""
_AT_ONCE = 6
_WARM_SECONDS = 60.0
"""Long enough for the server's heap to hold what so many visitors at once need."""
_CALM_SECONDS = 4.0
"""At the end nobody vanishes, and nothing is killed or full."""
_DISTURB_SECONDS = 20.0
_DISK_FULL_SECONDS = 3.0
_LOST_SECONDS = 90.0
"""Longer than a published server waits for a page that vanished."""
_SETTLE_SECONDS = 2.0
_LONG_SECONDS = 300.0
_LONG_SETTLE_SECONDS = 65.0
"""A long soak waits until the server has given free memory back, once a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """A server while nobody is there."""

    family: processes.Family
    folder: Path
    """Holds the connections of its kernels."""
    files: frozenset[Path]
    """In that folder, and among the temporary ones."""
    health: dict[str, Any]


def main(arguments: list[str] | None = None) -> int:
    """Soak, print, write, and say whether nothing was left."""
    parser = argparse.ArgumentParser(prog="benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--write", action="store_true", help="into docs/performance.md")
    options = parser.parse_args(arguments)
    table = soak(60 * options.minutes)
    print(figures.as_text(table))
    if options.write:
        text = f"{options.minutes:g} minutes; {figures.versions('voila', 'ipykernel')}."
        figures.write("soak", f"{text}\n\n{figures.as_markdown(table)}")
    return 0 if all(figure.holds for figure in table) else 1


def soak(seconds: float) -> list[Figure]:
    """Serve, let visitors come for so long, and compare before, after and beyond."""
    crowd.prepare(2 * _AT_ONCE)
    flags = ("--published", f"--pool={POOL}", f"--max-sessions={served.MAX_SESSIONS}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        temporary = folder / "tmp"
        temporary.mkdir()
        with (
            patch.dict(os.environ, TMPDIR=str(temporary)),
            servers.served(folder, *flags) as running,
        ):
            before, after, tally = asyncio.run(
                _soaked(running.address, temporary, seconds)
            )
        return [
            *_visits(tally),
            *_growth(before, after),
            *_beyond(after, temporary),
        ]


async def _soaked(
    address: str, temporary: Path, seconds: float
) -> tuple[Rest, Rest, Tally]:
    """Warm the server up, look, soak, wait until it rests, look again."""
    warm = Soak(address, seed=0)
    await _visits_of(warm, min(_WARM_SECONDS, seconds / 2), vanishing_seconds=0)
    settle = _LONG_SETTLE_SECONDS if seconds >= _LONG_SECONDS else _SETTLE_SECONDS
    before = await _at_rest(address, temporary, settle)
    soaking = Soak(address)
    await asyncio.gather(
        _visits_of(soaking, seconds, vanishing_seconds=seconds - _CALM_SECONDS),
        _disturb(soaking, seconds - _CALM_SECONDS),
    )
    return before, await _at_rest(address, temporary, settle), soaking.tally


async def _visits_of(soaking: Soak, seconds: float, vanishing_seconds: float) -> None:
    now = asyncio.get_running_loop().time()
    visit = soaking.visit_until
    await asyncio.gather(
        *(
            visit(now + seconds, vanishing_until=now + vanishing_seconds)
            for _ in range(_AT_ONCE)
        )
    )


async def _disturb(soaking: Soak, seconds: float) -> None:
    """Kill kernels and fill the disk, in turn, and stop before the end."""
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    pause = min(_DISTURB_SECONDS, seconds / 6)
    full = min(_DISK_FULL_SECONDS, seconds / 6)
    while clock() + 2 * pause + full < end:
        await asyncio.sleep(pause)
        soaking.kill_a_kernel()
        await asyncio.sleep(pause)
        await soaking.fill_the_disk(full)


async def _at_rest(address: str, temporary: Path, settle_seconds: float) -> Rest:
    """Wait until nobody is there and the pool is full, and a while more."""
    clock = asyncio.get_running_loop().time
    end = clock() + _LOST_SECONDS
    while clock() < end:
        health = await asyncio.to_thread(servers.health, address)
        if not health["sessions"] and health["pool"] == health["pool_size"]:
            break
        await asyncio.sleep(1)
    await asyncio.sleep(settle_seconds)
    family = served.family(address)
    folder = _folder_of(family)
    files = frozenset(
        path
        for place in (folder, temporary)
        for path in place.rglob("*")
        if not path.is_dir()
    )
    return Rest(
        family=family,
        folder=folder,
        files=files,
        health=await asyncio.to_thread(servers.health, address),
    )


def _folder_of(family: processes.Family) -> Path:
    """Return the folder in which a kernel has its sockets.

    Raises:
        RuntimeError: when no kernel has any.
    """
    paths = {
        words[6]: Path(words[7])
        for words in map(str.split, Path("/proc/net/unix").read_text().splitlines())
        if len(words) > 7 and words[7].startswith("/")  # noqa: PLR2004 - of Linux
    }
    for kernel in family.kernels:
        for end in Path(f"/proc/{kernel.pid}/fd").iterdir():
            inode = end.readlink().name.removeprefix("socket:[").removesuffix("]")
            if inode in paths:
                return paths[inode].parent
    raise RuntimeError("No kernel has a socket in a folder.")


def _visits(tally: Tally) -> list[Figure]:
    return [
        *(
            Figure(name=kind, value=count, unit="")
            for kind, count in sorted(tally.done.items())
        ),
        Figure(name="steps of a slider", value=tally.steps, unit=""),
        Figure(
            name="visits cut short by a killed kernel or a full disk",
            value=sum(tally.disturbed.values()),
            unit="",
        ),
        Figure(
            name="visits that failed otherwise",
            value=len(tally.failures),
            unit="",
            limit=0,
            note="; ".join(sorted(set(tally.failures)))[:300],
        ),
    ]


def _growth(before: Rest, after: Rest) -> list[Figure]:
    """Compare the server at rest before and after."""
    old, new = before.family, after.family
    return [
        Figure(name="sessions left", value=after.health["sessions"], unit="", limit=0),
        Figure(
            name="kernels left, besides those that wait",
            value=len(new.kernels) - after.health["pool"],
            unit="",
            limit=0,
        ),
        Figure(
            name="processes more than before",
            value=len(new.descendants) - len(old.descendants),
            unit="",
            limit=0,
        ),
        Figure(
            name="files more than before",
            value=len(after.files) - len(before.files),
            unit="",
            limit=0,
            note=_names(before, after),
        ),
        Figure(
            name="open files of the server more than before",
            value=new.server.num_files - old.server.num_files,
            unit="",
            limit=OPEN_FILES_LIMIT,
        ),
        Figure(
            name="memory of the server more than before",
            value=(new.others_pss_bytes - old.others_pss_bytes) / MB,
            unit="MB",
            limit=GROWTH_LIMIT_MB,
            note=f"proportional, {new.others_pss_bytes / MB:.0f} MB at the end",
        ),
    ]


def _names(before: Rest, after: Rest) -> str:
    """Name a few files that are too many; those of the pool's kernels only change."""
    if len(after.files) <= len(before.files):
        return ""
    return ", ".join(sorted(path.name for path in after.files - before.files)[:6])


def _beyond(after: Rest, temporary: Path) -> list[Figure]:
    """Look for what outlives the server."""
    family = after.family
    left = [
        process.pid
        for process in (family.server, *family.descendants)
        if processes.is_alive(process.pid)
    ]
    files = [*temporary.iterdir(), *([after.folder] if after.folder.exists() else [])]
    return [
        Figure(name="processes after its end", value=len(left), unit="", limit=0),
        Figure(name="files after its end", value=len(files), unit="", limit=0),
    ]


if __name__ == "__main__":
    sys.exit(main())
