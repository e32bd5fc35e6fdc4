"""Ray's resources: bundles, placement groups, accelerator names, nodes and node types.

Ray counts every resource in units of 1/10,000, so that a fraction of a GPU is exact.

Source: Ray 2.60.0 `util/placement_group.py`, `_common/utils.py`
resources_from_ray_options, `_raylet` RESOURCE_UNIT_SCALING.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field, fields
from typing import Any

from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.ray.amounts import (
    MOST_GPUS,
    SCALE,
    check_amount,
    check_mapping,
    check_text,
    check_whole,
    shown,
)
from planner.values import frozen

ACCELERATOR = "accelerator_type:"
"""Prefix of the resource named after a node's accelerator: it has 1, a use takes 0.001.
"""
ACCELERATOR_SHARE = 0.001
STRATEGIES = ("PACK", "STRICT_PACK", "SPREAD", "STRICT_SPREAD")
# Newer releases join the words in capitals up to a number; older ones take one word.
# Source: Ray 2.60.0 and 2.44.1 `_private/accelerators/nvidia_gpu.py`
# NVIDIA_GPU_NAME_PATTERN, _gpu_name_to_accelerator_type.
_NUMBERED = re.compile(r"\w+\s+((?:[A-Z]+\s+)*[A-Z0-9]*\d[A-Z0-9]*)")
_FIRST_WORD = re.compile(r"\w+\s+([A-Z0-9]+)")
_COUNTS = ("cpus", "gpus", "memory_bytes", "object_store_memory_bytes")


def in_units(amount: float) -> int:
    """Return an amount in Ray's units of 1/10,000."""
    return round(amount * SCALE)


def plain(amount: float) -> float:
    """Return an amount without floating-point error; a whole one as int."""
    rounded = in_units(amount) / SCALE
    return int(rounded) if rounded.is_integer() else rounded


@frozen
class Bundle:
    """Resources that are reserved together on one node, under Ray's names.

    >>> Bundle.of({"CPU": 1, "GPU": 0.5}).gpus
    0.5
    """

    amounts: tuple[tuple[str, float], ...]
    """Names and amounts, such as GPU, CPU, memory (bytes), accelerator_type:H100."""

    @classmethod
    def of(cls, amounts: Mapping[str, float]) -> Bundle:
        """Return a bundle of these amounts, without zeros."""
        return cls(amounts=tuple((k, plain(v)) for k, v in amounts.items() if v))

    def get(self, name: str) -> float:
        """Return the amount of a resource; 0 where it is not requested."""
        return dict(self.amounts).get(name, 0)

    @property
    def gpus(self) -> float:
        """GPUs, or the fraction of one."""
        return self.get("GPU")

    @property
    def cpus(self) -> float:
        """Logical CPUs."""
        return self.get("CPU")

    @property
    def accelerator_types(self) -> tuple[str, ...]:
        """Accelerators that the node must have, under Ray's names."""
        names = (name for name, _ in self.amounts)
        return tuple(
            name.removeprefix(ACCELERATOR)
            for name in names
            if name.startswith(ACCELERATOR)
        )

    def to_dict(self) -> dict[str, float]:
        """Return the bundle as Ray takes it."""
        return dict(self.amounts)

    def __str__(self) -> str:
        """Return the bundle as text: GPU 1, CPU 1, accelerator_type:H100 0.001."""
        return ", ".join(f"{name} {amount:g}" for name, amount in self.amounts)


def total(bundles: Iterable[Bundle]) -> Bundle:
    """Return the sum of `bundles`."""
    amounts: dict[str, float] = {}
    for bundle in bundles:
        for name, amount in bundle.amounts:
            amounts[name] = amounts.get(name, 0) + amount
    return Bundle.of(amounts)


@frozen
class PlacementGroup:
    """Bundles that are reserved together or not at all."""

    bundles: tuple[Bundle, ...]
    strategy: str = "PACK"
    """PACK: few nodes if possible; STRICT_PACK: one node; SPREAD, STRICT_SPREAD."""
    is_single_request: bool = False
    """True: the request of an actor or task, on one node and without a placement
    group; the single bundle holds it."""

    def __post_init__(self) -> None:
        check_strategy(self.strategy)
        is_whole = self.is_single_request or all(b.amounts for b in self.bundles)
        if not self.bundles or not is_whole:
            raise PlannerError(
                "A placement group needs bundles that each request a resource, such as "
                '{"GPU": 1, "CPU": 1}.'
            )

    @property
    def total(self) -> Bundle:
        """Everything that the group reserves."""
        return total(self.bundles)

    @property
    def gpus(self) -> float:
        """GPUs in all bundles."""
        return self.total.gpus

    @property
    def cpus(self) -> float:
        """CPUs in all bundles."""
        return self.total.cpus

    @property
    def needs_one_node(self) -> bool:
        """Whether all bundles must be on the same node."""
        return len(self.bundles) == 1 or self.strategy == "STRICT_PACK"

    def to_dict(self) -> dict[str, Any]:
        """Return the group as `ray.util.placement_group` takes it."""
        return {
            "bundles": [bundle.to_dict() for bundle in self.bundles],
            "strategy": self.strategy,
        }


