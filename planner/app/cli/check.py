"""`planner check`: whether the starts that files describe would start."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Any

from planner.app.cli.shared import (
    BAD_INPUT,
    DOES_NOT_FIT,
    FITS,
    Output,
    add_output,
    unread,
)
from planner.errors import PlannerError
from planner.reading.checking import Answer, Checked, Checks, check

EXAMPLES = (
    "planner check recipes/*.yaml --gpu H200",
    "planner check results --strict",
    "planner check deployment.yaml starts.jsonl --strict --format github",
)
_FORMS = ("text", "json", "github")
_LEVELS = {
    Answer.DOES_NOT_START: "error",
    Answer.TOO_CLOSE: "warning",
    Answer.NOT_CHECKED: "warning",
}


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    parser.description = (
        "Plans every start that files describe: commands, manifests, compose files, "
        "vLLM's recipes, code, or lists of objects with `command`, `gpu`, "
        "`vllm_version`, `env` and `id`, in JSON or one a line. Exit status: 0 all "
        "start, 1 one does not, 2 a file holds no start."
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="FILE",
        help="files to check; of a folder, its manifests, configurations and scripts",
    )
    parser.add_argument("--gpu", metavar="GPU", help="the GPU of starts that name none")
    parser.add_argument(
        "--vllm-version", metavar="RELEASE", help="likewise the release"
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="also fail on a start that is too close to call or could not be checked",
    )
    parser.add_argument(
        "--format",
        choices=_FORMS,
        default="text",
        help="text (default), json, or github: annotations of a GitHub workflow",
    )
    add_output(parser)


def run(options: dict[str, Any], out: Output) -> int:
    """Check the files, and return the exit status."""
    found = check(
        options["paths"], gpu=options["gpu"], vllm_version=options["vllm_version"]
    )
    if lacking := unread(found.without):
        raise PlannerError(lacking)
    if options["format"] == "github" and not out.as_json:
        sys.stdout.write(_annotations(found))
    else:
        replace(out, as_json=out.as_json or options["format"] == "json").say(found)
    if not found.rows:
        return BAD_INPUT
    is_bad = any(row.answer in _failing(strict=options["strict"]) for row in found.rows)
    return DOES_NOT_FIT if is_bad else FITS


def _failing(*, strict: bool) -> tuple[Answer, ...]:
    return tuple(_LEVELS) if strict else (Answer.DOES_NOT_START,)


def _annotations(found: Checks) -> str:
    """Return a line for each start that is not certain, as GitHub shows it at its file.

    Source: GitHub's documentation of workflow commands: `::error file=,line=,title=::`,
    with %, line ends, colons and commas escaped.
    """
    lines = [_annotation(row) for row in found.rows if row.answer in _LEVELS]
    return "\n".join([*lines, str(found).splitlines()[-1]]) + "\n"


def _annotation(row: Checked) -> str:
    place = f"file={_escaped(row.path)}" + (f",line={row.line}" if row.line else "")
    title = _escaped(f"{row.answer}: {row.shown or row.model or row.path}")
    reason = _in_data(row.reason)
    return f"::{_LEVELS[row.answer]} {place},title={title}::{reason}"


def _in_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped(text: str) -> str:
    return _in_data(text).replace(":", "%3A").replace(",", "%2C")
