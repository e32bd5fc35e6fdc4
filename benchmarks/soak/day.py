"""A visitor a minute, for hours: `python -m benchmarks.soak.day --hours 24`.

Prints the memory of all processes of a published app before each visitor, and at last
its slope while nobody was there; exits with 1 where it grew by more than
`GROWTH_LIMIT_MB`, or a visit failed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.app import crowd, processes, served
from benchmarks.app.visitor import Visitor
from tests.ui import servers

GROWTH_LIMIT_MB = 20
WARM_VISITS = 5
"""Until caches hold what visitors use; no growth counts before."""
_POOL = 2
_MOST_STEPS = 12
_VALUES = tuple(percent / 100 for percent in range(50, 92))
_STEP_SECONDS = 0.5
_VANISHING = 0.2
"""So many of the visitors go without a word."""
_MIB = 1 << 20


def main() -> int:
    """Serve, count, and say how memory changed."""
    parser = argparse.ArgumentParser(prog="benchmarks.soak.day", description=__doc__)
    parser.add_argument("--hours", type=float, default=24)
    parser.add_argument("--seconds", type=float, default=60, help="between visitors")
    options = parser.parse_args()
    crowd.prepare(2)
    with (
        tempfile.TemporaryDirectory() as folder,
        servers.served(Path(folder), "--published", f"--pool={_POOL}") as running,
    ):
        visits = int(3600 * options.hours / options.seconds)
        samples, done = asyncio.run(
            _day(running.address, visits, options.seconds, random.Random(1))
        )
    hours, mib = zip(*samples, strict=True)
    per_hour = statistics.linear_regression(hours, mib).slope
    grown = statistics.median(mib[-5:]) - statistics.median(mib[:5])
    print(f"{dict(done)}; {per_hour:+.2f} MiB an hour, {grown:+.1f} MiB in all")
    failed = done.total() - done["left"] - done["vanished"]
    return 1 if failed or grown * _MIB > GROWTH_LIMIT_MB * 10**6 else 0


async def _day(
    address: str, visits: int, seconds: float, chance: random.Random
) -> tuple[list[tuple[float, float]], Counter[str]]:
    """Let them come one after the other.

    Returns hours and MiB before each who came when nobody was there, and how all went.
    """
    clock = asyncio.get_running_loop().time
    began, samples, done = clock(), list[tuple[float, float]](), Counter[str]()
    for number in range(visits):
        await asyncio.sleep(max(0.0, began + number * seconds - clock()))
        family, hours = served.family(address), (clock() - began) / 3600
        _tell(hours, family, done)
        if number >= WARM_VISITS and len(family.kernels) == _POOL:
            samples.append((hours, family.pss_bytes / _MIB))
        try:
            done[await _visit(address, chance)] += 1
        except Exception as error:  # noqa: BLE001 - whatever it is, it is counted
            done[f"{type(error).__name__}: {str(error)[:80]}"] += 1
    return samples, done


async def _visit(address: str, chance: random.Random) -> str:
    async with Visitor(address) as visitor:
        await visitor.open()
        for value in chance.sample(_VALUES, chance.randint(1, _MOST_STEPS)):
            await visitor.move(value)
            await asyncio.sleep(_STEP_SECONDS)
        if chance.random() < _VANISHING:
            return "vanished"
        await visitor.leave()
        return "left"


def _tell(hours: float, family: processes.Family, done: Counter[str]) -> None:
    """Print a line of one moment."""
    print(
        f"{60 * hours:7.1f} min {family.pss_bytes / _MIB:8.1f} MiB of all,"
        f" {family.server.pss_bytes / _MIB:7.1f} of the server,"
        f" {len(family.kernels)} kernels, {1 + len(family.descendants)} processes,"
        f" {family.server.num_files} open files, {done.total()} visits",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
