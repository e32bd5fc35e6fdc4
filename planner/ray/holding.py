"""What nodes hold at a moment, resource by resource and GPU by GPU, as Ray counts it.

A request for more than one GPU takes whole ones and then a share; a share is taken
where the least is left over. So 0.6 GPUs fit twice on two GPUs, not three times.

Source: Ray 2.60.0 `src/ray/common/scheduling/resource_instance_set.cc` TryAllocate,
`src/ray/raylet/scheduling/policy/scorer.cc`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planner.ray.bundles import SCALE, Bundle, in_units
from planner.ray.nodes import Node

GPUShares = tuple[tuple[int, float], ...]
"""Each GPU of a node, from 0, and the share of it."""


@dataclass(kw_only=True)
class Holding:
    """What one node has left; changes as workers are placed."""

    node: Node
    free: dict[str, int]
    """In ten-thousandths; GPUs apart."""
    gpus: list[int]
    """What is left of each GPU, in ten-thousandths."""

    @classmethod
    def of(cls, node: Node, *, is_empty: bool = False) -> Holding:
        """Return what a node has left now, or all it has."""
        amounts = (node.total if is_empty else node.available).to_dict()
        left = in_units(amounts.pop("GPU", 0))
        return cls(
            node=node,
            free={name: in_units(amount) for name, amount in amounts.items()},
            gpus=_each(in_units(node.gpus), left),
        )

    def copy(self) -> Holding:
        """Return the same, to be changed apart."""
        return Holding(node=self.node, free=dict(self.free), gpus=list(self.gpus))

    def summed(self) -> Holding:
        """Return the same with its GPUs added up: as Ray sees it when it chooses."""
        return Holding(node=self.node, free=dict(self.free), gpus=[sum(self.gpus)])

    def left(self, name: str) -> int:
        """Return what is left of a resource."""
        return sum(self.gpus) if name == "GPU" else self.free.get(name, 0)

    def take(self, bundle: Bundle) -> GPUShares | None:
        """Reserve a bundle; None, and nothing changed, where it does not fit."""
        wanted = {name: in_units(amount) for name, amount in bundle.amounts}
        shares = _shares(self.gpus, wanted.pop("GPU", 0))
        if shares is None or any(self.left(k) < v for k, v in wanted.items()):
            return None
        for name, amount in wanted.items():
            self.free[name] -= amount
        for index, amount in shares:
            self.gpus[index] -= amount
        return tuple((index, amount / SCALE) for index, amount in shares)

    def can_take(self, bundle: Bundle) -> bool:
        """Whether a bundle fits now."""
        return self.copy().take(bundle) is not None

    def has_in_sum(self, bundle: Bundle) -> bool:
        """Whether enough is left of each resource, GPUs added up."""
        return all(self.left(k) >= in_units(v) for k, v in bundle.amounts)

    def score(self, bundle: Bundle) -> float:
        """Return how much of what is asked for would be left, summed over resources."""
        shares = ((self.left(k), in_units(v)) for k, v in bundle.amounts)
        return sum((left - asked) / left for left, asked in shares if left)


def _each(total: int, left: int) -> list[int]:
    """Split what is left over GPUs: full ones first, as if no more than one is shared.

    Ray tells the sum of a node only. One of less than a whole GPU is one all the same.
    """
    if total and (total < SCALE or total % SCALE):
        return [left]
    full, rest = divmod(left, SCALE)
    found = [SCALE] * full + ([rest] if rest else [])
    return found + [0] * (total // SCALE - len(found))


def _shares(gpus: list[int], wanted: int) -> list[tuple[int, int]] | None:
    """Return what is taken of each GPU; None where it does not fit."""
    if not wanted:
        return []
    if len(gpus) == 1:
        return [(0, wanted)] if gpus[0] >= wanted else None
    whole = [index for index, left in enumerate(gpus) if left == SCALE]
    full, rest = divmod(wanted, SCALE)
    if len(whole) < full:
        return None
    taken = [(index, SCALE) for index in whole[:full]]
    if rest:
        used = set(whole[:full])
        room = [
            (left, index)
            for index, left in enumerate(gpus)
            if index not in used and left >= rest
        ]
        if not room:
            return None
        taken.append((min(room)[1], rest))
    return taken


def best(holdings: Iterable[Holding], bundle: Bundle) -> Holding | None:
    """Return the node of the highest score; None where none has room.

    Of equal ones Ray takes any; here the first.
    """
    fitting = [held for held in holdings if held.can_take(bundle)]
    return max(fitting, key=lambda held: held.score(bundle), default=None)
