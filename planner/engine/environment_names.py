"""Environment variables as a shell and a process hold them, whatever reads them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from planner.errors import PlannerError

_NAME = r"[A-Za-z_][A-Za-z0-9_]*\Z"


def is_variable(name: str) -> bool:
    """Return whether a text is the name of a variable, which a shell may set.

    Source: POSIX.1-2017, Base Definitions, 3.235 Name.
    """
    return re.match(_NAME, name) is not None


def assignments(env: Iterable[tuple[str, str]]) -> list[str]:
    """Return variables as words before a shell's command.

    >>> assignments([("VLLM_PP_LAYER_PARTITION", "20,28"), ("A", "b c")])
    ['VLLM_PP_LAYER_PARTITION=20,28', "A='b c'"]

    Raises:
        PlannerError: for a name that a shell would read as something else.
    """
    given = list(env)
    check_variables(dict(given))
    return [f"{name}={shlex.quote(value)}" for name, value in given]


def check_variables(env: Mapping[Any, Any]) -> None:
    """Check names and values.

    Raises:
        PlannerError: for what no environment can hold.
    """
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise PlannerError(
                "env: names and values of environment variables are texts, such as "
                "{'VLLM_USE_V2_MODEL_RUNNER': '1'}."
            )
        if not is_variable(name):
            raise PlannerError(
                f"env: {name[:40]!a} is not the name of an environment variable. "
                "Use letters of ASCII, digits and _, and no digit at the beginning."
            )
        if not _can_be_held(value):
            raise PlannerError(
                f"env: {name[:80]} has half a character of UTF-16, which no process "
                "takes. Leave it out."
            )


def _can_be_held(value: str) -> bool:
    return value.isascii() or not any("\ud800" <= one <= "\udfff" for one in value)
