"""`planner advise`: what to change so that vLLM starts, or serves more."""

from __future__ import annotations

import json
import sys
from typing import Any

from planner.app.cli.engine_flags import add_plan_arguments, planned
from planner.app.cli.shared import DOES_NOT_FIT, FITS, Commands, add_load, load_of
from planner.solve.advice import advise


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    # With abbreviations, an unknown argument could match another one.
    parser = commands.add_parser(
        "advise",
        help="what to change so that it starts, or serves more",
        allow_abbrev=False,
    )
    add_plan_arguments(parser)
    add_load(parser.add_argument_group("the load that it must serve"))
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.set_defaults(run=_run)


def _run(options: dict[str, Any]) -> int:
    as_json = options.pop("json")
    load = load_of(options)
    advice = advise(planned(options), load)
    text = json.dumps(advice.to_dict(), indent=2) if as_json else str(advice)
    sys.stdout.write(text + "\n")
    return FITS if advice.helps_to_start else DOES_NOT_FIT
