"""The cells of a sweep: the figures of each plan, or why there are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from planner.errors import PlannerError
from planner.values import frozen

if TYPE_CHECKING:
    from planner.planning.result import Plan

NOT_PLANNED = "not planned"
"""The verdict of a cell whose input could not be planned."""


@frozen(kw_only=False)
class Cell:
    """The figures of one plan of a sweep; the plan itself can be made again.

    A plan takes about 20 KiB, its figures half a KiB: a grid of many thousand cells
    stores the figures only.
    """

    values: tuple[Any, ...]
    """Values of the swept arguments, in the order of the axes."""
    verdict: str
    """fits, too close to call, does not fit, refused, or not planned."""
    error_kind: str | None = None
    """Kind of vLLM's error (refused, ...), or our error's name; None: it fits."""
    error: str | None = None
    gpus_total: int | None = None
    available_kv_cache_bytes: int | None = None
    """On the limiting rank, like the figures below."""
    available_kv_cache_low_bytes: int | None = None
    weights_bytes: int | None = None
    requested_memory_bytes: int | None = None
    margin_bytes: int | None = None
    kv_cache_size_tokens: int | None = None
    """Of all engines together, like blocks and concurrency."""
    max_concurrency: float | None = None
    max_concurrency_low: float | None = None
    requests_served: int | None = None
    """Requests of the load, on all engines; None without a load."""
    load_requests: int | None = None
    """Requests that the load wants served at once; None without a load."""
    max_model_len: int | None = None
    max_model_len_that_fits: int | None = None
    num_gpu_blocks: int | None = None

    @property
    def fits(self) -> bool:
        """Whether vLLM would start, even at the low end of the estimate's range."""
        return self.verdict == "fits"

    @property
    def serves(self) -> bool:
        """Whether it starts, and serves all of the load where there is one."""
        served, wanted = self.requests_served, self.load_requests
        return self.fits and (wanted is None or (served or 0) >= wanted)

    def figure(self, name: str) -> float | int | None:
        """Return a figure by its name; None where the cell does not have it.

        Raises:
            PlannerError: for an unknown name.
        """
        check_value(name)
        value: float | int | None = getattr(self, name)
        return value


@frozen
class Value:
    """A figure that a sweep or a comparison can show."""

    label: str
    unit: str
    """bytes, tokens, requests, blocks or GPUs; empty for text."""
    read: Callable[[Plan], Any]
    """Reads it from a plan; None where nothing is allocated."""


def _of_plan(name: str, plan: Plan) -> Any:  # noqa: ANN401 - of several types
    return getattr(plan, name)


def _of_ranks(name: str, plan: Plan) -> Any:  # noqa: ANN401
    """What a plan has once something is allocated."""
    return getattr(plan, name) if plan.ranks else None


def _of_rank(name: str, plan: Plan) -> Any:  # noqa: ANN401
    """Of the rank that limits the plan."""
    return getattr(plan.limiting_rank, name, None)


def _of_all(name: str, plan: Plan) -> Any:  # noqa: ANN401
    """Of all engines together."""
    return getattr(plan.all_engines, name) if plan.ranks else None


def _low_of_all(_name: str, plan: Plan) -> float | None:
    return plan.engines * plan.max_concurrency_low if plan.ranks else None


def _of_serving(name: str, plan: Plan) -> Any:  # noqa: ANN401
    return getattr(plan.serving, name, None)


def _of_settings(name: str, plan: Plan) -> Any:  # noqa: ANN401
    return getattr(plan.resolved, name, None)


_ROWS: tuple[tuple[str, str, str, Callable[[str, Plan], Any]], ...] = (
    ("max_concurrency", "Maximum concurrency", "requests", _of_all),
    ("max_concurrency_low", "Concurrency, at least", "requests", _low_of_all),
    ("requests_served", "Served at once", "whole requests", _of_serving),
    ("kv_cache_size_tokens", "KV cache size", "tokens", _of_all),
    ("available_kv_cache_bytes", "Available KV cache", "bytes", _of_rank),
    ("available_kv_cache_low_bytes", "KV cache, at least", "bytes", _of_rank),
    ("max_model_len", "max_model_len", "tokens", _of_settings),
    ("max_model_len_that_fits", "Longest max_model_len", "tokens", _of_ranks),
    ("weights_bytes", "Weights of a GPU", "bytes", _of_rank),
    ("requested_memory_bytes", "vLLM may use", "bytes", _of_rank),
    ("margin_bytes", "Left after one request", "bytes", _of_plan),
    ("num_gpu_blocks", "KV cache blocks", "blocks", _of_all),
    ("gpus_total", "GPUs", "GPUs", _of_plan),
)
VALUES: Mapping[str, Value] = MappingProxyType(
    {
        name: Value(label=label, unit=unit, read=partial(read, name))
        for name, label, unit, read in _ROWS
    }
)
"""The figures of a cell, by name."""


def check_value(name: str) -> None:
    """Refuse a figure that a cell does not have.

    Raises:
        PlannerError: naming the figures that exist.
    """
    if name not in VALUES:
        raise PlannerError(f"value={name!r}: use one of {', '.join(VALUES)}.")


def cell_of(values: tuple[Any, ...], plan: Plan) -> Cell:
    """Return the cell of a plan."""
    error = plan.error
    is_allocated = plan.limiting_rank is not None and plan.resolved is not None
    return Cell(
        values=values,
        verdict=str(plan.outcome),
        error_kind=error.kind if error else None,
        error=error.message if error else None,
        load_requests=None if plan.load is None else plan.load.requests,
        **{
            name: value.read(plan)
            for name, value in VALUES.items()
            if is_allocated or name in ("gpus_total", "requests_served")
        },
    )


def not_planned(values: tuple[Any, ...], error: PlannerError) -> Cell:
    """Return the cell of input that cannot be planned."""
    return Cell(
        values=values,
        verdict=NOT_PLANNED,
        error_kind=type(error).__name__,
        error=str(error),
    )
