"""Plan files on the command line: `-f plan.yaml`, with flags that say otherwise."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.cli.engine_flags import add_plan_arguments
from planner.errors import PlannerError
from planner.export.plan_file import PlanFile, read_yaml
from planner.inputs import Inputs
from planner.result import Plan

_START = ("model", "gpu", "vllm_version", "entrypoint")


def add_file_argument(parser: argparse.ArgumentParser) -> None:
    """Add a model, a GPU, a release and engine arguments, or a file that holds them."""
    parser.add_argument(
        "-f",
        "--file",
        metavar="FILE",
        help="plan file in YAML or JSON; flags given as well count instead of it",
    )
    add_plan_arguments(parser, is_in_file=True)


def planned_with_file(options: dict[str, Any]) -> Plan:
    """Return the plan of parsed options; no other options may be left in them.

    Raises:
        PlannerError: for input that cannot be planned.
    """
    return file_with_flags(options).inputs.plan()


def file_with_flags(options: dict[str, Any]) -> PlanFile:
    """Return what a plan file and the flags beside it ask for.

    Raises:
        PlannerError: for a file that cannot be read, or no model at all.
    """
    name = options.pop("file")
    start = {key: options.pop(key) for key in _START}
    start = {key: value for key, value in start.items() if value is not None}
    if name is not None:
        found = _read(Path(name))
    elif "model" in start:
        found = PlanFile(inputs=Inputs(model=start["model"]))
    else:
        raise PlannerError(
            "Name a model, such as Qwen/Qwen3-8B, or a plan file with -f plan.yaml."
        )
    inputs = replace(found.inputs, **start).changed(**options)
    return replace(found, inputs=inputs)


def _read(path: Path) -> PlanFile:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise PlannerError(f"The plan file {path} cannot be read: {reason}.") from None
    try:
        return read_yaml(text)
    except PlannerError as error:
        raise type(error)(f"{path}: {error}") from None
