"""The current state of a Ray cluster: its nodes, and what its autoscaler may add."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from planner.errors import PlannerError
from planner.given import named_in_errors
from planner.ray.bundles import ACCELERATOR, Node, NodeType, types_in
from planner.ray.node_usage import MOST_STEPS, Effort
from planner.ray.placement import Placement, State
from planner.ray.remote import Agent
from planner.ray.scheduler import num_placed
from planner.units import format_gib
from planner.values import frozen

if TYPE_CHECKING:
    from planner.ray.pipelines import Pipeline

_OWN = ("CPU", "GPU", "memory", "object_store_memory")
_MOST_AT_ONCE = 32
"""The most nodes of one type that are tried for one more replica."""
_TRIES = 3
"""As many steps as one question, to find what an autoscaler would add."""
_PLACE = "node:"
"""Prefix of the resource that names a node."""


@frozen
class Cluster:
    """What a cluster reported about itself; nothing was started on it."""

    address: str
    """Of its control store."""
    ray_version: str
    """Its release; empty where it is not reported."""
    nodes: tuple[Node, ...]
    """The current nodes, with their free resources."""
    autoscaler_node_types: tuple[NodeType, ...]
    """What may be added; empty without an autoscaler, or where it is not reported."""
    is_autoscaled: bool
    """Whether an autoscaler has reported to the control store."""

    @property
    def gpus(self) -> float:
        """GPUs of all nodes."""
        return sum(node.gpus for node in self.nodes)

    @property
    def gpus_free(self) -> float:
        """Unused GPUs, fractions included."""
        return sum(node.available.gpus for node in self.nodes)

    @property
    def accelerator_types(self) -> tuple[str, ...]:
        """Ray's names of the nodes' accelerators."""
        return types_in(node.total.to_dict() for node in self.nodes)

    @property
    def autoscaler(self) -> str:
        """What is known about an autoscaler, in a sentence."""
        if self.autoscaler_node_types:
            kinds = ", ".join(_limits(kind) for kind in self.autoscaler_node_types)
            return f"Its autoscaler may add: {kinds}."
        if self.is_autoscaled:
            return (
                "It has an autoscaler, which does not report what it may add: give "
                "node_types."
            )
        return "No autoscaler has reported to it."

    def check(self, pipeline: Pipeline) -> ClusterCheck:
        """Return where a pipeline's workers can be placed now, which wait, and why.

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
        """Return the nodes as lines of text."""
        release = f", Ray {self.ray_version}" if self.ray_version else ""
        head = f"Ray cluster at {self.address}{release}: {len(self.nodes)} nodes"
        return "\n".join([head, *map(_line, self.nodes), self.autoscaler])


@frozen
class ClusterCheck:
    """A pipeline on a live cluster."""

    cluster: Cluster
    placement: Placement
    """Each worker's state (placed, waits or never), and why."""
    added: tuple[Node, ...] | None
    """Nodes that an autoscaler would have to add to place every worker; None where
    that is not possible, or where its node types are unknown."""

    @property
    def can_start(self) -> bool:
        """Whether the pipeline can process rows on the current nodes."""
        return self.placement.can_start

    @property
    def waiting(self) -> tuple[str, ...]:
        """A line for each engine replica that is not placed now, with the reason."""
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


@named_in_errors
def cluster(
    address: str = "auto",
    *,
    node_types: Iterable[NodeType] = (),
    timeout_seconds: float = 60.0,
) -> Cluster:
    """Read a live Ray cluster.

    Args:
        address: "auto" for the cluster of this machine, host:port of its control store,
            or ray://host:port.
        node_types: what its autoscaler may add, where the cluster does not report it:
            only a control store that received it, or the head node, has it.
        timeout_seconds: how long reading may take.

    Raises:
        PlannerError: where Ray is not installed, nothing answers, or versions differ.
    """
    reply: Mapping[str, Any] | None = None
    with Agent(address, {"task": "read"}) as agent:
        for message in agent.messages(timeout_seconds, timeout_seconds):
            reply = message
    if reply is None:
        raise PlannerError(f"The Ray cluster at {address} reports no nodes.")
    return read(reply, tuple(node_types))


def read(reply: Mapping[str, Any], given: tuple[NodeType, ...] = ()) -> Cluster:
    """Return a cluster from its reply and the node types that the user gave."""
    return Cluster(
        address=reply["address"],
        ray_version=reply["ray_version"],
        nodes=tuple(_node(one) for one in reply["nodes"]),
        autoscaler_node_types=given or tuple(map(_type, reply["groups"] or ())),
        is_autoscaled=bool(reply["is_autoscaled"] or given),
    )


def _node(entry: Mapping[str, Any]) -> Node:
    name = entry["kind"] or entry["host"] or entry["name"]
    return Node(
        name=f"{name} {entry['id'][:6]}",
        free=_without_places(entry["free"]),
        **_amounts(entry["total"]),
    )


def _type(entry: Mapping[str, Any]) -> NodeType:
    least, most = max(entry["min"] or 0, 0), entry["max"]
    return NodeType(
        name=entry["name"],
        min_nodes=least,
        max_nodes=None if most is None else max(most, least),
        **_amounts(entry["resources"]),
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
    """Return nodes that let every worker be placed, found step by step.

    Each step adds the fewest nodes of one type that place one more worker; of several
    types it takes the one with the fewest GPUs, then the one that places the most.
    None where no step helps.
    """
    added: tuple[Node, ...] = ()
    pipeline, effort = placement.pipeline, Effort(most=_TRIES * MOST_STEPS)
    best = sum(worker.state is State.PLACED for worker in placement.workers)
    while best < len(placement.workers):
        steps = [
            step
            for kind in there.autoscaler_node_types
            if (step := _step(there, kind, added, (pipeline, best), effort)) is not None
        ]
        if not steps:
            return None
        more, best = min(
            steps, key=lambda step: (sum(one.gpus for one in step[0]), -step[1])
        )
        added += more
    return added


def _step(
    there: Cluster,
    kind: NodeType,
    added: tuple[Node, ...],
    before: tuple[Pipeline, int],
    effort: Effort,
) -> tuple[tuple[Node, ...], int] | None:
    """Return the fewest more nodes of a type that place one more worker, and how many.

    `before`: the pipeline, and how many of its workers are placed so far.
    """
    pipeline, best = before
    held = sum(node.name.rpartition("-")[0] == kind.name for node in added)
    running = sum(node.name.rpartition(" ")[0] == kind.name for node in there.nodes)
    most = _MOST_AT_ONCE
    if kind.max_nodes is not None:
        most = min(most, kind.max_nodes - running - held)
    more: tuple[Node, ...] = ()
    for number in range(most):
        more += (kind.node(f"{kind.name}-{held + number + 1}"),)
        after = num_placed(pipeline, (*there.nodes, *added, *more), effort)
        if after > best:
            return more, after
    return None


def _limits(kind: NodeType) -> str:
    most = "" if kind.max_nodes is None else f" (at most {kind.max_nodes})"
    return f"{kind.name}{most}"


def _line(node: Node) -> str:
    """Write a node as a line: free and total resources."""
    free = node.available
    words = [f"{free.cpus:g} of {node.cpus:g} CPUs free"]
    if node.gpus:
        kind = f" {node.accelerator_type}" if node.accelerator_type else ""
        words.append(f"{free.gpus:g} of {node.gpus:g}{kind} GPUs free")
    store = free.get("object_store_memory")
    words.append(f"object store {format_gib(int(store))} free")
    return f"  {node.name}: " + ", ".join(words)
