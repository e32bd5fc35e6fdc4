"""load_map(): which loads a start serves, over prompt length and requests at once.

Each cell is planned with its own load: what is not given follows from it, as in
`planner.plan`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from planner.engine.releases import resolve_version
from planner.errors import PlannerError
from planner.given import named_in_errors
from planner.models.architecture import ModelArchitecture
from planner.models.lengths import derived_max_model_len
from planner.planning.inputs import Inputs
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.planning.serving import Serving, serve
from planner.solve.arguments import Start, read_start, require_load, whole_number
from planner.solve.speed.forecast import Range, known_forecast
from planner.values import frozen
from planner.views import Charted, Viewed

SERVED, STARTS, NOT = "served", "starts", "does not start"
"""The load is served; vLLM starts, and serves fewer; it does not start."""
MOST_CELLS = 400
_TIMES = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4)
"""Prompts and requests of the map, as multiples of the load's."""


@frozen
class LoadCell:
    """A load on a start."""

    load: Load
    state: str
    """served, starts or does not start."""
    requests_served: int
    """Of the load: as many as are served at once."""
    why: str = ""
    """Why it does not start."""
    tokens_per_second_each: Range | None = None
    """Of one request, by the forecast, where the load is served; None: not known."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        each = self.tokens_per_second_each
        return {
            "load": self.load.to_dict(),
            "state": self.state,
            "requests_served": self.requests_served,
            "why": self.why,
            "tokens_per_second_each": None if each is None else each.to_dict(),
        }


@frozen(repr=False)
class LoadMap(Viewed, Charted):
    """The loads that a start serves, by prompt length and requests at once."""

    plan: Plan
    """The start; each cell is planned with its own load."""
    load: Load
    prompts: tuple[int, ...]
    requests: tuple[int, ...]
    cells: tuple[LoadCell, ...]
    """For each prompt length, one per number of requests."""

    def cell(self, prompt_tokens: int, requests: int) -> LoadCell:
        """Return a cell.

        Raises:
            PlannerError: for values that the map does not have.
        """
        for cell in self.cells:
            load = cell.load
            if (load.prompt_tokens, load.requests) == (prompt_tokens, requests):
                return cell
        raise PlannerError(
            f"No cell for {prompt_tokens!r} prompt tokens and {requests!r} requests: "
            f"prompts are {', '.join(map(str, self.prompts))}; requests "
            f"{', '.join(map(str, self.requests))}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "model": self.plan.name,
            "gpu": self.plan.gpu.name,
            "gpus_total": self.plan.gpus_total,
            "cells": [cell.to_dict() for cell in self.cells],
        }

    def __repr__(self) -> str:
        """Return the map in one line."""
        served = sum(cell.state == SERVED for cell in self.cells)
        return f"LoadMap({served} of {len(self.cells)} loads served)"


@named_in_errors
def load_map(
    start: Start,
    load: Load | None = None,
    *,
    prompts: Sequence[int] | None = None,
    requests: Sequence[int] | None = None,
    **arguments: Any,  # noqa: ANN401 - vLLM's own argument names and types
) -> LoadMap:
    """Say which loads a start serves, over prompt length and requests at once.

    Args:
        start: a model as `planner.plan` accepts it, or a plan, such as that of a
            set-up, whose arguments are kept.
        load: the load in the middle, whose answer all share; None: the plan's.
        prompts: prompt lengths; None: an eighth to four times the load's.
        requests: numbers of requests; None: an eighth to four times the load's.
        arguments: gpu, engine arguments, vllm_version, entrypoint and env.

    Raises:
        PlannerError: without a load, for invalid values, or more than 400 cells.
    """
    gpu = arguments.pop("gpu", None)
    inputs, wanted = read_start(start, gpu, load, arguments)
    middle = require_load(wanted, "load_map")
    across = _given("prompts", prompts) or usual_prompts(inputs, middle)
    down = _given("requests", requests) or usual_values(middle.requests)
    if len(across) * len(down) > MOST_CELLS:
        raise PlannerError(
            f"{len(across)} prompts x {len(down)} requests are more than "
            f"{MOST_CELLS} cells: give fewer."
        )
    search = MapSearch(inputs=inputs, load=middle, prompts=across, requests=down)
    for _ in search.steps():
        pass
    return search.result()


@dataclass(kw_only=True)
class MapSearch:
    """Plans the cells of a map one at a time, so that a page can answer in between."""

    inputs: Inputs
    load: Load
    prompts: tuple[int, ...]
    requests: tuple[int, ...]
    cells: list[LoadCell] = field(default_factory=list)

    def steps(self) -> Iterator[None]:
        """Plan, and yield after each cell."""
        for prompt in self.prompts:
            for number in self.requests:
                wanted = replace(self.load.with_prompt(prompt), requests=number)
                self.cells.append(_cell(self.inputs, wanted))
                yield

    def result(self) -> LoadMap:
        """Return the map, once all cells are there."""
        return LoadMap(
            plan=serve(self.inputs, self.load).plan,
            load=self.load,
            prompts=self.prompts,
            requests=self.requests,
            cells=tuple(self.cells),
        )


def usual_map(inputs: Inputs, load: Load) -> MapSearch:
    """Return the search for the map of the usual prompts and requests."""
    return MapSearch(
        inputs=inputs,
        load=load,
        prompts=usual_prompts(inputs, load),
        requests=usual_values(load.requests),
    )


def usual_values(middle: int) -> tuple[int, ...]:
    """Return an eighth to four times a number, each once.

    >>> usual_values(20), usual_values(1)
    ((2, 5, 10, 20, 40, 80), (1, 2, 4))
    """
    return tuple(sorted({max(1, int(middle * times)) for times in _TIMES}))


def usual_prompts(inputs: Inputs, load: Load) -> tuple[int, ...]:
    """Return the usual multiples of a load's prompt, up to the model's own limit."""
    found = usual_values(load.prompt_tokens)
    model = inputs.model
    if not isinstance(model, ModelArchitecture):
        return found
    release, _ = resolve_version(inputs.vllm_version)
    longest = derived_max_model_len(model, release) - load.output_tokens
    if longest >= found[-1] or longest <= load.prompt_tokens:
        return found
    return (*(one for one in found if one < longest), int(longest))


def _cell(inputs: Inputs, load: Load) -> LoadCell:
    try:
        serving = serve(inputs, load)
    except PlannerError as error:
        return LoadCell(load=load, state=NOT, requests_served=0, why=str(error))
    served = min(serving.requests_served, load.requests)
    return LoadCell(
        load=load,
        state=_state(serving),
        requests_served=served,
        why="" if serving.plan.error is None else serving.plan.error.message,
        tokens_per_second_each=_each(serving),
    )


def _each(serving: Serving) -> Range | None:
    found = known_forecast(serving.plan, serving.load)
    if found is None or not serving.is_served:
        return None
    return found.per_request_tokens_per_second


def _state(serving: Serving) -> str:
    if serving.is_served:
        return SERVED
    return STARTS if serving.plan.fits else NOT


def _given(name: str, given: Sequence[int] | None) -> tuple[int, ...]:
    """Return the values that are given, ascending; none where they are not.

    Raises:
        PlannerError: for an empty list, or anything but whole numbers from 1.
    """
    if given is None:
        return ()
    if not given:
        raise PlannerError(f"{name}=[]: give at least one number.")
    return tuple(sorted({whole_number(name, value) for value in given}))
