"""A Ray cluster as it is now: its machines, and what its autoscaler may add."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.errors import PlannerError
from planner.ray.accelerators import types_in
from planner.ray.bundles import ACCELERATOR
from planner.ray.nodes import Node, NodeType
from planner.ray.placement import Placement, State
from planner.ray.remote import Agent
from planner.units import format_gib

if TYPE_CHECKING:
    from planner.ray.pipelines import Pipeline

_OWN = ("CPU", "GPU", "memory", "object_store_memory")
_MOST_AT_ONCE = 32
"""Machines of one type that one more replica may need: it spans no more."""
_PLACE = "node:"
"""Names of machines, which Ray counts as resources too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What a cluster told when it was asked; nothing was started on it."""

    address: str
    """Of its control store."""
    ray_version: str
    """Its release; empty where it does not tell."""
    nodes: tuple[Node, ...]
    """The machines that are there, with what is free of them."""
    autoscaler_node_types: tuple[NodeType, ...]
    """What may be added; empty where there is no autoscaler, or it does not tell."""
    is_autoscaled: bool
    """Whether an autoscaler has reported to it."""

    @property
    def gpus(self) -> float:
        """GPUs of all machines."""
        return sum(node.gpus for node in self.nodes)

    @property
    def gpus_free(self) -> float:
        """GPUs, or shares of them, that nobody uses now."""
        return sum(node.available.gpus for node in self.nodes)

    @property
    def accelerator_types(self) -> tuple[str, ...]:
        """Ray's names of the machines' accelerators."""
        return types_in(node.total.to_dict() for node in self.nodes)

    @property
    def autoscaler(self) -> str:
        """What is known of an autoscaler, in a sentence."""
        if self.autoscaler_node_types:
            kinds = ", ".join(_limits(kind) for kind in self.autoscaler_node_types)
            return f"Its autoscaler may add: {kinds}."
        if self.is_autoscaled:
            return (
                "It has an autoscaler, which does not tell what it may add: give "
                "node_types."
            )
        return "No autoscaler has reported to it."

    def check(self, pipeline: Pipeline) -> ClusterCheck:
        """Say where a pipeline's workers can go now, which wait, and why.

        Raises:
            PlannerError: where the pipeline cannot be placed on nodes at all.
        """
        placement = pipeline.on(self.nodes)
        return ClusterCheck(
            cluster=self, placement=placement, added=_added(self, placement)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; sizes in whole bytes."""
        return {
            "address": self.address,
            "ray_version": self.ray_version,
            "nodes": [
                {
                    "name": node.name,
                    "total": node.total.to_dict(),
                    "free": node.available.to_dict(),
                }
                for node in self.nodes
            ],
            "autoscaler_node_types": [
                {
                    "name": kind.name,
                    "total": kind.node(kind.name).total.to_dict(),
                    "min_nodes": kind.min_nodes,
                    "max_nodes": kind.max_nodes,
                }
                for kind in self.autoscaler_node_types
            ],
            "is_autoscaled": self.is_autoscaled,
        }

    def __str__(self) -> str:
        """Return the machines as lines of text."""
        release = f", Ray {self.ray_version}" if self.ray_version else ""
        head = f"Ray cluster at {self.address}{release}: {len(self.nodes)} nodes"
        return "\n".join([head, *map(_line, self.nodes), self.autoscaler])


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCheck:
    """A pipeline on a live cluster."""

    cluster: Cluster
    placement: Placement
    """Each worker: placed, waits or never, and why."""
    added: tuple[Node, ...] | None
    """Machines that an autoscaler would have to add, for all to be placed; None where
    it cannot, or nobody tells what it may add."""

    @property
    def can_start(self) -> bool:
        """Whether rows flow on the machines that are there."""
        return self.placement.can_start

    @property
    def waiting(self) -> tuple[str, ...]:
        """Each engine replica that is not placed now, and why, in a line."""
        return tuple(
            f"replica {replica.worker}: {replica.state}. {replica.why}"
            for replica in self.placement.replicas
            if replica.state is not State.PLACED
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "cluster": self.cluster.to_dict(),
            "placement": self.placement.to_dict(),
            "added": None if self.added is None else [one.name for one in self.added],
        }

    def __str__(self) -> str:
        """Return the verdict as lines of text."""
        replicas = self.placement.replicas
        placed = self.placement.count(State.PLACED)
        head = f"{placed} of {len(replicas)} replicas can be placed now."
        lines = [head, *self.waiting]
        if placed < len(replicas):
            lines.append(self._growth())
        return "\n".join(lines)

    def _growth(self) -> str:
        if self.added:
            names = [one.name.rpartition("-")[0] for one in self.added]
            counts = {name: names.count(name) for name in dict.fromkeys(names)}
            listed = ", ".join(f"{much} x {name}" for name, much in counts.items())
            return f"The autoscaler would have to add {listed}."
        if self.cluster.autoscaler_node_types:
            return (
                f"{self.cluster.autoscaler} That is not enough for all of the replicas."
            )
        return self.cluster.autoscaler


