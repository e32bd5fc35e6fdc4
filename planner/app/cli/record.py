"""`planner record`: keep what vLLM built of a model, for machines without vLLM."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from planner.app.cli.consent import add_consent, check_consent
from planner.app.cli.engine_flags import add_engine_arguments
from planner.app.cli.shared import FITS, Output, add_python
from planner.confirming.dry.recorder import record
from planner.confirming.start import stage_lines

EXAMPLES = (
    "planner record org/new-model",
    "planner record ./my-model --output my-model.json",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    parser.description = (
        "Let the installed vLLM build a model, on one rank and on two, on a GPU that "
        "is not there, and write its modules, tensors and caches to a small file. "
        "Later plans of the same config.json use it, on any machine."
    )
    parser.add_argument("model", help="Hub id, catalogue id, folder or config.json")
    parser.add_argument(
        "--gpu",
        metavar="GPU",
        default="H100",
        help="whose kernels vLLM chooses (default: H100)",
    )
    add_python(parser)
    parser.add_argument(
        "--output", metavar="FILE", help="default: among your own recordings"
    )
    add_consent(parser)
    add_engine_arguments(parser)


def run(options: dict[str, Any], _out: Output) -> int:
    """Let vLLM build the model, print the file's path, return the exit status."""
    check_consent(options)
    given = {name: value for name, value in options.items() if value is not None}
    path = record(given.pop("model"), listener=stage_lines(sys.stderr), **given)
    sys.stdout.write(f"{path}\n")
    return FITS
