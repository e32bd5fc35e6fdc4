"""`planner speed`: an upper bound on the speed of a plan."""

from __future__ import annotations

import argparse
from typing import Any

from planner.app.cli.compare import inputs_named
from planner.app.cli.engine_flags import add_plan_arguments
from planner.app.cli.shared import (
    DOES_NOT_FIT,
    FITS,
    add_load,
    add_output,
    load_of,
    say,
)
from planner.errors import PlannerError
from planner.solve.speed.bound import speed_bound

EXAMPLES = (
    "planner speed Qwen/Qwen3-8B --gpu H100 --prompt-tokens 3000 --output-tokens 1000 "
    "--requests 16",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    add_plan_arguments(parser, is_in_file=True)
    add_load(parser.add_argument_group("the load"))
    add_output(parser)
    parser.set_defaults(run=_run)


def _run(options: dict[str, Any]) -> int:
    as_json, screen = options.pop("json"), options.pop("screen")
    given = load_of(options)
    found = inputs_named(options.pop("model"), options)
    load = given or found.load
    if load is None:
        raise PlannerError(
            "--prompt-tokens and --output-tokens are needed, or a plan file that "
            "names a load."
        )
    bound = speed_bound(found.plan(), load)
    say(bound, screen, as_json=as_json)
    return FITS if bound.plan.fits else DOES_NOT_FIT
