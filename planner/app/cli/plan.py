"""`planner plan`: what vLLM would do with a model."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planner.app.cli.engine_flags import add_file_argument, file_with_flags
from planner.app.cli.shared import DOES_NOT_FIT, FITS, Commands
from planner.confirming.dry.run import DryStart, dry_python
from planner.confirming.start import stage_lines
from planner.errors import UnknownArchitecture
from planner.show.advice import result
from planner.solve import serving
from planner.solve.advice import advise
from planner.solve.words import fails, holds

if TYPE_CHECKING:
    from planner.planning.inputs import Inputs
    from planner.planning.result import Plan
    from planner.solve import Serving

_TRIES = 3


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    # With abbreviations, an unknown argument could match another one.
    parser = commands.add_parser(
        "plan", help="what vLLM would do with a model", allow_abbrev=False
    )
    add_file_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    parser.set_defaults(run=_run)


def _run(options: dict[str, Any]) -> int:
    as_json = options.pop("json")
    plan_file = file_with_flags(options)
    result = _planned(plan_file.inputs)
    if result is None:
        return DOES_NOT_FIT
    if plan_file.load is None:
        text = json.dumps(result.to_dict(), indent=2) if as_json else _plan_text(result)
        sys.stdout.write(text + "\n")
        return FITS if result.fits else DOES_NOT_FIT
    served = serving(result, plan_file.load)
    if as_json:
        whole = result.to_dict() | {"load": _load_dict(served)}
        sys.stdout.write(json.dumps(whole, indent=2) + "\n")
    else:
        sys.stdout.write(f"{result}\n{load_line(served)}\n")
    return FITS if served.is_served else DOES_NOT_FIT


def _planned(inputs: Inputs) -> Plan | None:
    """Plan; where the planner does not read the model, let vLLM itself answer.

    Returns None, after writing what vLLM said, where it does not start either.

    Raises:
        PlannerError: for input that cannot be planned, or a model that vLLM does not
            serve either.
        UnknownArchitecture: where no vLLM is installed that could be started.
    """
    try:
        return inputs.plan()
    except UnknownArchitecture as unknown:
        python = dry_python()
        if python is None:
            raise
        sys.stderr.write(
            f"planner: {unknown}\nplanner: starting the vLLM of {python} on a GPU that "
            "is not there; its figures are used.\n"
        )
    installed = replace(inputs, vllm_version="")
    run = DryStart(installed, listener=stage_lines(sys.stderr)).execute()
    if run.ranks:
        return run.plan()
    sys.stdout.write(f"{run}\n")
    return None


def _plan_text(plan: Plan) -> str:
    """Write a plan, and what to try where vLLM does not start."""
    if plan.fits:
        return str(plan)
    advice = advise(plan)
    tries = [
        f"Try: {item.title}{f' ({item.flags})' if item.flags else ''}: "
        f"{result(advice, item)}"
        for item in advice.offered[:_TRIES]
    ]
    more = ["`planner advise` with the same arguments lists every change that helps."]
    return "\n".join([str(plan), "", *tries, *(more if tries else [])])


def _load_dict(served: Serving) -> dict[str, Any]:
    load = served.load
    return {
        "prompt_tokens": load.prompt_tokens,
        "output_tokens": load.output_tokens,
        "requests": load.requests,
        "is_served": served.is_served,
        "requests_held": served.requests_held,
    }


def load_line(served: Serving) -> str:
    """Return whether the file's load is served, and by which figures."""
    load = served.load
    verdict, why = (
        ("served", holds(served)) if served.is_served else ("not served", fails(served))
    )
    return (
        f"Load: {load.requests:,} at once of {load.request_tokens:,} tokens: "
        f"{verdict}; {why}."
    )