def check_strategy(strategy: object) -> None:
    """Check that Ray has a strategy of this name.

    Raises:
        PlannerError: where it has not.
    """
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise PlannerError(
            f"strategy={shown(strategy)}: Ray has {', '.join(STRATEGIES)}."
        )


def ray_names(gpu: GPU) -> tuple[str, ...]:
    """Return Ray's names of a GPU, the newest release's first; empty: unknown.

    >>> ray_names(GPU.named("H100"))
    ('H100',)
    >>> ray_names(GPU.named("RTX 4090"))
    ('GeForce-RTX-4090',)
    >>> ray_names(GPU.named("RTX PRO 6000"))
    ('RTX-PRO-6000', 'RTX')
    """
    name = gpu.device_name
    if gpu.is_cpu or not name:
        return ()
    newer, older = _NUMBERED.match(name), _FIRST_WORD.match(name)
    whole = re.sub(r"^NVIDIA\s+", "", name).strip()
    names = [(newer[1] if newer else whole).replace(" ", "-")]
    if older and len(older[1]) > 1:
        names.append(older[1])
    return tuple(dict.fromkeys(names))


def types_in(totals: Iterable[Mapping[str, float]]) -> tuple[str, ...]:
    """Return the accelerator types that nodes have, from their resources."""
    found = {
        name.removeprefix(ACCELERATOR)
        for total in totals
        for name in total
        if name.startswith(ACCELERATOR)
    }
    return tuple(sorted(found))


@frozen
class _Machine:
    """The resources of a node, or of each node of a type."""

    name: str
    cpus: float = 0
    gpus: float = 0
    accelerator_type: str | None = None
    """Ray's name, such as H100; None: no accelerator."""
    gpu: str | None = None
    """The planner's name of its GPUs, such as H100 or H200; None: unknown."""
    gpu_memory_bytes: int | None = None
    """Of one GPU; None: unknown."""
    memory_bytes: int = 0
    """Ray's logical `memory`; with 0 no request for memory can be placed."""
    object_store_memory_bytes: int = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    """Custom resources: names and amounts."""

    def __post_init__(self) -> None:
        check_text("The name of a node", self.name)
        for name in ("accelerator_type", "gpu"):
            if getattr(self, name) is not None:
                check_text(f"Node {self.name}: {name}", getattr(self, name))
        check_mapping(f"Node {self.name}: resources", self.resources)
        if self.gpu_memory_bytes is not None:
            what = f"Node {self.name}: gpu_memory_bytes"
            check_amount(what, self.gpu_memory_bytes)
        amounts = {name: getattr(self, name) for name in _COUNTS} | dict(self.resources)
        for name, amount in amounts.items():
            check_text(f"Node {self.name}: a resource's name", name)
            check_amount(f"Node {self.name}: {name}", amount)
        check_amount(f"Node {self.name}: gpus", self.gpus, MOST_GPUS)


@frozen
class Node(_Machine):
    """One node as Ray sees it: logical resources, independent of the hardware.

    Raises:
        PlannerError: for invalid resources.
    """

    free: Mapping[str, float] | None = None
    """Unused resources, under Ray's names; None: everything."""

    def __post_init__(self) -> None:
        _Machine.__post_init__(self)  # super() fails in a dataclass with slots
        if self.free is None:
            return
        check_mapping(f"Node {self.name}: free", self.free)
        for name, amount in self.free.items():
            check_text(f"Node {self.name}: a resource's name", name)
            check_amount(f"Node {self.name}: free {name}", amount)

    @property
    def total(self) -> Bundle:
        """All resources of the node, under Ray's names."""
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
        """Unused resources."""
        return self.total if self.free is None else Bundle.of(self.free)


@frozen
class NodeType(_Machine):
    """A type of node that a user or an autoscaler can add.

    Raises:
        PlannerError: for invalid resources.
    """

    min_nodes: int = 0
    max_nodes: int | None = None
    """None: as many as are needed."""

    def __post_init__(self) -> None:
        _Machine.__post_init__(self)  # super() fails in a dataclass with slots
        most = self.max_nodes
        check_whole(f"Node type {self.name}: min_nodes", self.min_nodes)
        if most is not None:
            check_whole(f"Node type {self.name}: max_nodes", most)
        if most is not None and most < self.min_nodes:
            raise PlannerError(
                f"Node type {self.name}: {self.min_nodes} to {most} nodes cannot be; "
                "the first must not be above the second."
            )

    def node(self, name: str) -> Node:
        """Return an empty node of this type."""
        has = {one.name: getattr(self, one.name) for one in fields(_Machine)}
        return Node(**(has | {"name": name or self.name}))


def check_machines(name: str, given: object, kind: type[_Machine]) -> None:
    """Check that only nodes, or only types of nodes, were given.

    Raises:
        PlannerError: for anything else.
    """
    values = given if isinstance(given, list | tuple) else [given]
    for one in values:
        if not isinstance(one, kind):
            raise PlannerError(
                f"{name}: {shown(one)} is not a {kind.__name__}. Give a list of "
                f"planner.ray.{kind.__name__}(name=..., gpus=..., cpus=...)."
            )
