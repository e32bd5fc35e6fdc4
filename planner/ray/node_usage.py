"""The free capacity of nodes, and where Ray reserves a placement group or a request.

Ray chooses a node by the sum of its free resources. The node then allocates GPU by GPU:
a request for more than one GPU takes whole ones and then a fraction, and a fraction is
put where it leaves the least. So 0.6 GPUs fit twice on two GPUs, not three times. Where
a fraction fits on no single GPU, the group waits, and Ray chooses the same node again,
even if another one has room.

Source: Ray 2.60.0 `src/ray/common/scheduling/resource_instance_set.cc` TryAllocate,
`src/ray/raylet/scheduling/policy/scorer.cc`, `bundle_scheduling_policy.cc` and
`spread_scheduling_policy.cc` beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from planner.errors import PlannerError
from planner.ray.amounts import SCALE
from planner.ray.bundles import Bundle, Node, PlacementGroup, in_units
from planner.ray.placement import BundlePlace

GPUShares = tuple[tuple[int, float], ...]
"""Each GPU's index on its node, and the fraction of it."""
_LAST = ("object_store_memory", "memory", "CPU")
"""Resources that order bundles after GPUs and custom resources."""
MOST_STEPS = 250_000
"""Of one question: a look at a node for a bundle is one, some microseconds."""


@dataclass(kw_only=True)
class Effort:
    """The steps that placing has taken, which end in a sentence where they are many."""

    most: int = MOST_STEPS
    spent: int = 0

    def spend(self, steps: int) -> None:
        """Count steps before they are taken.

        Raises:
            PlannerError: where they are more than may be.
        """
        self.check(steps)
        self.spent += steps

    def check(self, steps: int) -> None:
        """Check that so many steps are left.

        Raises:
            PlannerError: where they are not.
        """
        if self.spent + steps > self.most:
            raise PlannerError(
                "Workers are placed on nodes one by one, and these are too many to "
                f"place: more than {self.most:,} steps. Give fewer engines or tasks "
                "(concurrency), fewer nodes, or fewer GPUs of an engine."
            )


@dataclass(kw_only=True)
class NodeCapacity:
    """What is free on one node; changes as workers are placed."""

    node: Node
    free: dict[str, int]
    """In Ray's units, without GPUs."""
    gpus: list[int]
    """What is free of each GPU, in Ray's units."""

    @classmethod
    def of(cls, node: Node, *, is_empty: bool = False) -> NodeCapacity:
        """Return what is free on a node now, or everything it has."""
        amounts = (node.total if is_empty else node.available).to_dict()
        left = in_units(amounts.pop("GPU", 0))
        return cls(
            node=node,
            free={name: in_units(amount) for name, amount in amounts.items()},
            gpus=_each(in_units(node.gpus), left),
        )

    def copy(self) -> NodeCapacity:
        """Return an independent copy."""
        return NodeCapacity(node=self.node, free=dict(self.free), gpus=list(self.gpus))

    def summed(self) -> NodeCapacity:
        """Return a copy with its GPUs added up, as Ray sees it when it chooses."""
        return NodeCapacity(node=self.node, free=dict(self.free), gpus=[sum(self.gpus)])

    def left(self, name: str) -> int:
        """Return the free amount of a resource."""
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

    def has_in_sum(self, bundle: Bundle) -> bool:
        """Whether enough of each resource is free, GPUs added up."""
        return all(self.left(k) >= in_units(v) for k, v in bundle.amounts)

    def score(self, wanted: Iterable[tuple[str, int]]) -> float:
        """Return the free fraction that would be left, summed over resources."""
        shares = ((self.left(name), units) for name, units in wanted)
        return sum((left - units) / left for left, units in shares if left)


def reserve(
    capacities: Sequence[NodeCapacity], group: PlacementGroup, effort: Effort
) -> tuple[BundlePlace, ...] | None:
    """Reserve a group on nodes; None, and nothing changed, where it does not fit.

    Raises:
        PlannerError: where it takes too many steps.
    """
    trial = [one.summed() for one in capacities]
    chosen = _choose(trial, group, effort)
    if chosen is None:
        return None
    own = {id(copy): one for copy, one in zip(trial, capacities, strict=True)}
    real = {index: own[id(copy)] for index, copy in chosen.items()}
    touched = list({id(one): one for one in real.values()}.values())
    before = [one.copy() for one in touched]
    places = []
    for index in sorted(real):
        shares = real[index].take(group.bundles[index])
        if shares is None:
            for one, old in zip(touched, before, strict=True):
                one.free, one.gpus = old.free, old.gpus
            return None
        places.append(
            BundlePlace(bundle=index, node=real[index].node.name, gpus=shares)
        )
    return tuple(places)


