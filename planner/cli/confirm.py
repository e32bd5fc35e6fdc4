"""`planner confirm`: start vLLM, or read its log, and compare with the plan."""

from __future__ import annotations

import json
import sys
from typing import Any

from planner.cli.engine_flags import add_plan_arguments, planned
from planner.cli.status import DOES_NOT_FIT, FITS, Commands
from planner.errors import PlannerError
from planner.gpu import CPU
from planner.result import Plan

_OWN = ("weights", "python", "time_limit_seconds", "load_requests", "port", "is_stored")


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "confirm",
        help="start vLLM here and compare with the plan",
        description="Start vLLM with the planned arguments, read what it measured, and "
        "lay it over the estimate. Exit status: 0 vLLM started, 1 it did not, 2 bad "
        "input.",
        allow_abbrev=False,
    )
    add_plan_arguments(parser, is_here=True)
    own = parser.add_argument_group("how vLLM is started")
    own.add_argument(
        "--weights",
        default="dummy",
        help="dummy: random numbers, no download (default); real: the checkpoint's",
    )
    own.add_argument("--python", help="Python of the environment that holds vLLM")
    own.add_argument(
        "--time-limit",
        dest="time_limit_seconds",
        type=float,
        default=1800.0,
        metavar="SECONDS",
        help="end vLLM after so long (default: 1800)",
    )
    own.add_argument(
        "--load-requests",
        type=int,
        metavar="N",
        help="when it is ready, send N requests of the planned length at once",
    )
    own.add_argument("--port", type=int, help="of the server (default: a free one)")
    own.add_argument(
        "--no-store",
        dest="is_stored",
        action="store_false",
        help="do not keep the figures for later plans",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(options: dict[str, Any]) -> int:
    # Starting processes and speaking HTTP: not for `planner plan`.
    from planner.confirm.api import confirm, stage_lines  # noqa: PLC0415

    as_json = options.pop("json")
    own = {name: options.pop(name) for name in _OWN}
    plan = _plan_here(options, own["python"])
    confirmation = confirm(plan, listener=stage_lines(sys.stderr), **own)
    _show(confirmation, as_json=as_json)
    return FITS if confirmation.measurement.is_started else DOES_NOT_FIT


def _plan_here(options: dict[str, Any], python: str | None) -> Plan:
    """Plan for the vLLM that is installed and the GPU that is attached."""
    from planner.confirm import installation  # noqa: PLC0415 - starts a process

    if options["model"] is None:
        raise PlannerError("Say which model: planner confirm MODEL ...")
    found = installation.find(python)
    options["vllm_version"] = options["vllm_version"] or found.version
    options["gpu"] = options["gpu"] or (CPU if found.is_cpu_build else "attached")
    return planned(options)


def _show(confirmation: Any, *, as_json: bool) -> None:  # noqa: ANN401 - a Confirmation
    if as_json:
        text = json.dumps(confirmation.to_dict(), indent=2, default=str)
    else:
        text = str(confirmation)
    sys.stdout.write(text + "\n")
