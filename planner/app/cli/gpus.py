"""`planner gpus`: the bundled catalogue of GPUs, and those of this machine."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from planner.app.cli.shared import DOES_NOT_FIT, FITS, Output
from planner.engine import gpu
from planner.engine.devices import attached, gpu_named
from planner.engine.gpu_text import gpu_line

EXAMPLES = ("planner gpus", "planner gpus h100", "planner gpus --attached")


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    parser.add_argument(
        "search", nargs="?", default="", help="part of a name, or of a generation's"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--attached",
        action="store_true",
        help="those of this machine, and the processes that use them",
    )


def run(options: dict[str, Any], out: Output) -> int:
    """List GPUs, and return the exit status."""
    if options["attached"]:
        return _run_attached()
    found = gpu.search(options["search"])
    if not found and not out.as_json:
        gpu_named(options["search"])  # says why there is none, and what is near
    return out.write(
        lambda: list(map(gpu.gpu_dict, found)),
        lambda: "\n".join(map(gpu_line, found)),
        found,
    )


def _run_attached() -> int:
    found = attached.survey()
    lines = [attached.attached_line(one) for one in found.gpus]
    sys.stdout.writelines(line + "\n" for line in (*lines, *found.notes))
    if not lines:
        sys.stdout.write(f"{found.reason}\n{attached.processor_line()}")
    return FITS if lines else DOES_NOT_FIT
