"""`planner confirm`: start vLLM, or read its log, and compare with the plan."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from planner.app.cli.consent import add_consent, check_consent
from planner.app.cli.engine_flags import add_plan_arguments, planned
from planner.app.cli.film import add_film, check_film, save_film
from planner.app.cli.shared import (
    DOES_NOT_FIT,
    FITS,
    Output,
    add_output,
    add_time_limit,
)
from planner.confirming import installation
from planner.confirming.differences import confirmation_of
from planner.confirming.from_log import measurement_of, plan_of_log
from planner.confirming.log import LogReading
from planner.confirming.run import confirm
from planner.confirming.start import stage_lines
from planner.engine.gpu import CPU
from planner.errors import PlannerError
from planner.planning.result import Plan
from planner.reading.logs.beside_plan import differences
from planner.reading.logs.logs import reading_of_log
from planner.user_files import read_input, read_text, user_path

_OWN = ("weights", "python", "time_limit_seconds", "load_requests", "port", "is_stored")


EXAMPLES = (
    "planner confirm Qwen/Qwen3-8B --max-model-len 8192",
    "planner confirm Qwen/Qwen3-8B --gpu H100 --log vllm.log",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    parser.description = (
        "Start vLLM with the planned arguments, read what it measured, and compare it "
        "with the estimate. Exit status: 0 vLLM started, 1 it did not, 2 bad input."
    )
    add_plan_arguments(parser, is_here=True)
    own = parser.add_argument_group("how vLLM is started")
    own.add_argument(
        "--weights",
        metavar="{dummy,real}",
        default="dummy",
        help="dummy: random numbers, no download (default); real: the checkpoint's",
    )
    own.add_argument(
        "--python", metavar="PYTHON", help="Python of the environment that holds vLLM"
    )
    add_time_limit(own)
    own.add_argument(
        "--load-requests",
        type=int,
        metavar="N",
        help="when it is ready, send N requests of the planned length at once",
    )
    add_consent(own)
    own.add_argument(
        "--port", type=int, metavar="N", help="of the server (default: a free one)"
    )
    own.add_argument(
        "--no-store",
        dest="is_stored",
        action="store_false",
        help="do not keep the figures for later plans",
    )
    add_film(own)
    parser.add_argument(
        "--log",
        metavar="FILE",
        help="start nothing: compare with this log of vLLM (- for standard input)",
    )
    add_output(parser)


def run(options: dict[str, Any], out: Output) -> int:
    """Start vLLM or read its log, compare, and return the exit status."""
    log, film = options.pop("log"), check_film(options.pop("film"))
    own = {name: options.pop(name) for name in _OWN}
    if log is not None:
        del options["trust_text"]
        options.pop("asked", None)
        return _compare_with_log(log, options, out)
    check_consent(options)
    plan = _plan_here(options, own["python"])
    confirmation = confirm(
        plan, listener=stage_lines(sys.stderr), is_filmed=film is not None, **own
    )
    save_film(confirmation.film, film)
    return out.say(confirmation, confirmation.measurement.is_started)


def _plan_here(options: dict[str, Any], python: str | None) -> Plan:
    """Plan for the installed vLLM and the attached GPU."""
    if options["model"] is None:
        raise PlannerError("Say which model: planner confirm MODEL ...")
    found = installation.find(python)
    options["vllm_version"] = options["vllm_version"] or found.version
    options["gpu"] = options["gpu"] or (CPU if found.is_cpu_build else "attached")
    return planned(options)


def _compare_with_log(name: str, options: dict[str, Any], out: Output) -> int:
    is_piped = name == "-"
    text = read_input() if is_piped else read_text(user_path(name), what="The log ")
    measurement = measurement_of(text)
    if not measurement.log.is_vllm:
        raise PlannerError(
            f"{name} is not a log of vLLM: no line is known. Give what `vllm "
            "serve` wrote, from its start on."
        )
    plan = _plan_of_log(measurement.log, options)
    if plan is None:
        figures = measurement.log.to_dict()
        sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    else:
        notes = differences(reading_of_log(text), plan)
        found = confirmation_of(plan, measurement, log_text=text, notes=notes)
        if notes and not out.as_json:
            sys.stdout.write("Not the same start. " + " ".join(notes) + "\n\n")
        out.say(found)
    return DOES_NOT_FIT if measurement.is_started is False else FITS


def _plan_of_log(reading: LogReading, options: dict[str, Any]) -> Plan | None:
    """Return the plan to compare with; None, with a message, where there is none.

    Raises:
        PlannerError: where the user named a model that cannot be planned.
    """
    is_named = options["model"] is not None
    try:
        plan = plan_of_log(reading, options)
    except PlannerError as error:
        if is_named:
            raise
        why = str(error)
    else:
        if plan is not None:
            return plan
        why = "The log does not name the model."
    sys.stderr.write(
        f"planner: Only the log's figures follow. {why} To compare them, say what ran: "
        "planner confirm MODEL --gpu NAME --log FILE\n"
    )
    return None
