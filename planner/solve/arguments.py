"""The arguments that all solvers accept, as inputs that can be planned repeatedly."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.models.architecture import ModelArchitecture
from planner.planning.inputs import Inputs
from planner.planning.load import LOAD_PARTS, Load
from planner.planning.result import Plan

Start: TypeAlias = "str | os.PathLike[str] | ModelArchitecture | Plan | Inputs"
"""A model as `planner.plan` accepts it, or a plan whose arguments are reused."""
_Second = TypeVar("_Second")


def read_start(
    start: Start,
    gpu: str | GPU | Load | None,
    load: Load | None,
    arguments: Mapping[str, Any],
) -> tuple[Inputs, Load | None]:
    """Return the inputs to plan, with their model read, and the load to serve.

    Raises:
        PlannerError: for an invalid load or argument.
    """
    gpu, load = split_load(gpu, load)
    rest, wanted = load_from(load, arguments)
    if isinstance(start, Plan):
        inputs = Inputs.of(start)
    elif isinstance(start, Inputs):
        inputs = start
    elif isinstance(start, ModelArchitecture):
        inputs = Inputs(model=start)
    else:
        inputs = Inputs(model=_model_name(start))
    if gpu is not None:
        rest["gpu"] = gpu
    alone = inputs.changed(**rest, load=None)
    return Inputs.of(alone.plan()), wanted or inputs.load


def load_from(
    load: Load | None, arguments: Mapping[str, Any]
) -> tuple[dict[str, Any], Load | None]:
    """Return the arguments without the parts of a load, and the load.

    Raises:
        PlannerError: for an invalid load, or one that is given twice.
    """
    rest = {name: value for name, value in arguments.items() if name not in LOAD_PARTS}
    return rest, _given_load(load, arguments)


def split_load(
    second: _Second | Load, load: Load | None
) -> tuple[_Second | None, Load | None]:
    """Tell a load from a GPU in the second position; return the GPU and the load.

    Raises:
        PlannerError: where the load is given twice.
    """
    if not isinstance(second, Load):
        return second, load
    if load is not None:
        raise PlannerError(
            "The load is given twice: once after the model, once as load=."
        )
    return None, second


def refuse_load(second: object, instead: str) -> None:
    """Refuse a load in the position of the GPU, for solvers that take no load.

    Raises:
        PlannerError: ending with `instead`, which says what to write.
    """
    if isinstance(second, Load):
        raise PlannerError(f"{second!r} cannot be given here: {instead}")


def require_load(load: Load | None, question: str) -> Load:
    """Return the load, which `question` needs.

    Raises:
        PlannerError: without a load.
    """
    if load is None:
        raise PlannerError(
            f"{question}: the length of a request is needed. Give prompt_tokens and "
            "output_tokens."
        )
    return load


def whole_number(name: str, value: object, least: int = 1) -> int:
    """Return a count.

    Raises:
        PlannerError: where it is not a whole number of at least `least`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise PlannerError(f"{name}={value!r}: a whole number from {least} is needed.")
    return value


def _model_name(model: object) -> str:
    if isinstance(model, str | os.PathLike):
        return os.fspath(model)
    raise PlannerError(
        f"model={model!r}: give a name, a path, a planner.ModelArchitecture, or a plan."
    )


def _given_load(load: Load | None, arguments: Mapping[str, Any]) -> Load | None:
    """Return the load, given as one value or in its parts."""
    parts = {name: arguments[name] for name in LOAD_PARTS if name in arguments}
    given = {name: value for name, value in parts.items() if value is not None}
    if load is not None and given:
        raise PlannerError(
            f"load= and {', '.join(given)}= are two ways to give the load: use one of "
            "them."
        )
    if load is not None:
        return Load.given(load)
    if not given:
        return None
    if "prompt_tokens" not in given:
        raise PlannerError(
            f"{', '.join(given)}= without prompt_tokens=: the tokens of a request are "
            "needed, such as prompt_tokens=3000, output_tokens=1000, requests=16."
        )
    return Load(**{"output_tokens": 0, **given})
