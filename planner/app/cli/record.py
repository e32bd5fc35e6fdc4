"""`planner record`: keep what vLLM built of a model, for machines without vLLM."""

from __future__ import annotations

import sys
from typing import Any

from planner.app.cli.engine_flags import add_engine_arguments
from planner.app.cli.status import FITS, Commands
from planner.confirming.dry.recorder import record
from planner.confirming.start import stage_lines


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "record",
        help="let vLLM build a model without a GPU, and keep what it built",
        description="Let the installed vLLM build a model, on one rank and on two, on "
        "a GPU that is not there, and write its modules, tensors and caches to a small "
        "file. Later plans of the same config.json use it, on any machine.",
        allow_abbrev=False,
    )
    parser.add_argument("model", help="Hub id, catalogue id, folder or config.json")
    parser.add_argument(
        "--gpu", default="H100", help="whose kernels vLLM chooses (default: H100)"
    )
    parser.add_argument(
        "--python",
        dest="vllm_python",
        metavar="PYTHON",
        help="Python of the environment that holds vLLM (default: "
        "PLANNER_VLLM_PYTHON, else this one)",
    )
    parser.add_argument(
        "--output", metavar="FILE", help="default: among your own recordings"
    )
    add_engine_arguments(parser)
    parser.set_defaults(run=_run)


def _run(options: dict[str, Any]) -> int:
    given = {name: value for name, value in options.items() if value is not None}
    model = given.pop("model")
    path = record(model, listener=stage_lines(sys.stderr), **given)
    sys.stdout.write(f"{path}\n")
    return FITS
