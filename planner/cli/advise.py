"""`planner advise`: what to change so that vLLM starts, or serves more."""

from __future__ import annotations

import json
import sys
from typing import Any

from planner.advice import advise
from planner.cli.engine_flags import add_plan_arguments, planned
from planner.cli.status import DOES_NOT_FIT, FITS, Commands
from planner.errors import PlannerError
from planner.load import Load


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    # An abbreviated flag would hide that the argument is not known.
    parser = commands.add_parser(
        "advise",
        help="what to change so that it starts, or serves more",
        allow_abbrev=False,
    )
    add_plan_arguments(parser)
    load = parser.add_argument_group("the load that it must serve")
    load.add_argument("--prompt-tokens", type=int, metavar="N")
    load.add_argument("--output-tokens", type=int, metavar="N")
    load.add_argument("--requests", type=int, metavar="N", help="at once (default: 1)")
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.set_defaults(run=_run)


def _run(options: dict[str, Any]) -> int:
    as_json = options.pop("json")
    load = _load(options)
    advice = advise(planned(options), load)
    text = json.dumps(advice.to_dict(), indent=2) if as_json else str(advice)
    sys.stdout.write(text + "\n")
    return FITS if advice.helps_to_start else DOES_NOT_FIT


def _load(options: dict[str, Any]) -> Load | None:
    """Return the load that was asked for; None without any."""
    names = ("prompt_tokens", "output_tokens", "requests")
    given = {name: options.pop(name) for name in names}
    if all(value is None for value in given.values()):
        return None
    if given["prompt_tokens"] is None:
        raise PlannerError("A load needs --prompt-tokens, the longest prompt's tokens.")
    return Load(
        prompt_tokens=given["prompt_tokens"],
        output_tokens=given["output_tokens"] or 0,
        requests=1 if given["requests"] is None else given["requests"],
    )
