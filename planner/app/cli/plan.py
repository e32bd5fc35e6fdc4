"""`planner plan`: what vLLM would do with a model."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planner.app.cli.engine_flags import add_file_argument, inputs_of
from planner.app.cli.shared import Output, add_output
from planner.errors import UnknownArchitecture
from planner.show.plan_text import plan_text
from planner.show.terminal import fold

if TYPE_CHECKING:
    from planner.confirming.dry.result import DryRun
    from planner.planning.inputs import Inputs
    from planner.planning.result import Plan
    from planner.show.terminal import Screen

_TRIES = 3
EXAMPLES = (
    "planner plan Qwen/Qwen3-8B --gpu H100",
    "planner plan Qwen/Qwen3-32B --gpu H100 --tensor-parallel-size 2 "
    "--prompt-tokens 30000 --output-tokens 2000 --requests 20",
    "planner plan -f plan.yaml --gpu H200 --json",
    "planner plan --gpu L4 -- vllm serve Qwen/Qwen3-8B --max-model-len 32768",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    parser.description = (
        "Say whether vLLM starts, what it allocates, and how many requests it holds; "
        "with a load, whether it serves that."
    )
    add_file_argument(parser)
    add_output(parser)


def run(options: dict[str, Any], out: Output) -> int:
    """Plan, and return the exit status."""
    result, run = _planned(inputs_of(options))
    if result is None:
        assert run is not None  # it answers where no plan does
        return out.write(run.to_dict, lambda: str(run), run.started)
    served = result.serving
    is_enough = result.fits and (served is None or served.is_served)
    return out.write(result.to_dict, lambda: _plan_text(result, out.screen), is_enough)


def _planned(inputs: Inputs) -> tuple[Plan | None, DryRun | None]:
    """Plan; where the planner does not read the model, let vLLM itself answer.

    Returns the dry run in the plan's place where vLLM does not start either, or keeps
    what a plan does not describe.

    Raises:
        PlannerError: for input that cannot be planned, or a model that vLLM does not
            serve either.
        UnknownArchitecture: where no vLLM is installed that could be started.
    """
    try:
        return inputs.plan(), None
    except UnknownArchitecture as unknown:
        from planner.confirming.dry.run import DryStart, dry_python  # noqa: PLC0415 - it starts vLLM
        from planner.confirming.start import stage_lines  # noqa: PLC0415 - it starts vLLM

        python = dry_python()
        if python is None:
            raise
        sys.stderr.write(
            f"planner: {unknown}\nplanner: starting the vLLM of {python} on a GPU that "
            "is not there; its figures are used.\n"
        )
    listener = stage_lines(sys.stderr)
    run = DryStart(replace(inputs, vllm_version=""), listener=listener).execute()
    if not run.ranks:
        return None, run
    try:
        return run.plan(), run
    except UnknownArchitecture as unknown:
        sys.stderr.write(f"planner: {unknown}\n")
        return None, run


def _plan_text(plan: Plan, screen: Screen) -> str:
    """Write a plan, and what to try where it does not start or serve its load."""
    served = plan.serving
    if plan.fits and (served is None or served.is_served):
        return plan_text(plan, screen)
    from planner.show.advice import result  # noqa: PLC0415 - few need it
    from planner.solve.advice import advise  # noqa: PLC0415 - few need it

    advice = advise(plan)
    lines = [plan_text(plan, screen), ""]
    for item in advice.offered[:_TRIES]:
        flags = f" ({item.flags})" if item.flags else ""
        outcome = result(advice, item)
        lines += fold(f"Try: {item.title}{flags}: {outcome}", screen.width)
    if advice.offered:
        more = "`planner advise` with the same arguments lists every change that helps."
        lines += fold(more, screen.width)
    return "\n".join(lines)
