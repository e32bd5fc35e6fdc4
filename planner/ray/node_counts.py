"""How many nodes of each type a pipeline needs: to start, at minimum, at maximum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Any

from planner.errors import PlannerError
from planner.ray.bundles import Node, NodeType, PlacementGroup, check_machines
from planner.ray.node_usage import Effort
from planner.ray.rooms import Room, effort_of
from planner.ray.scheduler import starts_in_group, why_never
from planner.ray.stages import Stage
from planner.values import frozen

if TYPE_CHECKING:
    from planner.ray.pipelines import Pipeline

_STEPS_OF_A_WORKER = 5
"""At least."""


@frozen
class NodesNeeded:
    """The number of nodes of each type, in the order of `node_types`."""

    node_types: tuple[NodeType, ...]
    to_start: tuple[int, ...]
    """For one engine and one worker of each other stage; tasks take turns."""
    minimum: tuple[int, ...]
    """For the fewest workers of each stage."""
    maximum: tuple[int, ...]
    """For the most workers; a stage without a limit counts with one."""

    def nodes(self, which: str = "maximum") -> tuple[Node, ...]:
        """Return these nodes with names, to place a pipeline on.

        Raises:
            PlannerError: for anything but to_start, minimum or maximum.
        """
        if which not in ("to_start", "minimum", "maximum"):
            raise PlannerError(f"{which!r}: to_start, minimum or maximum is needed.")
        counts: tuple[int, ...] = getattr(self, which)
        return tuple(
            kind.node(f"{kind.name}-{number + 1}")
            for kind, count in zip(self.node_types, counts, strict=True)
            for number in range(count)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain values, by the types' names."""
        names = [kind.name for kind in self.node_types]
        return {
            which: dict(zip(names, getattr(self, which), strict=True))
            for which in ("to_start", "minimum", "maximum")
        }


def nodes_needed(pipeline: Pipeline, node_types: tuple[NodeType, ...]) -> NodesNeeded:
    """Return how many nodes of each type a pipeline needs.

    Raises:
        PlannerError: where no type, or not as many nodes as allowed, hold a worker;
            for more workers or nodes than can be placed one by one.
    """
    check_machines("node_types", node_types, NodeType)
    names = [kind.name for kind in node_types]
    if not node_types or len(set(names)) < len(names):
        raise PlannerError("Node types are needed, each with its own name.")
    stages = pipeline.stages
    actors = [stage for stage in stages if stage.is_actors]
    tasks = [stage for stage in stages if not stage.is_actors]
    effort = Effort()
    start = _Cluster(node_types, Room((), effort))
    start.add_all((stage, 1) for stage in _largest_first(actors))
    start.add_in_turn(tasks)
    least = _Cluster(node_types, Room((), effort))
    most = _Cluster(node_types, Room((), effort))
    least.add_all((s, s.workers_minimum) for s in _largest_first(stages))
    most.add_all(
        (s, s.workers_maximum or s.workers_minimum) for s in _largest_first(stages)
    )
    return NodesNeeded(
        node_types=node_types,
        to_start=start.counts(),
        minimum=least.counts(),
        maximum=most.counts(),
    )


def usual_nodes(pipeline: Pipeline) -> tuple[Node, ...]:
    """Return nodes of eight GPUs and 96 CPUs, as many as the most workers need.

    A node has more where one actor requests more of its node, or memory or custom
    resources.
    """
    wanted = [stage.worker for stage in pipeline.stages]
    bundles = [
        group.total if group.needs_one_node else bundle
        for group in wanted
        for bundle in group.bundles
    ]
    names = {name for bundle in bundles for name, _ in bundle.amounts}
    most = {name: max(bundle.get(name) for bundle in bundles) for name in names}
    gpus = max(8, ceil(most.pop("GPU", 0)))
    cpus = max(96, 2 * ceil(most.pop("CPU", 0)))
    memory = int(most.pop("memory", 0)) * 64
    kind = NodeType(
        name="node",
        cpus=cpus,
        gpus=gpus,
        memory_bytes=memory,
        resources={name: max(1, ceil(amount)) for name, amount in most.items()},
    )
    return nodes_needed(pipeline, (kind,)).nodes()


def _largest_first(stages: Iterable[Stage]) -> list[Stage]:
    return sorted(
        stages, key=lambda s: (s.worker.gpus, s.is_engine, s.worker.cpus), reverse=True
    )


@dataclass(kw_only=False)
class _Cluster:
    """Nodes that grow as workers are added."""

    types: tuple[NodeType, ...]
    room: Room
    has: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for kind in self.types:
            node = kind.node("")
            self.room.effort.check(kind.min_nodes * effort_of(node))
            for _ in range(kind.min_nodes):
                self.room.add(node)
            self.has[kind.name] += kind.min_nodes

    def counts(self) -> tuple[int, ...]:
        return tuple(self.has[kind.name] for kind in self.types)

    def add_all(self, workers: Iterable[tuple[Stage, int]]) -> None:
        """Add this many workers of each stage."""
        counts = list(workers)
        self.room.effort.check(sum(count for _, count in counts) * _STEPS_OF_A_WORKER)
        for stage, count in counts:
            for _ in range(count):
                self._add(stage)

    def add_in_turn(self, stages: Iterable[Stage]) -> None:
        """Make room for one task of each stage, one after the other."""
        before = self.room.copy()
        for stage in stages:
            self._add(stage)
            fresh = self.room.capacities[len(before.capacities) :]
            self.room = before
            for one in fresh:
                self.room.add(one.node, is_empty=True)
            before = self.room.copy()

    def _add(self, stage: Stage) -> None:
        if not starts_in_group(stage):
            raise PlannerError(why_never(stage, [kind.node("") for kind in self.types]))
        group = stage.worker
        if self.room.reserve(group) is not None:
            return
        most = 1 if group.needs_one_node else len(group.bundles)
        for kind in self._by_cost(group):
            # With fewer than by sums, it cannot fit.
            fewest = self.room.fewest_more(kind.node(""), group)
            for more in range(fewest, most + 1):
                if self._grows_to_hold(kind, more, group):
                    return
        raise PlannerError(self._why(stage))

    def _by_cost(self, group: PlacementGroup) -> list[NodeType]:
        """Return the types, those with few unrequested resources first."""
        bundle = group.bundles[0]
        return sorted(
            self.types,
            key=lambda kind: (kind.gpus and not bundle.gpus, kind.gpus, kind.cpus),
        )

    def _grows_to_hold(self, kind: NodeType, more: int, group: PlacementGroup) -> bool:
        limit = kind.max_nodes
        if limit is not None and self.has[kind.name] + more > limit:
            return False
        node = kind.node("")
        for _ in range(more):
            self.room.add(node)
        if self.room.reserve(group) is None:
            self.room.drop(more)
            return False
        self.has[kind.name] += more
        return True

    def _why(self, stage: Stage) -> str:
        """Return which type lacks what, or that there are too few nodes."""
        one_each = [kind.node(kind.name) for kind in self.types]
        many = [
            kind.node(f"{kind.name}-{number}")
            for kind in self.types
            for number in range(len(stage.worker.bundles))
        ]
        if Room.of(many, self.room.effort).reserve(stage.worker) is None:
            return why_never(stage, one_each if stage.worker.needs_one_node else many)
        most = ", ".join(
            f"{kind.max_nodes} of {kind.name}"
            for kind in self.types
            if kind.max_nodes is not None
        )
        return (
            f"{stage.name} needs more nodes than are allowed: at most {most}. Ask for "
            "fewer replicas, or allow more nodes."
        )
