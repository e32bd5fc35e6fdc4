"""Place a pipeline on nodes: the workers in the order in which Ray starts them.

First the fewest actors of each stage, as the rows go; then a task of each stage of
tasks; then engines, tasks and other actors up to the most.

Source: Ray 2.60.0 `data/_internal/execution/streaming_executor_state.py`
build_streaming_topology, `operators/actor_pool_map_operator.py` start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.errors import PlannerError
from planner.ray.bundles import PlacementGroup
from planner.ray.groups import reserve
from planner.ray.holding import Holding
from planner.ray.nodes import Node
from planner.ray.pipelines import Pipeline
from planner.ray.placement import Placement, State, WorkerPlacement
from planner.ray.stages import Stage
from planner.ray.why_placed import why_never, why_placed, why_turns, why_waits


def place(pipeline: Pipeline, nodes: tuple[Node, ...]) -> Placement:
    """Place a pipeline on nodes as Ray would.

    Raises:
        PlannerError: where there is no node, or two of one name.
    """
    names = [node.name for node in nodes]
    if not nodes:
        raise PlannerError("No node was given: there is nothing to place on.")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise PlannerError(f"Two nodes are called {twice}: each needs its own name.")
    holdings = [Holding.of(node) for node in nodes]
    before_tasks: list[Holding] | None = None
    workers = []
    for stage, worker, is_minimum in _order(pipeline.stages):
        if before_tasks is None and not stage.is_actors:
            before_tasks = [held.copy() for held in holdings]
        placed = _place_one(holdings, stage, worker, is_minimum=is_minimum)
        if placed.state is State.WAITS and is_minimum and not stage.is_actors:
            placed = _in_turn(placed, stage, before_tasks or [])
        workers.append(placed)
    return Placement(pipeline=pipeline, nodes=nodes, workers=tuple(workers))


def _order(stages: Sequence[Stage]) -> Iterator[tuple[Stage, int, bool]]:
    """Return stage and worker in the order of their start."""
    actors = [stage for stage in stages if stage.is_actors]
    tasks = [stage for stage in stages if not stage.is_actors]
    for stage in (*actors, *tasks):
        for worker in range(stage.workers_minimum):
            yield stage, worker, True
    engines = [stage for stage in actors if stage.is_engine]
    others = [stage for stage in actors if not stage.is_engine]
    for stage in (*engines, *tasks, *others):
        for worker in range(stage.workers_minimum, stage.workers_maximum or 0):
            yield stage, worker, False


def _place_one(
    holdings: list[Holding], stage: Stage, worker: int, *, is_minimum: bool
) -> WorkerPlacement:
    group, nodes = stage.worker, [held.node for held in holdings]
    if not starts_in_group(stage):
        state, why, places = State.NEVER, why_never(stage, nodes), None
    else:
        places = reserve(holdings, group)
        if places is not None:
            state, why = State.PLACED, why_placed(group, places)
        elif fits_empty(group, nodes):
            state, why = State.WAITS, why_waits(group, holdings)
        else:
            state, why = State.NEVER, why_never(stage, nodes)
    return WorkerPlacement(
        stage=stage.name,
        worker=worker,
        group=group,
        state=state,
        why=why,
        is_minimum=is_minimum,
        places=places or (),
    )


def starts_in_group(stage: Stage) -> bool:
    """Whether the engine's actor finds what it asks for within its own group.

    It asks for a CPU unless told; a group of bundles without one never starts it.
    """
    if stage.actor is None:
        return True
    has = stage.worker.total
    return all(has.get(name) >= amount for name, amount in stage.actor.amounts)


def fits_empty(group: PlacementGroup, nodes: Sequence[Node]) -> bool:
    """Whether nodes hold a group when nothing else uses them."""
    return (
        reserve([Holding.of(node, is_empty=True) for node in nodes], group) is not None
    )


def _in_turn(
    placed: WorkerPlacement, stage: Stage, before_tasks: list[Holding]
) -> WorkerPlacement:
    """Return a task that waits for other tasks: they give back what they take."""
    if reserve([held.copy() for held in before_tasks], stage.worker) is None:
        return placed
    return WorkerPlacement(
        stage=placed.stage,
        worker=placed.worker,
        group=placed.group,
        state=State.WAITS,
        why=why_turns(stage.worker),
        is_minimum=True,
        takes_turns=True,
    )
