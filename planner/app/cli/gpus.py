"""`planner gpus`: the bundled catalogue of GPUs, and those of this machine."""

from __future__ import annotations

import argparse
from contextlib import suppress
from dataclasses import fields
from typing import Any

from planner.app.cli.shared import Output
from planner.engine import gpu
from planner.engine.devices import attached, gpu_named
from planner.engine.devices.processor import processor_gpu
from planner.engine.gpu_text import gpu_line
from planner.errors import PlannerError
from planner.surroundings import is_published

EXAMPLES = ("planner gpus", "planner gpus h100", "planner gpus --attached")


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    parser.add_argument(
        "search", nargs="?", default="", help="part of a name, or of a generation's"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--attached",
        action="store_true",
        help="those of this machine, and the processes that use them",
    )


def run(options: dict[str, Any], out: Output) -> int:
    """List GPUs, and return the exit status."""
    if options["attached"]:
        return _run_attached(out)
    found = gpu.search(options["search"])
    if not found and not out.as_json:
        gpu_named(options["search"])  # says why there is none, and what is near
    return out.write(
        lambda: list(map(gpu.gpu_dict, found)),
        lambda: "\n".join(map(gpu_line, found)),
        found,
    )


def _run_attached(out: Output) -> int:
    found = attached.survey()
    return out.write(lambda: _values(found), lambda: _text(found), found.gpus)


def _text(found: attached.Survey) -> str:
    """Write what was found on this machine, a line each; else why there is none."""
    lines = [attached.attached_line(one) for one in found.gpus]
    none = [] if lines else [found.reason, attached.processor_line()]
    return "\n".join([*lines, *found.notes, *none]).rstrip()


def _values(found: attached.Survey) -> dict[str, Any]:
    """Return what was found on this machine as plain values for JSON."""
    here = None
    with suppress(PlannerError):
        here = None if is_published() else gpu.gpu_dict(processor_gpu())
    return {
        **_facts(found),
        "gpus": [
            {
                **_facts(one),
                "processes": list(map(_facts, one.processes)),
                "gpu": None if one.gpu is None else gpu.gpu_dict(one.gpu),
            }
            for one in found.gpus
        ],
        "processor": here,
    }


def _facts(
    one: attached.Survey | attached.AttachedGPU | attached.Process,
) -> dict[str, Any]:
    return {fact.name: getattr(one, fact.name) for fact in fields(one)}
