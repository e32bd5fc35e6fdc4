"""The commands of a start on several machines: vLLM is started on each of them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from planner.engine.releases.change import Change
from planner.errors import PlannerError
from planner.memory.host.nodes import GPUS_IN_A_NODE
from planner.planning.entrypoints import release_of
from planner.values import frozen

if TYPE_CHECKING:
    from planner.planning.result import Plan

HEAD = "$HEAD"
"""In commands: the address of the first machine."""
JOINS_NODES = Change(
    since=(0, 11, 1),
    what="vLLM joins machines without Ray, by nnodes and node_rank.",
)
_OF_A_NODE = ("node_rank", "data_parallel_start_rank", "data_parallel_rank")
_RAY_PORT = 6379
_MOST_LISTED = 1_024
"""Machines."""


@frozen
class Nodes:
    """Identical machines, and the GPUs of each."""

    count: int
    gpus: int


def nodes_of(plan: Plan) -> Nodes:
    """Return the machines of a plan: as many as `nnodes`, else with eight GPUs each.

    Raises:
        PlannerError: where the GPUs cannot be divided evenly.
    """
    if plan.gpu.is_cpu:
        return Nodes(count=1, gpus=0)
    given = dict(plan.settings.others).get("nnodes")
    total, size = plan.gpus_total, plan.settings.node_gpus or GPUS_IN_A_NODE
    count = given if isinstance(given, int) else -(-total // size)
    if count < 1 or total % count:
        raise PlannerError(
            f"{total} GPUs cannot be divided over {count} equal machines. Choose sizes "
            "whose product is a multiple of the GPUs in one machine, or give nnodes."
        )
    return Nodes(count=count, gpus=total // count)


def commands(plan: Plan) -> tuple[str, ...]:
    """Return a command for each machine of a plan, the first machine's first.

    One where a single machine is enough, and where the arguments already say which
    machine it is; empty where no commands are known: GPUs that cannot be divided
    evenly, several engines that each need several machines, and more machines than
    anybody reads a list of.

    Source: vLLM 0.33.0 `entrypoints/cli/serve.py` run_headless; `config/parallel.py`
    ParallelConfig.__post_init__, which refuses more GPUs than a machine has without
    nnodes; `docs/serving/parallelism_scaling.md`.
    """
    whole = plan.command()
    given = dict(plan.settings.others)
    try:
        found = nodes_of(plan)
    except PlannerError:
        return ()
    if found.count > _MOST_LISTED:
        return ()
    if found.count == 1 or any(given.get(name) is not None for name in _OF_A_NODE):
        return (whole,)
    engines = plan.settings.data_parallel_size or 1
    if engines > 1:
        return _of_engines(whole, found, plan.gpus_total // engines)
    if not release_of(plan).has(JOINS_NODES):
        return _with_ray(whole, found)
    has_count = given.get("nnodes") is not None
    count = "" if has_count else f" --nnodes {found.count}"
    return tuple(
        f"{whole}{count} --node-rank {rank} --master-addr {HEAD}"
        f"{' --headless' if rank else ''}"
        for rank in range(found.count)
    )


def _of_engines(whole: str, found: Nodes, size: int) -> tuple[str, ...]:
    """Return the commands of engines that each fit a machine: so many on each."""
    each, rest = divmod(found.gpus, size)
    if not each or rest:
        return ()
    local = f"{whole} --data-parallel-size-local {each} --data-parallel-address {HEAD}"
    others = (
        f"{local} --data-parallel-start-rank {node * each} --headless"
        for node in range(1, found.count)
    )
    return (local, *others)


def _with_ray(whole: str, found: Nodes) -> tuple[str, ...]:
    """Return the commands of releases that join machines through Ray alone."""
    words = shlex.split(whole)
    has_backend = "--distributed-executor-backend" in words
    backend = "" if has_backend else " --distributed-executor-backend ray"
    head = f"ray start --head --port {_RAY_PORT} && {whole}{backend}"
    worker = f"ray start --address {HEAD}:{_RAY_PORT} --block"
    return (head, *[worker] * (found.count - 1))


def commands_text(plan: Plan) -> str:
    """Write what starts a plan: one line, or a line for each machine with a comment."""
    found = commands(plan)
    if len(found) == 1:
        return found[0]
    if not found:
        return (
            f"{plan.command()}\n# On {plan.gpus_total} GPUs, which are more than one "
            "machine has: each machine needs its own command."
        )
    lines = [f"# {len(found)} machines; HEAD is the address of the first one"]
    for number, command in enumerate(found, 1):
        lines += [f"# machine {number}", command]
    return "\n".join(lines)
