"""Placement: where each worker of a pipeline goes on given nodes, and why not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from planner.ray.bundles import PlacementGroup
from planner.ray.nodes import Node
from planner.ray.object_store import usable_bytes

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

    from planner.ray.pipelines import Pipeline


class State(StrEnum):
    """What Ray does with a request."""

    PLACED = "placed"
    WAITS = "waits"  # these nodes could hold it, if others were not there
    NEVER = "never"  # these nodes cannot hold it, even empty


@dataclass(frozen=True, slots=True, kw_only=True)
class BundlePlace:
    """Where one bundle lies."""

    bundle: int
    """Which of the group, from 0."""
    node: str
    gpus: tuple[tuple[int, float], ...] = ()
    """Each GPU of the node, from 0, and the share of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlacement:
    """One worker of a stage: an engine replica, an actor or a running task."""

    stage: str
    """The name of its stage."""
    worker: int
    """Which of the stage, from 0."""
    group: PlacementGroup
    """What it asks for."""
    state: State
    why: str
    """What it asks for, and what decides; a sentence."""
    is_minimum: bool
    """Whether it belongs to what the stage starts with."""
    places: tuple[BundlePlace, ...] = ()
    """One for each bundle, where it is placed."""
    takes_turns: bool = False
    """Whether it waits only for a task of another stage, which gives back what it
    takes."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Placement:
    """A pipeline on nodes."""

    pipeline: Pipeline
    nodes: tuple[Node, ...]
    workers: tuple[WorkerPlacement, ...]
    """In the order in which Ray starts them."""

    @property
    def replicas(self) -> tuple[WorkerPlacement, ...]:
        """The engine's replicas only."""
        engine = self.pipeline.engine.name
        return tuple(worker for worker in self.workers if worker.stage == engine)

    def count(self, state: State | str) -> int:
        """Return how many replicas are in a state."""
        return sum(replica.state == state for replica in self.replicas)

    @property
    def object_store_usable_bytes(self) -> int:
        """What Ray Data uses of these nodes' object stores; 0: they tell none."""
        return usable_bytes(self.nodes)

    @property
    def can_start(self) -> bool:
        """Whether rows flow: each stage has at least one worker that is placed."""
        placed = {
            worker.stage
            for worker in self.workers
            if worker.state is State.PLACED or worker.takes_turns
        }
        return placed >= {stage.name for stage in self.pipeline.stages}

    @property
    def state(self) -> State:
        """placed: all workers are; waits: some never yet; never: some cannot."""
        states = {worker.state for worker in self.workers}
        for state in (State.NEVER, State.WAITS):
            if state in states:
                return state
        return State.PLACED

    def to_dict(self) -> dict[str, Any]:
        """Return the placement as plain values."""
        from planner.ray.as_dict import placement_dict  # noqa: PLC0415 - a cycle

        return placement_dict(self)

    def to_frame(self) -> DataFrame:
        """Return the workers as a pandas frame, one row each."""
        from planner.presentation.ray import workers_frame  # noqa: PLC0415 - shows

        return workers_frame(self)

    def figure(self) -> Figure:
        """Return the nodes with their GPUs as a plotly figure."""
        from planner.charts.ray_nodes import figure  # noqa: PLC0415 - shows

        return figure(self)

    def __repr__(self) -> str:
        """Return the placement in a line."""
        counts = ", ".join(f"{self.count(state)} {state}" for state in State)
        return f"Placement({counts}; can_start={self.can_start})"

    def __str__(self) -> str:
        """Return the placement as text for a terminal."""
        from planner.presentation.ray_text import placement_text  # noqa: PLC0415

        return placement_text(self)

    def _repr_mimebundle_(self, **_options: object) -> dict[str, Any]:
        from planner.presentation.ray_html import (  # noqa: PLC0415 - shows
            placement_mimebundle,
        )

        return placement_mimebundle(self)
