"""Room on many nodes: workers are placed one by one, and equal nodes looked at once."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator

from planner.ray.bundles import Node, PlacementGroup, in_units
from planner.ray.node_usage import Effort, NodeCapacity, reserve
from planner.ray.placement import BundlePlace

_GPUS_OF_A_STEP = 8
_NEVER = 1 << 62
"""Nodes, where no number of them is enough."""
_Key = tuple[bool, tuple[int, ...], tuple[int, ...]]
"""What of a node decides where a group goes: has it GPUs, what is free, each GPU."""


def effort_of(node: Node) -> int:
    """Return the steps that it takes to look at a node."""
    return 4 + int(node.gpus) // _GPUS_OF_A_STEP


class Room:
    """Nodes in their order, and what is free on each.

    A group of n bundles is on at most n nodes, and of equal nodes the first are taken:
    so of nodes that are equal in what the group requests, n are looked at, and none of
    those on which no bundle fits.
    """

    def __init__(self, capacities: Iterable[NodeCapacity], effort: Effort) -> None:
        self.capacities = list(capacities)
        self.changes = 0
        """Groups reserved so far."""
        self.effort = effort
        self._group: PlacementGroup | None = None
        self._names: tuple[str, ...] = ()
        self._wanted: list[list[tuple[str, int]]] = []
        self._equal: dict[_Key, list[int]] = {}

    @classmethod
    def of(
        cls, nodes: Iterable[Node], effort: Effort, *, is_empty: bool = False
    ) -> Room:
        """Return what is free on nodes now, or everything that they have."""
        room = cls((), effort)
        for node in nodes:
            room.add(node, is_empty=is_empty)
        return room

    def copy(self) -> Room:
        """Return an independent copy."""
        self.effort.spend(sum(effort_of(one.node) for one in self.capacities))
        return Room((one.copy() for one in self.capacities), self.effort)

    def add(self, node: Node, *, is_empty: bool = False) -> None:
        """Add a node after the others."""
        self.effort.spend(effort_of(node))
        self.capacities.append(NodeCapacity.of(node, is_empty=is_empty))
        if self._group is not None:
            self._enter(len(self.capacities) - 1)

    def drop(self, count: int) -> None:
        """Take the last nodes away again."""
        for _ in range(count):
            self._leave(len(self.capacities) - 1, self._key(self.capacities[-1]))
            self.capacities.pop()

    def reserve(self, group: PlacementGroup) -> tuple[BundlePlace, ...] | None:
        """Reserve a group; None, and nothing changed, where it does not fit."""
        self._sort_for(group)
        most = len(group.bundles)
        places = sorted(i for equal in self._equal.values() for i in equal[:most])
        few = [self.capacities[index] for index in places]
        self.effort.spend(4 + len(few))
        before = [self._key(one) for one in few]
        found = reserve(few, group, self.effort)
        if found is None:
            return None
        self.changes += 1
        for index, one, key in zip(places, few, before, strict=True):
            if self._key(one) != key:
                self._leave(index, key)
                self._enter(index)
        return found

    def fewest_more(self, node: Node, group: PlacementGroup) -> int:
        """Return how many more such nodes a group needs at least, by sums.

        More than it has bundles: any number is too few.
        """
        most = len(group.bundles)
        if most == 1 or group.needs_one_node:
            return 1
        self._sort_for(group)
        fresh = NodeCapacity.of(node)
        least = 1
        if group.strategy == "STRICT_SPREAD":
            least = most - sum(map(len, self._equal.values()))
        if all(bundle == group.bundles[0] for bundle in group.bundles):
            room = sum(count * self._times(one) for one, count in self._kinds())
            return max(least, _ceil(most - room, self._times(fresh)))
        for name, amount in group.total.amounts:
            free = sum(count * one.left(name) for one, count in self._kinds())
            least = max(least, _ceil(in_units(amount) - free, fresh.left(name)))
        return max(least, 1)

    def _kinds(self) -> Iterator[tuple[NodeCapacity, int]]:
        for equal in self._equal.values():
            yield self.capacities[equal[0]], len(equal)

    def _times(self, one: NodeCapacity) -> int:
        """Return how often the group's first bundle is on a node, by sums."""
        times = [one.left(name) // units for name, units in self._wanted[0] if units]
        return min(times, default=len(self.capacities) + 1)

    def _sort_for(self, group: PlacementGroup) -> None:
        if group is self._group:
            return
        self.effort.spend(len(self.capacities) + len(group.bundles))
        self._group = group
        bundles = dict.fromkeys(group.bundles)
        names = {name for bundle in bundles for name, _ in bundle.amounts}
        self._names = tuple(sorted(names - {"GPU"}))
        self._wanted = [[(k, in_units(v)) for k, v in one.amounts] for one in bundles]
        self._equal = {}
        for index in range(len(self.capacities)):
            self._enter(index)

    def _key(self, one: NodeCapacity) -> _Key:
        free = tuple(one.free.get(name, 0) for name in self._names)
        return bool(one.node.gpus), free, tuple(one.gpus)

    def _enter(self, index: int) -> None:
        one = self.capacities[index]
        if any(all(one.left(k) >= v for k, v in each) for each in self._wanted):
            insort(self._equal.setdefault(self._key(one), []), index)

    def _leave(self, index: int, key: _Key) -> None:
        equal = self._equal.get(key)
        if equal and index in (equal[0], equal[-1]):
            equal.pop(0 if index == equal[0] else -1)
        elif equal and index in equal:
            equal.remove(index)
        if not equal:
            self._equal.pop(key, None)


def _ceil(lacking: int, each: int) -> int:
    """Return how often `each` is needed for what is lacking."""
    if lacking <= 0:
        return 1
    return -(-lacking // each) if each else _NEVER
