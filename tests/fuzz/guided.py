"""Texts that reach lines of the readers that none reached before, by atheris.

`make fuzz-guided MINUTES=10`; the texts that reach something are kept in
`build/fuzz/corpus`, from one run to the next, and fewer stand for as many lines after
each. What escapes is written to `build/fuzz` and printed with its traceback: it belongs
into `tests/data/texts`, or as a case into the tests of the reader that failed.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

from tests.fuzz.running import FOUND, MOST_SECONDS

MODULE = "tests.fuzz.guided"
SEEDS = Path(__file__).parents[1] / "data" / "texts"
CORPUS = FOUND / "corpus"
MOST_BYTES = 6_000
"""Of a text: most of what people paste is shorter, and it goes on by changing it."""
MOST_MIB = 700
"""Of the process: what is imported, the coverage and a text."""


def fuzz(words: list[str]) -> None:
    """Read texts until libFuzzer's time is over, or one of them escapes."""
    import atheris  # of an environment of its own

    with atheris.instrument_imports(include=["planner.reading"]):
        import planner

        for path in sorted(SEEDS.iterdir()):  # what is imported late, too
            _read(planner, path.read_bytes()[:MOST_BYTES])
    # libFuzzer starts itself again, by a shell, where it looks for fewer texts.
    again = shlex.join([sys.executable, "-m", MODULE, "--"])
    atheris.Setup([again, *words], lambda data: _read(planner, data))
    atheris.Fuzz()


def _read(planner: object, data: bytes) -> None:
    from tests.fuzz.entries import sentences

    with sentences():
        found = planner.read(data.decode("utf-8", "replace"))  # type: ignore[attr-defined]
        str(found)


def minutes(length: float) -> int:
    """Fuzz for so long, then keep as few texts as reach as much."""
    CORPUS.mkdir(parents=True, exist_ok=True)
    limits = [
        f"-max_len={MOST_BYTES}",
        f"-rss_limit_mb={MOST_MIB}",
        f"-timeout={int(10 * MOST_SECONDS)}",  # of the clock, and of slower code
        f"-artifact_prefix={FOUND}/",
    ]
    status = _run(CORPUS, SEEDS, *limits, f"-max_total_time={int(60 * length)}")
    fewer = FOUND / "fewer"
    fewer.mkdir(exist_ok=True)
    merged = _run(fewer, CORPUS, *limits, "-merge=1")
    kept = {path.name for path in fewer.iterdir()}
    if merged == 0 and kept:
        for path in CORPUS.iterdir():
            if path.name not in kept:
                path.unlink()
    sys.stdout.write(f"{len(list(CORPUS.iterdir()))} texts are in {CORPUS}.\n")
    return status


def _run(*words: object) -> int:
    command = [sys.executable, "-m", MODULE, "--", *map(str, words)]
    return subprocess.run(command, check=False).returncode


def main() -> int:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("words", nargs="*", help="of libFuzzer")
    given = parser.parse_args()
    if given.minutes is None:
        fuzz(given.words)
        return 0
    return minutes(given.minutes)


if __name__ == "__main__":
    sys.exit(main())
