"""Places a pipeline on nodes, in the order in which Ray starts workers, and says why.

First the minimum number of actors of each stage, in the order of the rows; then one
task of each stage of tasks; then engines, tasks and other actors up to the maximum.

Source: Ray 2.60.0 `data/_internal/execution/streaming_executor_state.py`
build_streaming_topology, `operators/actor_pool_map_operator.py` start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planner.errors import PlannerError
from planner.ray.amounts import SCALE
from planner.ray.bundles import Bundle, Node, PlacementGroup, check_machines, in_units
from planner.ray.node_usage import Effort, NodeCapacity
from planner.ray.placement import BundlePlace, Placement, State, WorkerPlacement
from planner.ray.rooms import Room
from planner.ray.stages import Stage

if TYPE_CHECKING:
    from planner.ray.pipelines import Pipeline

_STEPS_OF_A_WORKER = 8
"""To place and to show one, beside the looks at nodes."""
_NODES_OF_A_STEP = 4
"""Nodes in the text of a worker that waits."""


def place(
    pipeline: Pipeline, nodes: tuple[Node, ...], effort: Effort | None = None
) -> Placement:
    """Place a pipeline on nodes as Ray would.

    Raises:
        PlannerError: without a node, for two nodes with the same name, or for more
            workers than can be placed one by one.
    """
    check_machines("nodes", nodes, Node)
    if not nodes:
        raise PlannerError("No node was given to place workers on.")
    twice, count = Counter(node.name for node in nodes).most_common(1)[0]
    if count > 1:
        raise PlannerError(f"Two nodes are called {twice}: each needs its own name.")
    effort = effort or Effort()
    effort.check(sum(_steps(stage) for stage in pipeline.stages))
    room = Room.of(nodes, effort)
    kinds = {stage.name: _Workers(stage, room, nodes) for stage in pipeline.stages}
    before_tasks: Room | None = None
    workers = []
    for stage, worker, is_minimum in _order(pipeline.stages):
        if before_tasks is None and not stage.is_actors:
            before_tasks = room.copy()
        placed = kinds[stage.name].place(worker, is_minimum=is_minimum)
        if placed.state is State.WAITS and is_minimum and not stage.is_actors:
            placed = _in_turn(placed, stage, before_tasks or room)
        workers.append(placed)
    return Placement(pipeline=pipeline, nodes=nodes, workers=tuple(workers))


def num_placed(pipeline: Pipeline, nodes: Iterable[Node], effort: Effort) -> int:
    """Return how many workers `place` would place, without where and why.

    Raises:
        PlannerError: for more workers than can be placed one by one.
    """
    effort.check(num_workers(pipeline))
    room, placed = Room.of(nodes, effort), 0
    starts = {stage.name: starts_in_group(stage) for stage in pipeline.stages}
    refused: dict[str, int] = {}
    for stage, _, _ in _order(pipeline.stages):
        effort.spend(1)
        if not starts[stage.name] or refused.get(stage.name) == room.changes:
            continue
        if room.reserve(stage.worker) is None:
            refused[stage.name] = room.changes
        else:
            placed += 1
    return placed


def num_workers(pipeline: Pipeline) -> int:
    """Return how many workers `place` tells of."""
    return sum(map(_most, pipeline.stages))


def _most(stage: Stage) -> int:
    return max(stage.workers_minimum, stage.workers_maximum or 0)


def _steps(stage: Stage) -> int:
    """Return the steps that a stage's workers take at least."""
    return _most(stage) * (_STEPS_OF_A_WORKER + len(stage.worker.bundles))