def best(
    capacities: Sequence[NodeCapacity], bundle: Bundle, effort: Effort
) -> NodeCapacity | None:
    """Return the node with the highest score; None where none has room in sum.

    Among equals Ray takes any; this takes the first.
    """
    effort.spend(len(capacities))
    fitting = [one for one in capacities if one.has_in_sum(bundle)]
    wanted = [(name, in_units(amount)) for name, amount in bundle.amounts]
    return max(fitting, key=lambda one: one.score(wanted), default=None)


def _each(total: int, left: int) -> list[int]:
    """Split the free sum over GPUs, as if at most one of them were shared.

    Ray reports only the sum of a node. A node with less than a whole GPU has one.
    """
    if total and (total < SCALE or total % SCALE):
        return [left]
    full, rest = divmod(left, SCALE)
    found = [SCALE] * full + ([rest] if rest else [])
    return found + [0] * (total // SCALE - len(found))


def _shares(gpus: list[int], wanted: int) -> list[tuple[int, int]] | None:
    """Return what a request takes of each GPU; None where it does not fit."""
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


Chosen = dict[int, NodeCapacity]
"""The node of each bundle."""


def _choose(
    capacities: list[NodeCapacity], group: PlacementGroup, effort: Effort
) -> Chosen | None:
    if group.is_single_request:
        return _single(capacities, group.bundles[0], effort)
    effort.spend(len(group.bundles))
    order = _order(group.bundles)
    ways: dict[str, Callable[..., Chosen | None]] = {
        "PACK": _pack,
        "STRICT_PACK": _strict_pack,
        "SPREAD": partial(_apart, may_reuse=True),
        "STRICT_SPREAD": partial(_apart, may_reuse=False),
    }
    return ways[group.strategy](capacities, group, order, effort)


def _order(bundles: tuple[Bundle, ...]) -> list[int]:
    """Sort bundles: by GPUs, then by custom resources, CPUs last."""
    custom = sorted({name for b in bundles for name, _ in b.amounts} - {"GPU", *_LAST})
    names = ("GPU", *custom, *_LAST)
    rank = {one: tuple(map(one.get, names)) for one in dict.fromkeys(bundles)}
    return sorted(range(len(bundles)), key=lambda i: rank[bundles[i]], reverse=True)


def _single(
    capacities: list[NodeCapacity], bundle: Bundle, effort: Effort
) -> Chosen | None:
    """Choose for an actor or task; without GPUs, nodes without GPUs come first."""
    plain = [one for one in capacities if not one.node.gpus]
    found = best(plain, bundle, effort) if not bundle.gpus else None
    found = found or best(capacities, bundle, effort)
    return None if found is None else {0: found}


def _pack(
    capacities: list[NodeCapacity],
    group: PlacementGroup,
    order: list[int],
    effort: Effort,
) -> Chosen | None:
    """Put as many bundles as fit on the best node for the first; then repeat."""
    chosen: Chosen = {}
    candidates, waiting = list(capacities), list(order)
    while waiting:
        node = best(candidates, group.bundles[waiting[0]], effort)
        if node is None:
            return None
        left: list[int] = []
        for index in waiting:
            # What has not fitted once does not fit again.
            is_full = left and group.bundles[index] is group.bundles[left[-1]]
            if is_full or node.take(group.bundles[index]) is None:
                left.append(index)
            else:
                chosen[index] = node
        candidates = [one for one in candidates if one is not node]
        effort.spend(len(left) // 8)
        waiting = left
    return chosen


def _strict_pack(
    capacities: list[NodeCapacity],
    group: PlacementGroup,
    order: list[int],
    effort: Effort,
) -> Chosen | None:
    """Choose the best node for the sum; `reserve` finds whether each bundle fits."""
    node = best(capacities, group.total, effort)
    return None if node is None else dict.fromkeys(order, node)


def _apart(
    capacities: list[NodeCapacity],
    group: PlacementGroup,
    order: list[int],
    effort: Effort,
    *,
    may_reuse: bool,
) -> Chosen | None:
    """Take an unused node for each bundle; without one a used one, if that may be."""
    chosen: Chosen = {}
    fresh: list[NodeCapacity] = list(capacities)
    used: list[NodeCapacity] = []
    for index in order:
        bundle = group.bundles[index]
        node = best(fresh, bundle, effort)
        if node is not None:
            fresh = [one for one in fresh if one is not node]
            used.append(node)
        elif may_reuse:
            node = best(used, bundle, effort)
        if node is None or node.take(bundle) is None:
            return None
        chosen[index] = node
    return chosen
