"""Where Ray puts the bundles of one group, or the one request of an actor or task.

It chooses nodes by what they have free in sum. The node itself then looks at each GPU:
where a share fits none, the group waits, and the same node is chosen again, even where
another one has room.

Source: Ray 2.60.0 `src/ray/raylet/scheduling/policy/bundle_scheduling_policy.cc`
and `spread_scheduling_policy.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.ray.bundles import Bundle, PlacementGroup
from planner.ray.holding import Holding, best
from planner.ray.placement import BundlePlace

_LAST = ("object_store_memory", "memory", "CPU")
"""Resources that decide the order of bundles after GPUs and custom ones."""
Chosen = dict[int, Holding]
"""The node of each bundle."""


def reserve(
    holdings: Sequence[Holding], group: PlacementGroup
) -> tuple[BundlePlace, ...] | None:
    """Reserve a group on nodes; None, and nothing changed, where it does not fit."""
    trial = [held.summed() for held in holdings]
    chosen = _choose(trial, group)
    if chosen is None:
        return None
    own = {id(copy): held for copy, held in zip(trial, holdings, strict=True)}
    real = {index: own[id(copy)] for index, copy in chosen.items()}
    before = [held.copy() for held in holdings]
    places = []
    for index in sorted(real):
        shares = real[index].take(group.bundles[index])
        if shares is None:
            for held, old in zip(holdings, before, strict=True):
                held.free, held.gpus = old.free, old.gpus
            return None
        places.append(
            BundlePlace(bundle=index, node=real[index].node.name, gpus=shares)
        )
    return tuple(places)


def _choose(holdings: list[Holding], group: PlacementGroup) -> Chosen | None:
    if group.is_single_request:
        return _single(holdings, group.bundles[0])
    order = sorted(
        range(len(group.bundles)), key=lambda i: _rank(group.bundles, i), reverse=True
    )
    ways = {
        "PACK": _pack,
        "STRICT_PACK": _strict_pack,
        "SPREAD": _spread,
        "STRICT_SPREAD": _strict_spread,
    }
    return ways[group.strategy](holdings, group, order)


def _rank(bundles: tuple[Bundle, ...], index: int) -> tuple[float, ...]:
    """Return what puts a bundle early: GPUs, then custom resources, CPUs last."""
    custom = sorted({name for b in bundles for name, _ in b.amounts} - {"GPU", *_LAST})
    return tuple(bundles[index].get(name) for name in ("GPU", *custom, *_LAST))


def _single(holdings: list[Holding], bundle: Bundle) -> Chosen | None:
    """Choose for an actor or task; one without GPUs goes to nodes without first."""
    plain = [held for held in holdings if not held.node.gpus]
    found = best(plain, bundle) if not bundle.gpus else None
    found = found or best(holdings, bundle)
    return None if found is None else {0: found}


def _pack(
    holdings: list[Holding], group: PlacementGroup, order: list[int]
) -> Chosen | None:
    """Fill the best node for the first bundle with what else fits; then the next."""
    chosen: Chosen = {}
    candidates, waiting = list(holdings), list(order)
    while waiting:
        node = best(candidates, group.bundles[waiting[0]])
        if node is None:
            return None
        left = []
        for index in waiting:
            if node.take(group.bundles[index]) is None:
                left.append(index)
            else:
                chosen[index] = node
        candidates.remove(node)
        waiting = left
    return chosen


def _strict_pack(
    holdings: list[Holding], group: PlacementGroup, order: list[int]
) -> Chosen | None:
    """Choose the best node for the sum; whether each bundle fits shows later."""
    fitting = [held for held in holdings if held.has_in_sum(group.total)]
    node = max(fitting, key=lambda held: held.score(group.total), default=None)
    return None if node is None else dict.fromkeys(order, node)


def _spread(
    holdings: list[Holding], group: PlacementGroup, order: list[int]
) -> Chosen | None:
    """Take a new node for each bundle while there are any, then used ones."""
    return _apart(holdings, group, order, may_reuse=True)


def _strict_spread(
    holdings: list[Holding], group: PlacementGroup, order: list[int]
) -> Chosen | None:
    """Take a new node for each bundle."""
    return _apart(holdings, group, order, may_reuse=False)


def _apart(
    holdings: list[Holding],
    group: PlacementGroup,
    order: list[int],
    *,
    may_reuse: bool,
) -> Chosen | None:
    chosen: Chosen = {}
    fresh: list[Holding] = list(holdings)
    used: list[Holding] = []
    for index in order:
        bundle = group.bundles[index]
        node = best(fresh, bundle)
        if node is not None:
            fresh.remove(node)
            used.append(node)
        elif may_reuse:
            node = best(used, bundle)
        if node is None or node.take(bundle) is None:
            return None
        chosen[index] = node
    return chosen