@dataclass(kw_only=False)
class _Workers:
    """The workers of a stage, of which each is placed in turn."""

    stage: Stage
    room: Room
    nodes: Sequence[Node]
    refused: dict[int, tuple[State, str]] = field(default_factory=dict)
    """By the number of groups in the room: it refuses until there is another."""
    fits: bool | None = None
    """Whether one fits on empty nodes, once it is known."""

    def place(self, worker: int, *, is_minimum: bool) -> WorkerPlacement:
        group, effort = self.stage.worker, self.room.effort
        effort.spend(_STEPS_OF_A_WORKER + len(group.bundles))
        places: tuple[BundlePlace, ...] | None = None
        refused = self.refused.get(self.room.changes)
        if refused is None and starts_in_group(self.stage):
            places = self.room.reserve(group)
        if places is not None:
            state, why = State.PLACED, why_placed(group, places)
        else:
            state, why = refused or self._refusal()
            self.refused = {self.room.changes: (state, why)}
        if state is State.WAITS:
            effort.spend(len(self.nodes) // _NODES_OF_A_STEP)
        return WorkerPlacement(
            stage=self.stage.name,
            worker=worker,
            group=group,
            state=state,
            why=why,
            is_minimum=is_minimum,
            places=places or (),
        )

    def _refusal(self) -> tuple[State, str]:
        self.room.effort.spend(len(self.nodes))
        if starts_in_group(self.stage):
            if self.fits is None:
                effort = self.room.effort
                self.fits = fits_empty(self.stage.worker, self.nodes, effort)
            if self.fits:
                return State.WAITS, why_waits(self.stage.worker, self.room.capacities)
        return State.NEVER, why_never(self.stage, self.nodes)


def starts_in_group(stage: Stage) -> bool:
    """Whether the engine's actor finds what it requests within its own group.

    It requests a CPU by default; in a group without one it never starts.
    """
    if stage.actor is None:
        return True
    has = stage.worker.total
    return all(has.get(name) >= amount for name, amount in stage.actor.amounts)


def fits_empty(group: PlacementGroup, nodes: Sequence[Node], effort: Effort) -> bool:
    """Whether a group fits on the nodes when nothing else uses them."""
    return Room.of(nodes, effort, is_empty=True).reserve(group) is not None


def why_placed(group: PlacementGroup, places: Iterable[BundlePlace]) -> str:
    """Return where a worker is placed."""
    nodes = list(dict.fromkeys(place.node for place in places))
    return f"{text_of(group)}: on {', '.join(nodes)}."


def why_waits(group: PlacementGroup, capacities: Sequence[NodeCapacity]) -> str:
    """Return what is not free now, though the nodes have it."""
    name = _scarce(group, capacities)
    free = ", ".join(
        f"{one.node.name} {_amount(name, one.left(name) / SCALE)}"
        for one in capacities
        if one.node.total.get(name)
    )
    where = " on one node" if group.needs_one_node else ""
    if group.needs_one_node and any(one.has_in_sum(group.total) for one in capacities):
        return (
            f"Requests {text_of(group)}{where}; free now: {free} of {name}, but not on "
            "one GPU where Ray looks: it chooses a node by the sum of what is free."
        )
    return (
        f"Requests {text_of(group)}{where}; free now: {free or 'nothing'} of {name}. "
        "It is placed when others end, or when a node is added."
    )


def why_turns(group: PlacementGroup) -> str:
    """Return that tasks take turns."""
    return f"Requests {text_of(group)}; it runs when a task of another stage has ended."


def why_never(stage: Stage, nodes: Sequence[Node]) -> str:
    """Return what no node has, or what all together lack."""
    group = stage.worker
    lacks = _missing(group, nodes)
    if lacks:
        return lacks
    if stage.actor is not None and not _has(group.total, stage.actor):
        return (
            f"The engine's actor requests {stage.actor} within its own placement "
            f'group, and the bundles hold {group.total}. Add "CPU": 1 to a bundle.'
        )
    one = _too_large(group, nodes)
    if one:
        return one
    return (
        f"Requests {text_of(group)}. Even empty nodes cannot hold it: a share of a GPU "
        "must be on one GPU, and each bundle on one node."
    )


def text_of(group: PlacementGroup) -> str:
    """Return what a group requests: 16 x (GPU 1, CPU 1), PACK."""
    first, count = group.bundles[0], len(group.bundles)
    if any(bundle != first for bundle in group.bundles):
        text = "; ".join(f"({bundle})" for bundle in group.bundles)
    else:
        text = f"{count} x ({first})" if count > 1 else str(first) or "nothing"
    return text if count == 1 else f"{text}, {group.strategy}"


def _order(stages: Sequence[Stage]) -> Iterator[tuple[Stage, int, bool]]:
    """Yield stage, worker and whether it is of the minimum, in the order of start."""
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


def _in_turn(
    placed: WorkerPlacement, stage: Stage, before_tasks: Room
) -> WorkerPlacement:
    """Return a task that waits only for other tasks, which release their resources."""
    if before_tasks.copy().reserve(stage.worker) is None:
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


def _missing(group: PlacementGroup, nodes: Sequence[Node]) -> str:
    """Return which resource no node has; empty: each is on some node."""
    for name, _ in group.total.amounts:
        if any(node.total.get(name) for node in nodes):
            continue
        kinds = group.total.accelerator_types
        if name.startswith("accelerator_type:"):
            there = sorted({n.accelerator_type for n in nodes if n.accelerator_type})
            return (
                f"No node has accelerator type {kinds[0]}; there is "
                f"{', '.join(there) or 'none'}. Use one of these types, or leave it "
                "out."
            )
        return f"No node has {name}, but {text_of(group)} is requested."
    return ""


def _too_large(group: PlacementGroup, nodes: Sequence[Node]) -> str:
    """Return which amount exceeds one node, or all of them; empty: none does."""
    for name, amount in group.total.amounts:
        largest = max(node.total.get(name) for node in nodes)
        every = sum(node.total.get(name) for node in nodes)
        if group.needs_one_node and amount > largest:
            text = (
                f"One node must hold {_amount(name, amount)} of {name}, and the "
                f"largest has {_amount(name, largest)}."
            )
            remedy = (
                " Over several nodes it takes distributed_executor_backend='ray' and "
                "PACK."
            )
            return text + (remedy if name == "GPU" and amount > 1 else "")
        if amount > every:
            return (
                f"{_amount(name, amount)} of {name} are requested, but all nodes "
                f"together have {_amount(name, every)}."
            )
    return ""


def _scarce(group: PlacementGroup, capacities: Sequence[NodeCapacity]) -> str:
    """Return the resource with the largest request relative to what is free."""

    def share(name: str, amount: float) -> float:
        free = [one.left(name) for one in capacities]
        left = max(free) if group.needs_one_node else sum(free)
        return in_units(amount) / left if left else float("inf")

    return max(group.total.amounts, key=lambda each: share(*each))[0]


def _has(bundles: Bundle, wanted: Bundle) -> bool:
    return all(bundles.get(name) >= amount for name, amount in wanted.amounts)


def _amount(name: str, amount: float) -> str:
    if name.endswith("memory"):
        return f"{amount / 2**30:.1f} GiB"
    return f"{amount:g}"
