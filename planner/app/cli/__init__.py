"""The command line: one module per command, `engine_flags` for vLLM's arguments.

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
    record,
    solve,
    speed,
    sweep,
)
from planner.app.cli.status import BAD_INPUT, DOES_NOT_FIT, FITS
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
    "models": models.add,
    "gpus": gpus.add,
    "calibration": calibration.add,
    "doctor": doctor.add,
    "app": app.add,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = build_parser()
    known, unknown = parser.parse_known_args(arguments)
    options = vars(known)
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
