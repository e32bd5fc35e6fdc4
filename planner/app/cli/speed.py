"""`planner speed`: a forecast of the speed of a plan, and an upper bound."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from planner.app.cli.compare import inputs_named
from planner.app.cli.engine_flags import add_plan_arguments
from planner.app.cli.shared import Output, add_load, add_output, load_of
from planner.errors import PlannerError
from planner.solve.speed.forecast import speed_forecast
from planner.solve.speed.keeping import keep_speed

EXAMPLES = (
    "planner speed Qwen/Qwen3-8B --gpu H100 --prompt-tokens 3000 --output-tokens 1000 "
    "--requests 16",
    "planner speed Qwen/Qwen3-8B --gpu H100 --measured result.json",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    add_plan_arguments(parser, is_in_file=True)
    about = parser.add_argument_group("the load")
    add_load(about)
    about.add_argument(
        "--acceptance-length",
        type=float,
        metavar="TOKENS",
        help="with speculative decoding, what vLLM logs as Mean acceptance length",
    )
    about.add_argument(
        "--measured",
        metavar="FILE",
        help="what `vllm bench serve` measured (--result-filename, or its text): keep "
        "it, and correct this and later forecasts of the start; brings its load",
    )
    add_output(parser)


def run(options: dict[str, Any], out: Output) -> int:
    """Forecast the speed, and return the exit status."""
    given, accepted = load_of(options), options.pop("acceptance_length")
    measured = options.pop("measured")
    found = inputs_named(options.pop("model"), options)
    plan = found.plan()
    load = given or found.load
    if measured is not None:
        kept = keep_speed(plan, Path(measured))
        load = load or kept.load
    if load is None:
        raise PlannerError(
            "--prompt-tokens and --output-tokens are needed, or a plan file that "
            "names a load."
        )
    forecast = speed_forecast(plan, load, acceptance_length=accepted)
    return out.say(forecast, plan.fits)
