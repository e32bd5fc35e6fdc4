"""sweep(): plans of one model over one or two arguments, and two ready-made sweeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, product
from math import prod
from os import PathLike, fspath
from typing import Any

from planner.engine.devices import gpu_named
from planner.engine.gpu import GPU
from planner.engine.releases import MODELLED, NEWEST
from planner.engine.settings import settings_from
from planner.errors import ModelNotFound, ModelUnavailable, PlannerError
from planner.given import named_in_errors
from planner.models.architecture import ModelArchitecture
from planner.planning.inputs import Inputs
from planner.planning.result import Plan
from planner.solve.comparing.cells import Cell, cell_of, not_planned
from planner.solve.comparing.grid import Axis, Curve, Grid

MOST_CELLS = 100_000
_ALL = "all"
_MOST_AXES = 2
_NO_ENGINE_ARGUMENT = ("model", "gpu", "vllm_version", "entrypoint", "env")
_READS_MODEL = ("model", "quantization", "runner", "trust_remote_code")
"""Arguments that change how a model is read."""
_SHORTEST = 1024
_MOST_GPUS = 8


@named_in_errors
def sweep(  # noqa: PLR0913 - what planner.plan takes, and `over`
    model: str | PathLike[str] | ModelArchitecture | Plan,
    gpu: str | GPU | None = None,
    *,
    over: Mapping[str, Iterable[Any]],
    vllm_version: str | None = None,
    entrypoint: str | None = None,
    env: Mapping[str, str] | None = None,
    **engine_args: Any,  # noqa: ANN401 - vLLM's own argument names and types
) -> Grid:
    """Plan a model with every combination of the values of one or two arguments.

    Input that cannot be planned becomes a cell with the reason; the sweep goes on.

    Args:
        model: as `planner.plan` accepts it, or a plan whose inputs are reused.
        gpu: catalogue name or a `GPU`; by default H100, or the plan's.
        over: one or two names (an engine argument, gpu, model, vllm_version or
            entrypoint) with their values; None means vLLM's default. A repeated
            value counts once. ["all"] of vllm_version is every release.
        vllm_version: release whose rules apply.
        entrypoint: serve or llm.
        env: vLLM's environment variables.
        engine_args: vLLM's EngineArgs, the same for all plans.

    Raises:
        PlannerError: for input that is wrong in every plan of the sweep, or too many
            plans.
    """
    given = {
        "gpu": gpu,
        "vllm_version": vllm_version,
        "entrypoint": entrypoint,
        "env": env,
    }
    start = {name: value for name, value in given.items() if value is not None}
    axes = _axes(over)
    inputs = _inputs(model).changed(**start, **engine_args)
    _check_names(inputs, [axis.name for axis in axes])
    return Grid(
        inputs=inputs, axes=axes, cells=tuple(_cells(_read(inputs, axes), axes))
    )


def context_against_concurrency(plan: Plan) -> Curve:
    """Plan lengths up to the model's own: how many requests of each fit at once.

    Every point is a separate plan with that `max_model_len`; `figure()` of the result
    draws them.

    Raises:
        PlannerError: when vLLM refuses the plan at any length.
    """
    grid = sweep(plan, over={"max_model_len": _lengths(plan)})
    return grid.lines("max_concurrency", x="max_model_len")


def gpus_against_concurrency(plan: Plan, most_gpus: int = _MOST_GPUS) -> Curve:
    """Plan tensor parallel sizes 1, 2, 4, ...: how many requests each holds at once.

    Sizes that vLLM refuses become cells with its message; `figure()` of the result
    draws them.

    Raises:
        PlannerError: when vLLM does not support the model.
    """
    sizes = [1 << power for power in range(most_gpus.bit_length())]
    grid: Grid = sweep(plan, over={"tensor_parallel_size": sizes})
    return grid.lines("max_concurrency", x="gpus_total")


def _inputs(model: str | PathLike[str] | ModelArchitecture | Plan) -> Inputs:
    if isinstance(model, Plan):
        return Inputs.of(model)
    if isinstance(model, ModelArchitecture):
        return Inputs(model=model, gpu="H100", vllm_version=NEWEST)
    return Inputs(model=fspath(model), gpu="H100", vllm_version=NEWEST)


def _axes(over: Mapping[str, Iterable[Any]]) -> tuple[Axis, ...]:
    if not 1 <= len(over) <= _MOST_AXES:
        raise PlannerError(
            f"over={{...}} takes one argument or two; {len(over)} were given. Write "
            "over={'max_model_len': [4096, 8192]}."
        )
    axes = tuple(
        Axis(name=name, values=_values(name, values)) for name, values in over.items()
    )
    count = prod(len(axis.values) for axis in axes)
    if count > MOST_CELLS:
        raise PlannerError(
            f"This sweep would make {count:,} plans; {MOST_CELLS:,} are the most. Take "
            "fewer values of an argument, or wider steps."
        )
    return axes


def _values(name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    """Return the distinct values of an axis; a generator is read up to the limit."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise PlannerError(
            f"over={{{name!r}: {values!r}}}: a list of values is needed, such as "
            f"[{values!r}]."
        )
    read = list(islice(values, MOST_CELLS + 1))
    if name == "vllm_version" and read == [_ALL]:
        read = list(reversed(MODELLED))
    if len(read) > MOST_CELLS:
        raise PlannerError(
            f"{name} has more than {MOST_CELLS:,} values, which is the most. Take "
            "fewer, or wider steps."
        )
    if not read:
        raise PlannerError(f"over={{{name!r}: []}}: at least one value is needed.")
    # Compared as text, since a value may be a list, and 1, 1.0 and True differ.
    return tuple({repr(value): value for value in read}.values())