def cluster(
    address: str = "auto",
    *,
    node_types: Iterable[NodeType] = (),
    timeout_seconds: float = 60.0,
) -> Cluster:
    """Read a live Ray cluster.

    Args:
        address: "auto" for the one that this machine is in, host:port of its control
            store, or ray://host:port.
        node_types: what its autoscaler may add, where it does not tell it itself: only
            a control store that was told, or the head's machine, knows.
        timeout_seconds: how long it may take.

    Raises:
        PlannerError: where Ray is not installed, nobody answers, or versions differ.
    """
    told: Mapping[str, Any] | None = None
    with Agent(address, {"task": "read"}) as agent:
        for message in agent.messages(timeout_seconds, timeout_seconds):
            told = message
    if told is None:
        raise PlannerError(f"The Ray cluster at {address} tells nothing of itself.")
    return read(told, tuple(node_types))


def read(told: Mapping[str, Any], given: tuple[NodeType, ...] = ()) -> Cluster:
    """Return a cluster from what it told, and the node types that a user gave."""
    return Cluster(
        address=told["address"],
        ray_version=told["ray_version"],
        nodes=tuple(_node(one) for one in told["nodes"]),
        autoscaler_node_types=given or tuple(map(_type, told["groups"] or ())),
        is_autoscaled=bool(told["is_autoscaled"] or given),
    )


def _node(told: Mapping[str, Any]) -> Node:
    name = told["kind"] or told["host"] or told["name"]
    return Node(
        name=f"{name} {told['id'][:6]}",
        free=_without_places(told["free"]),
        **_amounts(told["total"]),
    )


def _type(told: Mapping[str, Any]) -> NodeType:
    least, most = max(told["min"] or 0, 0), told["max"]
    return NodeType(
        name=told["name"],
        min_nodes=least,
        max_nodes=None if most is None else max(most, least),
        **_amounts(told["resources"]),
    )


def _amounts(total: Mapping[str, float]) -> dict[str, Any]:
    """Return resources as a node's fields."""
    kinds = types_in((total,))
    first = kinds[0] if kinds else None
    own = {*_OWN, f"{ACCELERATOR}{first}"}
    rest = {k: v for k, v in _without_places(total).items() if k not in own}
    return {
        "cpus": total.get("CPU", 0.0),
        "gpus": total.get("GPU", 0.0),
        "memory_bytes": int(total.get("memory", 0)),
        "object_store_memory_bytes": int(total.get("object_store_memory", 0)),
        "accelerator_type": first,
        "resources": rest,
    }


def _without_places(resources: Mapping[str, float]) -> dict[str, float]:
    return {
        name: amount
        for name, amount in resources.items()
        if not name.startswith(_PLACE)
    }


def _added(there: Cluster, placement: Placement) -> tuple[Node, ...] | None:
    """Return machines that let all workers be placed, found step by step.

    Each step adds the fewest of one type with which one more worker is placed: of the
    types with the fewest GPUs the one that places most. None where no step helps.
    """
    added: tuple[Node, ...] = ()
    best = placement
    while best.state is not State.PLACED:
        steps = [
            step
            for kind in there.autoscaler_node_types
            if (step := _step(there, kind, added, best)) is not None
        ]
        if not steps:
            return None
        more, best = min(
            steps,
            key=lambda step: (sum(one.gpus for one in step[0]), -_placed(step[1])),
        )
        added += more
    return added


def _step(
    there: Cluster, kind: NodeType, added: tuple[Node, ...], best: Placement
) -> tuple[tuple[Node, ...], Placement] | None:
    """Return the fewest more of a type that let one more worker be placed."""
    held = sum(_is_of(node, kind) for node in added)
    running = sum(node.name.rpartition(" ")[0] == kind.name for node in there.nodes)
    most = _MOST_AT_ONCE
    if kind.max_nodes is not None:
        most = min(most, kind.max_nodes - running - held)
    more: tuple[Node, ...] = ()
    for number in range(most):
        more += (kind.node(f"{kind.name}-{held + number + 1}"),)
        after = best.pipeline.on((*there.nodes, *added, *more))
        if _placed(after) > _placed(best):
            return more, after
    return None


def _placed(placement: Placement) -> int:
    return sum(worker.state is State.PLACED for worker in placement.workers)


def _is_of(node: Node, kind: NodeType) -> bool:
    return node.name.rpartition("-")[0] == kind.name


def _limits(kind: NodeType) -> str:
    most = "" if kind.max_nodes is None else f" (at most {kind.max_nodes})"
    return f"{kind.name}{most}"


def _line(node: Node) -> str:
    """Write a machine as a line: what is free of what it has."""
    free = node.available
    words = [f"{free.cpus:g} of {node.cpus:g} CPUs free"]
    if node.gpus:
        kind = f" {node.accelerator_type}" if node.accelerator_type else ""
        words.append(f"{free.gpus:g} of {node.gpus:g}{kind} GPUs free")
    store = free.get("object_store_memory")
    words.append(f"object store {format_gib(int(store))} free")
    return f"  {node.name}: " + ", ".join(words)
