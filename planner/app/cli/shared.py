"""What several commands share: exit statuses, and the flags of a load."""

from __future__ import annotations

import argparse
from typing import Any, TypeAlias

from planner.errors import PlannerError
from planner.planning.load import Load

FITS, DOES_NOT_FIT, BAD_INPUT = 0, 1, 2

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_flag(
    group: argparse._ActionsContainer,
    name: str,
    kind: Any,  # noqa: ANN401 - what argparse calls
    metavar: str,
    text: str | None = None,
) -> None:
    """Add a flag that is absent from the options where it is not given."""
    flag = "--" + name.replace("_", "-")
    default = argparse.SUPPRESS
    group.add_argument(flag, type=kind, metavar=metavar, default=default, help=text)


def add_load(group: argparse._ActionsContainer) -> None:
    """Add the flags that `load_of` reads."""
    add_flag(group, "prompt_tokens", int, "N", "of a request")
    add_flag(group, "output_tokens", int, "N", "of its answer")
    add_flag(group, "requests", int, "N", "at once (default: 1)")


def load_of(options: dict[str, Any]) -> Load | None:
    """Remove the load from parsed options and return it; None: none was given.

    >>> load_of({"prompt_tokens": 3000, "model": "m"})
    Load(prompt_tokens=3000, output_tokens=0, requests=1)

    Raises:
        PlannerError: for a load without the tokens of its prompts.
    """
    names = ("prompt_tokens", "output_tokens", "requests")
    given = {name: options.pop(name) for name in names if name in options}
    if given and "prompt_tokens" not in given:
        raise PlannerError("A load needs --prompt-tokens, the longest prompt's tokens.")
    return Load(**({"output_tokens": 0} | given)) if given else None
