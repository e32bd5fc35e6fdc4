"""`planner speed`: an upper bound on the speed of a plan."""

from __future__ import annotations

import json
import sys
from typing import Any

from planner.app.cli.compare import plan_file_of
from planner.app.cli.engine_flags import add_plan_arguments
from planner.app.cli.shared import DOES_NOT_FIT, FITS, Commands, add_load, load_of
from planner.errors import PlannerError
from planner.solve.speed.bound import speed_bound


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "speed",
        help="a bound on tokens per second, no forecast",
        allow_abbrev=False,
    )
    add_plan_arguments(parser, is_in_file=True)
    add_load(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(options: dict[str, Any]) -> int:
    as_json = options.pop("json")
    given = load_of(options)
    found = plan_file_of(options.pop("model"), options)
    load = given or found.load
    if load is None:
        raise PlannerError(
            "--prompt-tokens and --output-tokens are needed, or a plan file that "
            "names a load."
        )
    bound = speed_bound(found.inputs.plan(), load)
    text = json.dumps(bound.to_dict(), indent=2) if as_json else str(bound)
    sys.stdout.write(text + "\n")
    return FITS if bound.plan.fits else DOES_NOT_FIT
