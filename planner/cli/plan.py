"""`planner plan`: what vLLM would do with a model."""

from __future__ import annotations

import json
import sys
from typing import Any

from planner.cli.plan_files import add_file_argument, planned_with_file
from planner.cli.status import DOES_NOT_FIT, FITS, Commands


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    # An abbreviated flag would hide that the argument is not known.
    parser = commands.add_parser(
        "plan", help="what vLLM would do with a model", allow_abbrev=False
    )
    add_file_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    parser.set_defaults(run=_run)


def _run(options: dict[str, Any]) -> int:
    as_json = options.pop("json")
    result = planned_with_file(options)
    text = json.dumps(result.to_dict(), indent=2) if as_json else str(result)
    sys.stdout.write(text + "\n")
    return FITS if result.fits else DOES_NOT_FIT