def _check_names(inputs: Inputs, names: list[str]) -> None:
    """Refuse input that would be wrong in every cell.

    Raises:
        PlannerError: for an unknown argument, GPU or value.
    """
    swept = [name for name in names if name not in _NO_ENGINE_ARGUMENT]
    kept = {
        name: value for name, value in inputs.engine_args.items() if name not in names
    }
    settings_from({**kept, **dict.fromkeys(swept)})
    if "gpu" not in names and isinstance(inputs.gpu, str):
        gpu_named(inputs.gpu)


def _read(inputs: Inputs, axes: tuple[Axis, ...]) -> Inputs:
    """Look up the GPU once, and read the model once where all plans share it.

    Raises:
        ModelNotFound: when there is no such model.
        ModelUnavailable: when it cannot be reached.
    """
    names = {axis.name for axis in axes}
    if "gpu" not in names and isinstance(inputs.gpu, str):
        inputs = inputs.changed(gpu=gpu_named(inputs.gpu))
    is_shared = names.isdisjoint(_READS_MODEL)
    if not is_shared or isinstance(inputs.model, ModelArchitecture):
        return inputs
    first = {axis.name: axis.values[0] for axis in axes}
    try:
        return inputs.changed(model=Inputs.of(inputs.changed(**first).plan()).model)
    except (ModelNotFound, ModelUnavailable):
        raise
    except PlannerError:
        return inputs


def _cells(inputs: Inputs, axes: tuple[Axis, ...]) -> Iterator[Cell]:
    names = [axis.name for axis in axes]
    given = product(*(axis.values for axis in axes))
    planned = product(*(_looked_up(axis) for axis in axes))
    lost: dict[str, PlannerError] = {}
    for values, found in zip(given, planned, strict=True):
        changes = dict(zip(names, found, strict=True))
        model = str(changes.get("model", ""))
        try:
            if model in lost:
                raise lost[model]
            yield cell_of(values, _plan(inputs, changes))
        except PlannerError as error:
            if isinstance(error, ModelNotFound | ModelUnavailable):
                lost[model] = error  # one request to the Hub is enough
            yield not_planned(values, error)


def _plan(inputs: Inputs, changes: Mapping[str, Any]) -> Plan:
    gpu = changes.get("gpu")
    if isinstance(gpu, PlannerError):
        raise gpu
    return inputs.changed(**changes).plan()


def _looked_up(axis: Axis) -> tuple[Any, ...]:
    """Look up each GPU once for all its cells; an unknown one becomes its error."""
    if axis.name != "gpu":
        return axis.values
    return tuple(_gpu(value) for value in axis.values)


def _gpu(value: Any) -> GPU | PlannerError:  # noqa: ANN401 - any user input
    try:
        return value if isinstance(value, GPU) else gpu_named(value)
    except PlannerError as error:
        return error


def _lengths(plan: Plan) -> list[int]:
    """Return powers of two, their midpoints, and the model's own length."""
    own = plan.changed(max_model_len=None)
    resolved = plan.resolved
    known = own.resolved or resolved
    if known is None:
        reason = "" if plan.error is None else f" vLLM says: {plan.error.message}"
        raise PlannerError(f"No length of this plan starts.{reason}")
    longest = max(known.max_model_len, resolved.max_model_len if resolved else 0)
    lengths = {longest} | ({resolved.max_model_len} if resolved else set())
    length = _SHORTEST
    while length < longest:
        lengths |= {length, min(length * 3 // 2, longest)}
        length *= 2
    return sorted(lengths)
