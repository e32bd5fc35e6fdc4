"""`planner doctor`: what works on this machine, and what to do about the rest."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from planner.app.cli.shared import DOES_NOT_FIT, FITS, Commands
from planner.app.doctor import examine

if TYPE_CHECKING:
    from planner.app.doctor import Report


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "doctor", help="what works on this machine, and what to do about the rest"
    )
    parser.add_argument(
        "--need",
        action="append",
        default=[],
        metavar="PART",
        help="end with status 1 unless this part works, such as app, hub, gpu or "
        "vllm; may be given several times",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(options: dict[str, Any]) -> int:
    report = examine()
    is_well = report.works(*options["need"])
    if options["json"]:
        sys.stdout.write(json.dumps(report.to_dict(), indent=2) + "\n")
    else:
        sys.stdout.write(f"{report}\n")
        sys.stdout.write(_verdict(report, options["need"]))
    return FITS if is_well else DOES_NOT_FIT


def _verdict(report: Report, needed: list[str]) -> str:
    """Return a line about whether the needed parts work; empty without any."""
    if not needed:
        return ""
    lacking = [name for name in needed if not report.works(name)]
    if lacking:
        return f"\n✘ Needed, and not working: {', '.join(lacking)}.\n"
    return f"\n✔ All that is needed works: {', '.join(needed)}.\n"
