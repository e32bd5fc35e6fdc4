"""Places a pipeline on nodes, in the order in which Ray starts workers, and says why.

First the minimum number of actors of each stage, in the order of the rows; then one
task of each stage of tasks; then engines, tasks and other actors up to the maximum.

Source: Ray 2.60.0 `data/_internal/execution/streaming_executor_state.py`
build_streaming_topology, `operators/actor_pool_map_operator.py` start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from planner.errors import PlannerError
from planner.ray.bundles import SCALE, Bundle, Node, PlacementGroup, in_units
from planner.ray.node_usage import Capacity, reserve
from planner.ray.pipelines import Pipeline
from planner.ray.placement import BundlePlace, Placement, State, WorkerPlacement
from planner.ray.stages import Stage


def place(pipeline: Pipeline, nodes: tuple[Node, ...]) -> Placement:
    """Place a pipeline on nodes as Ray would.

    Raises:
        PlannerError: without a node, or for two nodes with the same name.
    """
    names = [node.name for node in nodes]
    if not nodes:
        raise PlannerError("No node was given to place workers on.")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise PlannerError(f"Two nodes are called {twice}: each needs its own name.")
    capacities = [Capacity.of(node) for node in nodes]
    before_tasks: list[Capacity] | None = None
    workers = []
    for stage, worker, is_minimum in _order(pipeline.stages):
        if before_tasks is None and not stage.is_actors:
            before_tasks = [one.copy() for one in capacities]
        placed = _place_one(capacities, stage, worker, is_minimum=is_minimum)
        if placed.state is State.WAITS and is_minimum and not stage.is_actors:
            placed = _in_turn(placed, stage, before_tasks or [])
        workers.append(placed)
    return Placement(pipeline=pipeline, nodes=nodes, workers=tuple(workers))


def starts_in_group(stage: Stage) -> bool:
    """Whether the engine's actor finds what it requests within its own group.

    It requests a CPU by default; in a group without one it never starts.
    """
    if stage.actor is None:
        return True
    has = stage.worker.total
    return all(has.get(name) >= amount for name, amount in stage.actor.amounts)


def fits_empty(group: PlacementGroup, nodes: Sequence[Node]) -> bool:
    """Whether a group fits on the nodes when nothing else uses them."""
    return (
        reserve([Capacity.of(node, is_empty=True) for node in nodes], group) is not None
    )


def why_placed(group: PlacementGroup, places: Iterable[BundlePlace]) -> str:
    """Return where a worker is placed."""
    nodes = list(dict.fromkeys(place.node for place in places))
    return f"{text_of(group)}: on {', '.join(nodes)}."


def why_waits(group: PlacementGroup, capacities: Sequence[Capacity]) -> str:
    """Return what is not free now, though the nodes have it."""
    name = _scarce(group, capacities)
    free = ", ".join(
        f"{one.node.name} {_amount(name, one.left(name) / SCALE)}"
        for one in capacities
        if one.node.total.get(name)
    )
    where = " on one node" if group.needs_one_node else ""
    if group.needs_one_node and any(one.has_in_sum(group.total) for one in capacities):
        return (
            f"Requests {text_of(group)}{where}; free now: {free} of {name}, but not on "
            "one GPU where Ray looks: it chooses a node by the sum of what is free."
        )
    return (
        f"Requests {text_of(group)}{where}; free now: {free or 'nothing'} of {name}. "
        "It is placed when others end, or when a node is added."
    )


def why_turns(group: PlacementGroup) -> str:
    """Return that tasks take turns."""
    return f"Requests {text_of(group)}; it runs when a task of another stage has ended."


def why_never(stage: Stage, nodes: Sequence[Node]) -> str:
    """Return what no node has, or what all together lack."""
    group = stage.worker
    lacks = _missing(group, nodes)
    if lacks:
        return lacks
    if stage.actor is not None and not _has(group.total, stage.actor):
        return (
            f"The engine's actor requests {stage.actor} within its own placement "
            f'group, and the bundles hold {group.total}. Add "CPU": 1 to a bundle.'
        )
    one = _too_large(group, nodes)
    if one:
        return one
    return (
        f"Requests {text_of(group)}. Even empty nodes cannot hold it: a share of a GPU "
        "must be on one GPU, and each bundle on one node."
    )


def text_of(group: PlacementGroup) -> str:
    """Return what a group requests: 16 x (GPU 1, CPU 1), PACK."""
    first, count = group.bundles[0], len(group.bundles)
    if any(bundle != first for bundle in group.bundles):
        text = "; ".join(f"({bundle})" for bundle in group.bundles)
    else:
        text = f"{count} x ({first})" if count > 1 else str(first) or "nothing"
    return text if count == 1 else f"{text}, {group.strategy}"


def _order(stages: Sequence[Stage]) -> Iterator[tuple[Stage, int, bool]]:
    """Yield stage, worker and whether it is of the minimum, in the order of start."""
    actors = [stage for stage in stages if stage.is_actors]
    tasks = [stage for stage in stages if not stage.is_actors]
    for stage in (*actors, *tasks):
        for worker in range(stage.workers_minimum):
            yield stage, worker, True
    engines = [stage for stage in actors if stage.is_engine]
    others = [stage for stage in actors if not stage.is_engine]
    for stage in (*engines, *tasks, *others):
        for worker in range(stage.workers_minimum, stage.workers_maximum or 0):
            yield stage, worker, False


def _place_one(
    capacities: list[Capacity], stage: Stage, worker: int, *, is_minimum: bool
) -> WorkerPlacement:
    group, nodes = stage.worker, [one.node for one in capacities]
    if not starts_in_group(stage):
        state, why, places = State.NEVER, why_never(stage, nodes), None
    else:
        places = reserve(capacities, group)
        if places is not None:
            state, why = State.PLACED, why_placed(group, places)
        elif fits_empty(group, nodes):
            state, why = State.WAITS, why_waits(group, capacities)
        else:
            state, why = State.NEVER, why_never(stage, nodes)
    return WorkerPlacement(
        stage=stage.name,
        worker=worker,
        group=group,
        state=state,
        why=why,
        is_minimum=is_minimum,
        places=places or (),
    )


def _in_turn(
    placed: WorkerPlacement, stage: Stage, before_tasks: list[Capacity]
) -> WorkerPlacement:
    """Return a task that waits only for other tasks, which release their resources."""
    if reserve([one.copy() for one in before_tasks], stage.worker) is None:
        return placed
    return WorkerPlacement(
        stage=placed.stage,
        worker=placed.worker,
        group=placed.group,
        state=State.WAITS,
        why=why_turns(stage.worker),
        is_minimum=True,
        takes_turns=True,
    )


def _missing(group: PlacementGroup, nodes: Sequence[Node]) -> str:
    """Return which resource no node has; empty: each is on some node."""
    for name, _ in group.total.amounts:
        if any(node.total.get(name) for node in nodes):
            continue
        kinds = group.total.accelerator_types
        if name.startswith("accelerator_type:"):
            there = sorted({n.accelerator_type for n in nodes if n.accelerator_type})
            return (
                f"No node has accelerator type {kinds[0]}; there is "
                f"{', '.join(there) or 'none'}. Use one of these types, or leave it "
                "out."
            )
        return f"No node has {name}, but {text_of(group)} is requested."
    return ""


def _too_large(group: PlacementGroup, nodes: Sequence[Node]) -> str:
    """Return which amount exceeds one node, or all of them; empty: none does."""
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
                f"{_amount(name, amount)} of {name} are requested, but all nodes "
                f"together have {_amount(name, every)}."
            )
    return ""


def _scarce(group: PlacementGroup, capacities: Sequence[Capacity]) -> str:
    """Return the resource with the largest request relative to what is free."""

    def share(name: str, amount: float) -> float:
        free = [one.left(name) for one in capacities]
        left = max(free) if group.needs_one_node else sum(free)
        return in_units(amount) / left if left else float("inf")

    return max(group.total.amounts, key=lambda each: share(*each))[0]


def _has(bundles: Bundle, wanted: Bundle) -> bool:
    return all(bundles.get(name) >= amount for name, amount in wanted.amounts)


def _amount(name: str, amount: float) -> str:
    if name.endswith("memory"):
        return f"{amount / 2**30:.1f} GiB"
    return f"{amount:g}"
