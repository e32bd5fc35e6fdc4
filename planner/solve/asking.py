"""What a user asks of a solver, as one start that can be planned again and again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

from planner.errors import PlannerError
from planner.gpu import GPU
from planner.inputs import Inputs
from planner.load import Load
from planner.model import ModelArchitecture
from planner.result import Plan

Start: TypeAlias = "str | os.PathLike[str] | ModelArchitecture | Plan | Inputs"
"""A model as `planner.plan` takes it, or a plan whose arguments count."""

_Where = TypeVar("_Where")

_OF_A_LOAD = ("prompt_tokens", "output_tokens", "requests")


def asked(
    start: Start,
    gpu: str | GPU | Load | None,
    load: Load | None,
    arguments: Mapping[str, Any],
) -> tuple[Inputs, Load | None]:
    """Return what is to be planned, with its model read, and the load to serve.

    Raises:
        PlannerError: for a load or an argument that cannot be.
    """
    gpu, load = told_apart(gpu, load)
    rest = {name: value for name, value in arguments.items() if name not in _OF_A_LOAD}
    wanted = _load(load, arguments)
    if isinstance(start, Plan):
        inputs = Inputs.of(start)
    elif isinstance(start, Inputs):
        inputs = start
    elif isinstance(start, ModelArchitecture):
        inputs = Inputs(model=start)
    else:
        inputs = Inputs(model=_name(start))
    if gpu is not None:
        rest["gpu"] = gpu
    return Inputs.of(inputs.changed(**rest).plan()), wanted


def told_apart(
    second: _Where | Load, load: Load | None
) -> tuple[_Where | None, Load | None]:
    """Take a load that was given in place of a GPU for the load.

    Raises:
        PlannerError: where there is one already.
    """
    if not isinstance(second, Load):
        return second, load
    if load is not None:
        raise PlannerError(
            "The load is given twice: once behind the model, once as load=."
        )
    return None, second


def no_load(second: object, instead: str) -> None:
    """Refuse a load in place of a GPU where none is asked for.

    Raises:
        PlannerError: saying what to write.
    """
    if isinstance(second, Load):
        raise PlannerError(f"{second!r} has no place here: {instead}")


def _name(model: object) -> str:
    if isinstance(model, str | os.PathLike):
        return os.fspath(model)
    raise PlannerError(
        f"model={model!r}: give a name, a path, a planner.ModelArchitecture, or a plan."
    )


def _load(load: Load | None, arguments: Mapping[str, Any]) -> Load | None:
    """Return the load that was given as a value or in its parts."""
    parts = {name: arguments[name] for name in _OF_A_LOAD if name in arguments}
    given = {name: value for name, value in parts.items() if value is not None}
    if load is not None and given:
        raise PlannerError(
            f"load= and {', '.join(given)}= say the same twice: give one of them."
        )
    if load is not None:
        if not isinstance(load, Load):
            raise PlannerError(
                f"load={load!r}: give a planner.Load(prompt_tokens=..., "
                "output_tokens=..., requests=...)."
            )
        return load
    if not given:
        return None
    if "prompt_tokens" not in given:
        raise PlannerError(
            f"{', '.join(given)}= without prompt_tokens=: the tokens of a request are "
            "needed, such as prompt_tokens=3000, output_tokens=1000, requests=16."
        )
    return Load(**{"output_tokens": 0, **given})


def needed(load: Load | None, question: str) -> Load:
    """Return the load, where there is no question without one.

    Raises:
        PlannerError: without a load.
    """
    if load is None:
        raise PlannerError(
            f"{question} of how long a request? Give prompt_tokens= and "
            "output_tokens=, or load=planner.Load(...)."
        )
    return load


def whole(name: str, value: object, least: int = 1) -> int:
    """Return a count.

    Raises:
        PlannerError: where it is no whole number of at least `least`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise PlannerError(f"{name}={value!r}: a whole number from {least} is needed.")
    return value
