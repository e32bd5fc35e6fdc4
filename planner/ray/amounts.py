"""Amounts and counts that a user gives, held to what can be computed with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from planner.errors import PlannerError

SCALE = 10_000
"""Ray's units in one of a resource: its smallest fraction is 1/10,000."""
MOST = 10**18
"""Of any amount or count: no cluster has as many bytes, and floats hold it."""
MOST_GPUS = 8_192
"""Of one node, and of one engine: each GPU is looked at."""
_LONGEST = 200
"""Characters of a value that are shown."""


def is_count(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number from 1 that can be computed with."""
    return isinstance(value, int) and type(value) is not bool and 1 <= value <= MOST


def is_amount(value: object) -> TypeGuard[float]:
    """Whether a value is a number from 0 that can be computed with."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= MOST


def check_amount(what: str, value: object, most: int = MOST) -> None:
    """Check that a value is a number from 0 to `most`.

    Raises:
        PlannerError: for any other value; it begins with `what`.
    """
    if not is_amount(value) or value > most:
        is_large = isinstance(value, int | float) and not value <= most
        above = f" and at most {most:,}" if is_large else ""
        raise PlannerError(f"{what}={shown(value)} must be 0 or more{above}.")


def check_mapping(name: str, value: object) -> None:
    """Check that a value is a mapping or None.

    Raises:
        PlannerError: for anything else.
    """
    if value is not None and not isinstance(value, Mapping):
        raise PlannerError(
            f"{name}={shown(value)}: a table such as {{'GPU': 1}} is needed."
        )


def check_text(name: str, value: object) -> None:
    """Check that a value is a text.

    Raises:
        PlannerError: for anything else.
    """
    if not isinstance(value, str):
        raise PlannerError(f"{name}={shown(value)}: a text is needed.")


def check_fraction(owner: str, name: str, value: float) -> None:
    """Check that an amount is 0, or at least what Ray counts in.

    Raises:
        PlannerError: for a smaller one.
    """
    if value and int(value * SCALE) == 0:
        raise PlannerError(
            f"{owner}: {name}={value!r}. Ray says: The precision of the fractional "
            f"quantity of resource {name} cannot go beyond 0.0001."
        )


def check_whole(what: str, value: object) -> None:
    """Check that a value is a whole number from 0.

    Raises:
        PlannerError: for any other value.
    """
    if not (is_count(value) or (type(value) is int and not value)):
        raise PlannerError(f"{what}={shown(value)}: a whole number from 0 is needed.")


def check_gpus(world_size: int) -> None:
    """Check that an engine has as many GPUs as can be placed.

    Raises:
        PlannerError: for more.
    """
    if world_size > MOST_GPUS:
        raise PlannerError(
            f"tensor x pipeline parallel is {shown(world_size)}: at most "
            f"{MOST_GPUS:,} GPUs of an engine are placed. Give smaller sizes, and "
            "concurrency for replicas."
        )


def shown(value: Any) -> str:  # noqa: ANN401 - typed by a user
    """Return a value as text; a long one is cut, and one without a text is named."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested deeply, or of too many digits
        return f"a very large {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
