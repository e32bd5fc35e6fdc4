"""`planner doctor`: what works on this machine, and what to do about the rest."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from planner.app.cli.shared import DOES_NOT_FIT, FITS, add_list, add_output
from planner.app.doctor import examine

if TYPE_CHECKING:
    from planner.app.doctor import Report


EXAMPLES = ("planner doctor", "planner doctor --need app,hub")


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    add_list(
        parser,
        "--need",
        "PART",
        "end with status 1 unless these parts work, such as app, hub, gpu or vllm",
        default=[],
    )
    add_output(parser)
    parser.set_defaults(run=_run)


def _run(options: dict[str, Any]) -> int:
    report = examine()
    is_well = report.works(*options["need"])
    if options["json"]:
        sys.stdout.write(json.dumps(report.to_dict(), indent=2) + "\n")
    else:
        text = f"{report}\n{_verdict(report, options['need'])}"
        sys.stdout.write(options["screen"].shown(text))
    return FITS if is_well else DOES_NOT_FIT


def _verdict(report: Report, needed: list[str]) -> str:
    """Return a line about whether the needed parts work; empty without any."""
    if not needed:
        return ""
    lacking = [name for name in needed if not report.works(name)]
    if lacking:
        return f"\n✘ Needed, and not working: {', '.join(lacking)}.\n"
    return f"\n✔ All that is needed works: {', '.join(needed)}.\n"
