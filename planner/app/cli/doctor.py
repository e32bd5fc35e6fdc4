"""`planner doctor`: what works on this machine, and what to do about the rest."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from planner.app.cli.shared import Output, add_list, add_output
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


def run(options: dict[str, Any], out: Output) -> int:
    """Look at this machine, and return the exit status."""
    report, needed = examine(), options["need"]
    return out.write(
        report.to_dict,
        lambda: out.screen.shown(f"{report}{_verdict(report, needed)}"),
        report.works(*needed),
    )


def _verdict(report: Report, needed: list[str]) -> str:
    """Return a line about whether the needed parts work; empty without any."""
    if not needed:
        return ""
    lacking = [name for name in needed if not report.works(name)]
    if lacking:
        return f"\n\n✘ Needed, and not working: {', '.join(lacking)}."
    return f"\n\n✔ All that is needed works: {', '.join(needed)}."
