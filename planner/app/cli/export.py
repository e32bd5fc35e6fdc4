"""`planner export`: a plan as a command, code, a manifest, a report or data."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner import export
from planner.app.cli import ray
from planner.app.cli.engine_flags import add_file_argument, inputs_of
from planner.app.cli.shared import FITS, Output
from planner.engine.environment_names import assignments
from planner.errors import PlannerError
from planner.ray import pipeline

if TYPE_CHECKING:
    from planner.planning.result import Plan

FORMATS = (
    *("command", "python", "compose", "kubernetes", "link"),
    *("markdown", "html", "json", "csv", "yaml"),
    *("ray-data", "ray-serve", "ray-serve-config"),
    *("ray-cluster", "ray-job", "ray-service"),
)
_BARE_ENGINE = ("ray-data", "ray-cluster", "ray-job")
"""Formats that start vLLM's engine without a server; plans default to that, too."""


EXAMPLES = (
    "planner export Qwen/Qwen3-8B --gpu H100 --format kubernetes --output vllm.yaml",
    "planner export -f plan.yaml --format command",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    add_file_argument(parser)
    parser.add_argument(
        "--format", required=True, choices=FORMATS, help="what to write"
    )
    parser.add_argument(
        "--output", metavar="FILE", help="where to write; standard output otherwise"
    )
    parser.add_argument(
        "--base-url",
        default="",
        metavar="URL",
        help="address of the page that a link opens",
    )
    ray.add_ray_arguments(parser)


def run(options: dict[str, Any], _out: Output) -> int:
    """Write the plan, and return the exit status."""
    kind, output = options.pop("format"), options.pop("output")
    base, given = options.pop("base_url"), ray.given_ray_arguments(options)
    if kind in _BARE_ENGINE and options["file"] is None:
        options["entrypoint"] = options["entrypoint"] or "engine"
    elif given and not kind.startswith("ray-"):
        raise PlannerError(
            f"{', '.join(given)}: part of a Ray pipeline, which --format {kind} does "
            "not hold. Use a format such as ray-data."
        )
    text = written(inputs_of(options).plan(), kind, base, given)
    if output is None:
        sys.stdout.write(text)
    else:
        write_whole(Path(output), text)
    return FITS


def written(
    plan: Plan, kind: str, base: str = "", given: Mapping[str, Any] | None = None
) -> str:
    """Return a plan in one of `FORMATS`, ending with a line break.

    `given` holds the pipeline's settings, under Ray's names.

    Raises:
        PlannerError: for what the format cannot express.
    """
    if kind.startswith("ray-"):
        found = pipeline(plan, **(given or {}))
        return str(getattr(export, kind.replace("-", "_"))(found))
    writers: Mapping[str, Callable[[], str]] = {
        "command": lambda: command_with_variables(plan),
        "link": lambda: export.link(plan, base),
        "markdown": lambda: export.markdown(plan, base=base),
        "html": lambda: export.html(plan, base=base),
    }
    write = writers.get(kind) or (lambda: str(getattr(export, kind)(plan)))
    text = write()
    return text if text.endswith("\n") else text + "\n"


def command_with_variables(plan: Plan) -> str:
    """Return the plan's command with its environment variables before it."""
    return " ".join([*assignments(plan.env), plan.command()])


def write_whole(path: Path, text: str) -> None:
    """Write a file atomically: an existing one stays until the new one is complete.

    Raises:
        PlannerError: where it cannot be written.
    """
    try:
        if _is_there(path) and not path.is_file():
            _write_into(path, text)
            return
        _replace(path, text)
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        reason = getattr(error, "strerror", None) or str(error)
        raise PlannerError(f"--output {path}: {reason}.") from None


def _is_there(path: Path) -> bool:
    """Return whether a path leads anywhere.

    Raises:
        OSError: for links in a circle, which `Path.exists` passes over, and
            `Path.resolve` as well from Python 3.13 on.
    """
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True


def _write_into(path: Path, text: str) -> None:
    """Write into a pipe that somebody reads, or a terminal, without waiting for one."""
    waits = getattr(os, "O_NONBLOCK", 0)
    number = os.open(path, os.O_WRONLY | waits)
    if waits:
        os.set_blocking(number, True)
    with os.fdopen(number, "wb") as file:
        file.write(_as_bytes(text))


def _replace(path: Path, text: str) -> None:
    target = path.resolve()
    number, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(_as_bytes(text))
        Path(name).chmod(_mode(target))
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _as_bytes(text: str) -> bytes:
    """Return text as UTF-8; a byte that was none is written as on a terminal."""
    return text.encode("utf-8", "backslashreplace")


def _mode(target: Path) -> int:
    """Return the mode of the file that is replaced, else that of a new file."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
