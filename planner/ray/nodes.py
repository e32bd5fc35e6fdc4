"""The machines of a Ray cluster: nodes that are there, types that can be added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.errors import PlannerError
from planner.ray.bundles import ACCELERATOR, Bundle

_COUNTS = ("cpus", "gpus", "memory_bytes", "object_store_memory_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node as Ray sees it: logical resources, whatever the machine has.

    Raises:
        PlannerError: for resources that cannot be.
    """

    name: str
    cpus: float = 0
    gpus: float = 0
    accelerator_type: str | None = None
    """Ray's name, such as H100; None: it has none."""
    gpu: str | None = None
    """The planner's name of its GPUs, such as H100 or H200; None: not known."""
    gpu_memory_bytes: int | None = None
    """Of one GPU; None: not known."""
    memory_bytes: int = 0
    """Ray's logical `memory`; 0: whatever is asked for counts as not there."""
    object_store_memory_bytes: int = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    """Custom resources by name, and how much of each."""
    free: Mapping[str, float] | None = None
    """What nobody uses now, by Ray's names of resources; None: everything."""

    def __post_init__(self) -> None:
        for name in _COUNTS:
            _check_amount(self.name, name, getattr(self, name))
        for name, amount in self.resources.items():
            _check_amount(self.name, name, amount)

    @property
    def total(self) -> Bundle:
        """Everything the node has, by Ray's names."""
        named = {
            "CPU": self.cpus,
            "GPU": self.gpus,
            "memory": self.memory_bytes,
            "object_store_memory": self.object_store_memory_bytes,
        }
        if self.accelerator_type:
            named[f"{ACCELERATOR}{self.accelerator_type}"] = 1
        return Bundle.of(named | dict(self.resources))

    @property
    def available(self) -> Bundle:
        """What nobody uses now."""
        return self.total if self.free is None else Bundle.of(self.free)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """A kind of node that can be added, by hand or by an autoscaler.

    Raises:
        PlannerError: for resources that cannot be.
    """

    name: str
    cpus: float = 0
    gpus: float = 0
    accelerator_type: str | None = None
    gpu: str | None = None
    gpu_memory_bytes: int | None = None
    memory_bytes: int = 0
    object_store_memory_bytes: int = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    min_nodes: int = 0
    max_nodes: int | None = None
    """None: as many as are needed."""

    def __post_init__(self) -> None:
        self.node("")
        most = self.max_nodes
        if self.min_nodes < 0 or (most is not None and most < self.min_nodes):
            raise PlannerError(
                f"Node type {self.name}: {self.min_nodes} to {most} nodes cannot be; "
                "the first must not be above the second."
            )

    def node(self, name: str) -> Node:
        """Return a fresh node of this type."""
        return Node(
            name=name or self.name,
            cpus=self.cpus,
            gpus=self.gpus,
            accelerator_type=self.accelerator_type,
            gpu=self.gpu,
            gpu_memory_bytes=self.gpu_memory_bytes,
            memory_bytes=self.memory_bytes,
            object_store_memory_bytes=self.object_store_memory_bytes,
            resources=self.resources,
        )


def _check_amount(owner: str, name: str, amount: Any) -> None:  # noqa: ANN401 - typed by a user
    is_number = isinstance(amount, int | float) and not isinstance(amount, bool)
    if not is_number or amount < 0:
        raise PlannerError(f"Node {owner}: {name}={amount!r} must be 0 or more.")
