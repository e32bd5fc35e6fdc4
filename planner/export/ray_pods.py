"""The pods that a Ray pipeline needs: their sizes and numbers."""

from __future__ import annotations

import math
from dataclasses import replace

from planner.memory.host.nodes import GPUS_IN_A_NODE
from planner.ray import Node, NodeType, Pipeline
from planner.ray.node_usage import Effort
from planner.ray.scheduler import num_placed, num_workers
from planner.units import GIB
from planner.values import frozen

_ACTOR_GIB = 1
"""CPU memory of a worker of a stage on CPUs, mostly a tokenizer: assumed."""
_TASK_GIB = 2
"""CPU memory of Ray's own processes and of tasks that share a GPU: assumed."""
_READING_CPUS = 1
"""CPUs of a task that reads rows."""
_CPUS_OF_A_POD = 16
_MOST_MORE = 5
OBJECT_STORE_SHARE = 0.3
"""The share of a node's memory that Ray takes for its object store.

Source: Ray 2.60.0 `_private/ray_constants.py` DEFAULT_OBJECT_STORE_MEMORY_PROPORTION.
"""


@frozen
class PodGroup:
    """Identical pods, between a minimum and a maximum number."""

    node: NodeType
    minimum: int
    maximum: int

    def nodes(self) -> list[Node]:
        """Return as many nodes as there may be."""
        name = self.node.name
        return [self.node.node(f"{name}-{number}") for number in range(self.maximum)]


def groups_of(found: Pipeline, node_type: NodeType | None) -> tuple[PodGroup, ...]:
    """Return the groups of pods: of the given size, else of sizes that fit the workers.

    Raises:
        PlannerError: where a worker does not fit such a pod.
    """
    nodes = [node_type] if node_type else [_gpu_node(found), _cpu_node(found)]
    needed = found.nodes_needed(nodes)
    groups = tuple(
        PodGroup(node=node, minimum=least, maximum=most)
        for node, least, most in zip(nodes, needed.minimum, needed.maximum, strict=True)
    )
    return _with_room(found, groups)


def _with_room(found: Pipeline, groups: tuple[PodGroup, ...]) -> tuple[PodGroup, ...]:
    """Return the groups with as many more pods as Ray's order of placement needs.

    Ray places workers one by one, not so that all fit on the fewest nodes.
    """
    *others, last = groups
    effort = Effort()  # of all tries together
    for more in range(_MOST_MORE):
        wider = (*others, replace(last, maximum=last.maximum + more))
        nodes = [
            g.node.node(f"{g.node.name}-{n}") for g in wider for n in range(g.maximum)
        ]
        if num_placed(found, nodes, effort) == num_workers(found):
            return wider
    return groups


def _gpu_node(found: Pipeline) -> NodeType:
    """Return a node for one replica, or for its part on one machine.

    It has enough CPUs for any mix of workers on its GPUs.
    """
    bundles = [
        bundle
        for stage in found.stages
        for bundle in stage.worker.bundles
        if bundle.gpus
    ]
    largest = max(stage.worker.gpus for stage in found.stages)
    whole = max(math.ceil(bundle.gpus) for bundle in bundles)
    gpus = max(min(math.ceil(largest), GPUS_IN_A_NODE), whole)
    cpus = max(math.ceil(gpus * bundle.cpus / bundle.gpus) for bundle in bundles)
    account = max((node.needed_bytes for node in found.plan.host), default=0)
    engines = max(1, math.floor(gpus / (found.gpus_per_replica or 1)))
    return NodeType(
        name="gpu-workers",
        cpus=max(1, cpus),
        gpus=gpus,
        accelerator_type=found.accelerator_type,
        memory_bytes=_with_store(account * engines / GIB + _TASK_GIB) * GIB,
    )


def _cpu_node(found: Pipeline) -> NodeType:
    """Return a node for the stages on CPUs, and for reading rows."""
    stages = [stage for stage in found.stages if not stage.worker.gpus]
    largest = max((stage.worker.cpus for stage in stages), default=1)
    all_cpus = sum(stage.cpus_maximum for stage in stages) + _READING_CPUS
    cpus = max(math.ceil(largest), min(math.ceil(all_cpus), _CPUS_OF_A_POD))
    return NodeType(
        name="cpu-workers",
        cpus=cpus,
        memory_bytes=_with_store(_ACTOR_GIB * cpus) * GIB,
        min_nodes=1,
    )


def _with_store(used_gib: float) -> int:
    """Return the GiB of memory that leave `used_gib` beside Ray's object store."""
    return math.ceil(used_gib / (1 - OBJECT_STORE_SHARE))
