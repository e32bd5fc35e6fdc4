"""`planner speed`: an upper bound on the speed of a plan."""

from __future__ import annotations

import argparse
from typing import Any

from planner.app.cli.compare import inputs_named
from planner.app.cli.engine_flags import add_plan_arguments
from planner.app.cli.shared import Output, add_load, add_output, load_of
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


def run(options: dict[str, Any], out: Output) -> int:
    """Bound the speed, and return the exit status."""
    given = load_of(options)
    found = inputs_named(options.pop("model"), options)
    load = given or found.load
    if load is None:
        raise PlannerError(
            "--prompt-tokens and --output-tokens are needed, or a plan file that "
            "names a load."
        )
    bound = speed_bound(found.plan(), load)
    return out.say(bound, bound.plan.fits)
