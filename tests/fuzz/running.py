"""Runs cases for minutes, each bounded; writes down what escapes, and how to repeat it.

`python -m tests.fuzz.running --minutes 10` runs all entries, a process for each batch;
`python -m tests.fuzz.running config 4711` repeats one case with its traceback.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, takewhile
from pathlib import Path
from random import Random, SystemRandom
from types import FrameType
from typing import Any

from tests.fuzz.entries import ENTRIES, prepare

MOST_SECONDS = 2.0
"""Of processor time, for one case."""
MOST_BYTES = 300 << 20
"""Of memory, for one case."""
HANGS_AFTER = 120
"""Seconds of the clock."""
BATCH_SECONDS = 40.0
"""Of processor time, for one entry: quick ones get more cases."""
LEAST_CASES = 5_000
"""Of each entry: slow ones get more time until they have as many."""
FOUND = Path(os.environ.get("FUZZ_FOUND", "build/fuzz"))


class TooLong(BaseException):
    """A case takes more than its processor time."""


def run(entry: str, number: int, most_seconds: float = MOST_SECONDS) -> None:
    """Run one case.

    Raises:
        Exception: what escaped, among it `TooLong` and MemoryError.
    """
    before = time.process_time()
    ENTRIES[entry](Random(f"{entry} {number}"))
    taken = time.process_time() - before
    if taken > most_seconds:
        raise TooLong(f"{taken:.1f} s of processor time")


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise TooLong("it was stopped at the end of its processor time")


def bounded(
    entry: str, number: int, most_seconds: float = MOST_SECONDS
) -> BaseException | None:
    """Run one case within its time; return what escaped."""
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, most_seconds)
    signal.setitimer(signal.ITIMER_REAL, HANGS_AFTER)  # ends the process
    try:
        run(entry, number, most_seconds)
    except (Exception, TooLong) as error:  # noqa: BLE001 - that is what is looked for
        return error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None


def work(entry: str, numbers: Iterable[int], place: str, most_seconds: float) -> None:
    """Run a batch, and print a line of JSON for each case that fails."""
    prepare()
    ENTRIES[entry](Random(0))  # everything is imported
    at = os.open(place, os.O_WRONLY)
    for number in numbers:
        os.pwrite(at, b"%020d" % number, 0)
        _limit_memory()
        error = bounded(entry, number, most_seconds)
        if error is not None:
            print(json.dumps(described(entry, number, error)), flush=True)


def within_batch(first: int) -> Iterator[int]:
    """Return numbers from the first one on, until the batch has had its time."""
    return takewhile(lambda _: time.process_time() < BATCH_SECONDS, count(first))


def _limit_memory() -> None:
    """Let the next case take so much more than there is: caches fill meanwhile."""
    used = int(Path("/proc/self/statm").read_text("utf-8").split()[0])
    limit = used * resource.getpagesize() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


def described(entry: str, number: int, error: BaseException) -> dict[str, Any]:
    """Return what is written down of a case that failed."""
    cause = error.__cause__ if type(error).__name__ == "Escaped" else None
    frames = traceback.extract_tb((cause or error).__traceback__)
    own = [f"{f.filename.split('planner/', 1)[-1]}:{f.lineno}" for f in frames]
    return {
        "entry": entry,
        "number": number,
        "error": type(cause or error).__name__,
        "words": str(error)[:300] + (f" <- {cause}"[:300] if cause else ""),
        "where": own[-1] if own else "",
        "last": own[-6:],
    }


def batch(entry: str, words: Sequence[str]) -> tuple[int, list[dict[str, Any]]]:
    """Run a batch in a process of its own.

    The words are the numbers of its cases, or `--from` and the first one, and the
    `--seconds` that a case may take.
    Returns the number of the last case, and what failed.
    """
    with tempfile.NamedTemporaryFile(prefix="planner-fuzz-") as place:
        done = subprocess.run(
            [sys.executable, "-m", __spec__.name, "--work", place.name, entry, *words],
            capture_output=True,
            text=True,
            check=False,
        )
        last = int(Path(place.name).read_text("ascii") or -1)
    found = [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]
    if done.returncode:
        found.append(
            {
                "entry": entry,
                "number": last,
                "error": f"Ended with {done.returncode}",
                "words": done.stderr[-300:],
                "where": "",
            }
        )
    return last, found


def minutes(length: float, names: list[str]) -> int:
    """Run all entries for so long; return how many cases failed."""
    prepare()
    FOUND.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    end = time.monotonic() + 60 * length
    for turn in count():
        if time.monotonic() > end:
            break
        entry = following(names, counts, turn)
        first = SystemRandom().randrange(1 << 40)
        last, found = batch(entry, ["--from", str(first)])
        counts[entry] += max(0, last - first + 1)
        failures += found
        (FOUND / "counts.json").write_text(json.dumps(counts), encoding="utf-8")
        (FOUND / "found.jsonl").write_text(
            "".join(json.dumps(one) + "\n" for one in failures), encoding="utf-8"
        )
    _tell(counts, failures)
    return len(failures)


def following(names: Sequence[str], counts: Mapping[str, int], turn: int) -> str:
    """Return whose turn it is: each first, then the rarest, then all in turn."""
    rarest = min(names, key=lambda name: counts.get(name, 0))
    if turn >= len(names) and counts.get(rarest, 0) < LEAST_CASES:
        return rarest
    return names[turn % len(names)]


def _tell(counts: Counter[str], failures: list[dict[str, Any]]) -> None:
    print(f"{counts.total():,} cases: {dict(counts)}")
    alike = Counter((one["entry"], one["error"], one["where"]) for one in failures)
    for (entry, error, where), times in alike.most_common(40):
        one = next(
            f
            for f in failures
            if (f["entry"], f["error"], f["where"]) == (entry, error, where)
        )
        print(f"{times:5} {entry} {error} {where}: {one['words'][:200]}")
        print(f"      python -m {__spec__.name} {entry} {one['number']}")
    if failures:
        print(f"All {len(failures)} are in {FOUND / 'found.jsonl'}.")


def main() -> int:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", metavar="ENTRY NUMBER")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--work", metavar="PLACE")
    parser.add_argument("--from", type=int, dest="first", metavar="NUMBER")
    parser.add_argument("--seconds", type=float, default=MOST_SECONDS)
    given = parser.parse_intermixed_args()
    if given.minutes is not None:
        return 1 if minutes(given.minutes, given.words or list(ENTRIES)) else 0
    entry, *words = given.words
    numbers = [int(word) for word in words]
    if given.work:
        chosen = numbers if given.first is None else within_batch(given.first)
        work(entry, chosen, given.work, given.seconds)
        return 0
    prepare()
    for number in numbers:
        run(entry, number, given.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
