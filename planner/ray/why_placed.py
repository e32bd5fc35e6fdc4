"""Why a worker is placed, waits, or is never placed: a sentence each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planner.ray.bundles import SCALE, Bundle, PlacementGroup, in_units
from planner.ray.holding import Holding
from planner.ray.nodes import Node
from planner.ray.placement import BundlePlace
from planner.ray.stages import Stage


def asks(group: PlacementGroup) -> str:
    """Return what a group asks for: 16 x (GPU 1, CPU 1), PACK."""
    first, count = group.bundles[0], len(group.bundles)
    if any(bundle != first for bundle in group.bundles):
        text = "; ".join(f"({bundle})" for bundle in group.bundles)
    else:
        text = f"{count} x ({first})" if count > 1 else str(first) or "nothing"
    return text if count == 1 else f"{text}, {group.strategy}"


def why_placed(group: PlacementGroup, places: Iterable[BundlePlace]) -> str:
    """Say where a worker lies."""
    nodes = list(dict.fromkeys(place.node for place in places))
    return f"{asks(group)}: on {', '.join(nodes)}."


def why_waits(group: PlacementGroup, holdings: Sequence[Holding]) -> str:
    """Say what is not free now, though the nodes have it."""
    name = _scarce(group, holdings)
    free = ", ".join(
        f"{held.node.name} {_amount(name, held.left(name) / SCALE)}"
        for held in holdings
        if held.node.total.get(name)
    )
    where = " on one node" if group.needs_one_node else ""
    if group.needs_one_node and any(held.has_in_sum(group.total) for held in holdings):
        return (
            f"Asks for {asks(group)}{where}; free now: {free} of {name}, but not on "
            "one GPU where Ray looks: it chooses a node by the sum of what is free."
        )
    return (
        f"Asks for {asks(group)}{where}; free now: {free or 'nothing'} of {name}. "
        "It is placed once others leave, or when a node is added."
    )


def why_turns(group: PlacementGroup) -> str:
    """Say that tasks take turns."""
    return f"Asks for {asks(group)}; it runs when a task of another stage has ended."


def why_never(stage: Stage, nodes: Sequence[Node]) -> str:
    """Say what no node has, or what all together lack."""
    group = stage.worker
    lacks = _missing(group, nodes)
    if lacks:
        return lacks
    if stage.actor is not None and not _has(group.total, stage.actor):
        return (
            f"The engine's actor asks for {stage.actor} within its own placement "
            f'group, and the bundles hold {group.total}. Add "CPU": 1 to a bundle.'
        )
    one = _too_large(group, nodes)
    if one:
        return one
    return (
        f"Asks for {asks(group)}. Even empty, the nodes do not hold it so: a share of "
        "a GPU must lie on one GPU, and each bundle on one node."
    )


def _missing(group: PlacementGroup, nodes: Sequence[Node]) -> str:
    """Name a resource that no node has at all; empty: each is there."""
    for name, _ in group.total.amounts:
        if any(node.total.get(name) for node in nodes):
            continue
        kinds = group.total.accelerator_types
        if name.startswith("accelerator_type:"):
            there = sorted({n.accelerator_type for n in nodes if n.accelerator_type})
            return (
                f"No node has accelerator type {kinds[0]}; there is "
                f"{', '.join(there) or 'none'}. Take a type that is there, or leave it "
                "out."
            )
        return f"No node has {name}, and {asks(group)} is asked for."
    return ""


def _too_large(group: PlacementGroup, nodes: Sequence[Node]) -> str:
    """Name what is more than one node, or than all, hold; empty: neither."""
    for name, amount in group.total.amounts:
        largest = max(node.total.get(name) for node in nodes)
        every = sum(node.total.get(name) for node in nodes)
        if group.needs_one_node and amount > largest:
            text = (
                f"One node must hold {_amount(name, amount)} of {name}, and the "
                f"largest has {_amount(name, largest)}."
            )
            remedy = (
                " Over several nodes it takes distributed_executor_backend='ray' and "
                "PACK."
            )
            return text + (remedy if name == "GPU" and amount > 1 else "")
        if amount > every:
            return (
                f"{_amount(name, amount)} of {name} are asked for, and all nodes "
                f"together have {_amount(name, every)}."
            )
    return ""


def _scarce(group: PlacementGroup, holdings: Sequence[Holding]) -> str:
    """Return the resource of which most is asked for beside what is free."""

    def share(name: str, amount: float) -> float:
        free = [held.left(name) for held in holdings]
        left = max(free) if group.needs_one_node else sum(free)
        return in_units(amount) / left if left else float("inf")

    return max(group.total.amounts, key=lambda each: share(*each))[0]


def _has(bundles: Bundle, wanted: Bundle) -> bool:
    return all(bundles.get(name) >= amount for name, amount in wanted.amounts)


def _amount(name: str, amount: float) -> str:
    if name.endswith("memory"):
        return f"{amount / 2**30:.1f} GiB"
    return f"{amount:g}"
