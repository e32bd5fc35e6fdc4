"""Find what a new release of vLLM changes, and write the data files that follow.

    python -m tools.release RELEASE [--python PYTHON] [--before FOLDER]
        [--cases FILE] [--record-only | --answers FILE]

Without --python the release's wheel is installed into an environment of its own (10 GB,
kept); without --before the sources of the release before are taken from its wheel. The
report is build/release-RELEASE.md, one page; beside it lie the edits of each reading,
`Change`s to fill in, and all that was compared. With --record-only a release is
recorded to compare later ones with, and neither data files nor a report are written.
With --answers nothing but what an older release answers is, to hold the planner to it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tools.dry_sweep import rows
from tools.release import (
    answers,
    data,
    evidence,
    installing,
    judging,
    missing,
    page,
    record,
    report,
    symbols,
)

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
PLANNER = ROOT / "planner"


def main() -> None:
    """Do all steps, and say where the report is."""
    given = _options()
    seconds: dict[str, float] = {}
    with _timed(seconds, "environment"):
        python = installing.python_of(given.release, given.python)
        packages = installing.packages_of(python)
    cases = rows(given.cases)
    if given.answers:
        _asked(python, cases, given.seconds, given.answers, given.ran)
        return
    with _timed(seconds, "sources"):
        cited = list(symbols.citations(PLANNER))
        found = record.of_sources(given.release, packages / "vllm", cited, PLANNER)
    with _timed(seconds, "cases"):
        out = record.answers_of(given.release)
        ran = given.ran or BUILD / f"release-{given.release}-ran.jsonl"
        answered = _asked(python, cases, given.seconds, out, ran)
        found = replace(found, answers=answered)
    before = None if given.record_only else record.last_before(given.release)
    sys.stdout.write(f"Recorded in {record.keep(found)}.\n")
    if before is None:
        return
    with _timed(seconds, "data files"):
        wheel = data.Wheel(
            release=given.release,
            python=python,
            packages=packages,
            names=found.names,
            before=before.names,
            root=ROOT,
        )
        files = data.write(wheel)
    findings = report.Findings(
        before=before,
        after=found,
        cited=cited,
        new=symbols.Sources(packages / "vllm"),
        files=files,
        seconds=seconds,
    )
    _kept(f"release-{given.release}-all.md", report.report(findings))
    with _timed(seconds, "bodies"):
        old = installing.sources_of(before.release, given.before)
        said = evidence.read(ran, before.answers, found.answers)
        judged = judging.judged(old / "vllm", packages / "vllm", cited, said)
    remaining = page.Remaining(
        before=before,
        after=found,
        judged=judged,
        missing=list(missing.missing(before.names, found.names, packages / "vllm")),
        sentences=list(missing.new_sentences(old / "vllm", packages / "vllm")),
        seconds=seconds,
    )
    _kept(f"release-{given.release}-edits.md", page.edits(remaining))
    _kept(f"release-{given.release}-changes.py", page.stubs(remaining))
    _kept(f"release-{given.release}.md", page.page(remaining))


def _kept(name: str, text: str) -> None:
    """Write one file of the report, and say where it is."""
    path = BUILD / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{path}\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.release", description=__doc__
    )
    parser.add_argument("release")
    parser.add_argument("--python", help="of an environment that has the release")
    parser.add_argument(
        "--before", type=Path, help="a folder with the package of the release before"
    )
    parser.add_argument("--cases", type=Path, default=answers.CASES)
    parser.add_argument("--seconds", type=float, default=300.0, help="for each case")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--record-only", action="store_true")
    only.add_argument("--answers", type=Path)
    parser.add_argument("--ran", type=Path, help="a file for what each case ran")
    return parser.parse_args()


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    begin = time.monotonic()
    yield
    seconds[step] = time.monotonic() - begin
    sys.stdout.write(f"{step}: {seconds[step]:.0f} s\n")
    sys.stdout.flush()


def _asked(
    python: str,
    cases: list[answers.Row],
    seconds: float,
    out: Path,
    ran: Path | None = None,
) -> list[answers.Row]:
    """Return what was answered; show each case, and how many were lost."""
    found = []
    for row in answers.answered(python, cases, seconds, out, ran):
        found.append(row)
        sys.stdout.write(f"  {answers.key(row)}\n")
        sys.stdout.flush()
    lost = {*map(answers.key, cases)} - {*map(answers.key, found)}
    if lost:
        sys.stdout.write(
            f"{len(lost)} of {len(cases)} cases were not answered: the same command "
            "asks them again.\n"
        )
    return found


if __name__ == "__main__":
    main()
