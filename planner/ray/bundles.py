"""What Ray reserves: bundles of resources, and groups of bundles placed together.

Ray counts every resource in ten-thousandths, so that a share of a GPU is exact.

Source: Ray 2.60.0 `util/placement_group.py`, `_common/utils.py`
resources_from_ray_options, `_raylet` RESOURCE_UNIT_SCALING.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from planner.errors import PlannerError

SCALE = 10_000
"""Ten-thousandths of a resource: what Ray tells apart."""
ACCELERATOR = "accelerator_type:"
"""A node has one of the resource named after its accelerator; a use takes 0.001."""
ACCELERATOR_SHARE = 0.001
STRATEGIES = ("PACK", "STRICT_PACK", "SPREAD", "STRICT_SPREAD")


def in_units(amount: float) -> int:
    """Return an amount in Ray's ten-thousandths."""
    return round(amount * SCALE)


def plain(amount: float) -> float:
    """Return an amount without the tail that adding shares leaves; whole as int."""
    rounded = in_units(amount) / SCALE
    return int(rounded) if rounded.is_integer() else rounded


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Resources that are reserved together on one node, by Ray's names.

    >>> Bundle.of({"CPU": 1, "GPU": 0.5}).gpus
    0.5
    """

    amounts: tuple[tuple[str, float], ...]
    """Name and amount; such as GPU, CPU, memory (bytes), accelerator_type:H100."""

    @classmethod
    def of(cls, amounts: Mapping[str, float]) -> Bundle:
        """Return a bundle of what `amounts` names; zeros are left out."""
        return cls(amounts=tuple((k, plain(v)) for k, v in amounts.items() if v))

    def get(self, name: str) -> float:
        """Return the amount of a resource; 0 where it is not asked for."""
        return dict(self.amounts).get(name, 0)

    @property
    def gpus(self) -> float:
        """GPUs, or the share of one."""
        return self.get("GPU")

    @property
    def cpus(self) -> float:
        """Logical CPUs."""
        return self.get("CPU")

    @property
    def accelerator_types(self) -> tuple[str, ...]:
        """Accelerators that the node must have, by Ray's names."""
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
        """Return the bundle in words: GPU 1, CPU 1, accelerator_type:H100 0.001."""
        return ", ".join(f"{name} {amount:g}" for name, amount in self.amounts)


def total(bundles: Iterable[Bundle]) -> Bundle:
    """Return everything that `bundles` reserve together."""
    amounts: dict[str, float] = {}
    for bundle in bundles:
        for name, amount in bundle.amounts:
            amounts[name] = amounts.get(name, 0) + amount
    return Bundle.of(amounts)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementGroup:
    """Bundles that are reserved all together or not at all."""

    bundles: tuple[Bundle, ...]
    strategy: str = "PACK"
    """PACK: few nodes if possible; STRICT_PACK: one node; SPREAD, STRICT_SPREAD."""
    is_single_request: bool = False
    """True: an actor or task that asks for all at once, on one node, without a group
    of its own. The one bundle then says what it asks for."""

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise PlannerError(
                f"strategy={self.strategy!r}: Ray has {', '.join(STRATEGIES)}."
            )
        is_whole = self.is_single_request or all(b.amounts for b in self.bundles)
        if not self.bundles or not is_whole:
            raise PlannerError(
                "A placement group needs bundles that each ask for something, such as "
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
        """Whether all bundles must lie on the same node."""
        return len(self.bundles) == 1 or self.strategy == "STRICT_PACK"

    def to_dict(self) -> dict[str, Any]:
        """Return the group as `ray.util.placement_group` takes it."""
        return {
            "bundles": [bundle.to_dict() for bundle in self.bundles],
            "strategy": self.strategy,
        }
