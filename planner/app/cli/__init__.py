"""The command line: one module per command, `engine_flags` for vLLM's arguments.

`shared` is what several commands need.
Exit status: 0 fits, 1 does not fit, too close to call or refused, 2 bad input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from planner.app.cli import (
    advise,
    app,
    calibration,
    compare,
    confirm,
    doctor,
    dry_run,
    export,
    gpus,
    models,
    plan,
    ray,
    read,
    record,
    solve,
    speed,
    sweep,
)
from planner.app.cli.shared import BAD_INPUT, DOES_NOT_FIT, FITS
from planner.engine.settings import settings_from
from planner.errors import PlannerError

__all__ = [
    "BAD_INPUT",
    "DOES_NOT_FIT",
    "FITS",
    "build_parser",
    "main",
    "refuse_unknown",
]

# In the order of the help; each function adds its parser and sets what runs it.
_COMMANDS = {
    "plan": plan.add,
    "solve": solve.add,
    "advise": advise.add,
    "compare": compare.add,
    "sweep": sweep.add,
    "speed": speed.add,
    "ray": ray.add,
    "export": export.add,
    "confirm": confirm.add,
    "dry-run": dry_run.add,
    "record": record.add,
    "read": read.add,
    "models": models.add,
    "gpus": gpus.add,
    "calibration": calibration.add,
    "doctor": doctor.add,
    "app": app.add,
}

_PLANNING = (
    *("plan", "solve", "advise", "compare", "sweep", "speed", "ray", "export"),
    *("confirm", "dry-run", "record"),
)
"""Commands that take vLLM's arguments, those of its server included."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = build_parser()
    try:
        words, server = _split(parser, sys.argv[1:] if arguments is None else arguments)
    except PlannerError as error:
        sys.stderr.write(f"planner: {error}\n")
        return BAD_INPUT
    known, unknown = parser.parse_known_args(words)
    options = vars(known) | server
    if "env" in options:
        options["env"] = dict(options["env"])
    run: Callable[[dict[str, Any]], int] = options.pop("run")
    if "others" in options:  # argparse leaves names behind flags: `A --gpu L4 B`
        options["others"] += [word for word in unknown if not word.startswith("-")]
        unknown = [word for word in unknown if word.startswith("-")]
    try:
        refuse_unknown(unknown, "`planner --help` helps.")
        return run(options)
    except BrokenPipeError:  # `planner gpus | head`: the reader has ended
        sys.stdout = None
        return FITS
    except PlannerError as error:
        sys.stderr.write(f"planner: {error}\n")
        return BAD_INPUT


def _split(
    parser: argparse.ArgumentParser, arguments: Sequence[str]
) -> tuple[list[str], dict[str, Any]]:
    """Put in what a command after `--` says, and split off the server's flags."""
    if not arguments or arguments[0] not in _PLANNING:
        return list(arguments), {}
    words = read.expanded(arguments)
    (commands,) = _subcommands(parser)
    return read.without_server_flags(words, _own_flags(commands.choices[words[0]]))


def _subcommands(
    parser: argparse.ArgumentParser,
) -> list[argparse._SubParsersAction[argparse.ArgumentParser]]:
    # argparse has no other way to ask a parser what it knows.
    actions = parser._actions
    return [one for one in actions if isinstance(one, argparse._SubParsersAction)]


def _own_flags(parser: argparse.ArgumentParser) -> list[str]:
    """Return the flags of a command and of the commands in it."""
    inner = [one for found in _subcommands(parser) for one in found.choices.values()]
    return [
        *(flag for action in parser._actions for flag in action.option_strings),
        *(flag for one in inner for flag in _own_flags(one)),
    ]


def refuse_unknown(words: list[str], help_hint: str) -> None:
    """Refuse the first unknown word, and suggest the nearest argument.

    Raises:
        PlannerError: where there is an unknown word.
    """
    if not words:
        return
    if words[0].startswith("--"):
        name = words[0].removeprefix("--").partition("=")[0].replace("-", "_")
        settings_from({name: None})
    raise PlannerError(f"{words[0]!r} was not expected here. {help_hint}")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser; engine arguments are the flags of `vllm serve`."""
    parser = argparse.ArgumentParser(
        prog="planner",
        description="Plan vLLM's GPU memory before it starts.",
        epilog="Commands that plan take vLLM's engine arguments: `planner plan --help` "
        "says what each does to memory.",
    )
    commands = parser.add_subparsers(required=True, metavar="|".join(_COMMANDS))
    for add in _COMMANDS.values():
        add(commands)
    return parser
