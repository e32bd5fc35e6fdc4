"""The fewest GPUs that serve a load, and how the model is spread over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.engine.devices import gpu_named
from planner.engine.gpu import GPU, catalogue
from planner.errors import PlannerError, UnknownArchitecture
from planner.given import named_in_errors
from planner.planning.inputs import Inputs
from planner.planning.load import Load
from planner.planning.words import fails, holds, wanted_text
from planner.solve.arguments import Start, read_start, split_load
from planner.solve.fewest_gpus import Machine, fewest, room_for
from planner.solve.layouts import Layout, Room
from planner.solve.nearest import Nearest, machine_text, nearest
from planner.solve.solution import Solution

_QUESTION = "gpus"


@named_in_errors
def fewest_gpus(
    model: Start,
    gpus: str | GPU | Load | Sequence[str | GPU] | None = None,
    *,
    load: Load | None = None,
    gpus_per_node: int = 8,
    nodes: int = 1,
    **arguments: Any,  # noqa: ANN401 - vLLM's own argument names and types
) -> Solution:
    """Find the fewest GPUs that serve a load, of each kind and over all kinds.

    Tensor parallel stays inside a machine; pipeline stages and replicas (data parallel)
    may be on several. For the same number of GPUs, the layout with the fewest stages
    wins, then the one with the fewest replicas; between kinds with the same number of
    GPUs, the one with the least memory. Given sizes, such as tensor_parallel_size,
    stay.

    Args:
        model: as `planner.plan` accepts it, or a plan whose arguments are reused.
        gpus: names or GPUs to choose from; None: the whole catalogue. A Load here is
            treated as load=.
        load: also as prompt_tokens=, output_tokens= and requests=; None: one request
            of max_model_len tokens, which is what vLLM needs to start.
        gpus_per_node: GPUs in a machine.
        nodes: number of machines.
        arguments: engine arguments, vllm_version, entrypoint and env.

    Raises:
        PlannerError: for input that cannot be planned; a load that nothing serves is
            not an error.
        UnknownArchitecture: where the model is not modelled for any kind of GPU.
    """
    if "gpu" in arguments:
        raise PlannerError("gpu=: give the GPUs to choose from as gpus=, one or more.")
    named, load = split_load(gpus, load)
    kinds = kinds_of(named)
    room = Room.of(gpus_per_node, nodes)
    inputs, wanted = read_start(model, kinds[0], load, arguments)
    found = _machines(inputs, wanted, kinds, room)
    ranked = sorted(found, key=_rank)
    options = tuple(_option(machine, wanted, room) for machine in ranked)
    best, first = ranked[0], options[0]
    why = first.why
    other = Nearest(loads=(), sentence="")
    if best.serving is None:
        other = _nearest(inputs, wanted, ranked)
        why = f"{why} {other.sentence}".rstrip()
    return Solution(
        question=_QUESTION,
        asked=f"fewest GPUs for {inputs.plan().name} with {wanted_text(wanted)} at "
        f"once (vLLM {inputs.plan().vllm_version})",
        value=first.value,
        unit="GPUs",
        plan=first.plan,
        next_plan=first.next_plan,
        why=why,
        load=wanted if first.is_found else None,
        nearest=other.loads,
        options=options,
    )


def kinds_of(gpus: str | GPU | Sequence[str | GPU] | None) -> tuple[GPU, ...]:
    """Return the kinds to choose from; by default the catalogue without MIG slices."""
    if gpus is None:
        return tuple(gpu for gpu in catalogue() if not gpu.mig_profile)
    names = [gpus] if isinstance(gpus, str | GPU) else list(gpus)
    if not names:
        raise PlannerError(
            "gpus=[]: name at least one GPU, or leave gpus= out for the catalogue."
        )
    return tuple(
        gpu if isinstance(gpu, GPU) else gpu_named(_name(gpu)) for gpu in names
    )


def _name(gpu: object) -> str:
    if not isinstance(gpu, str):
        raise PlannerError(
            f"gpus= holds {gpu!r}: names of the catalogue such as 'H100', or "
            "planner.GPU objects, are needed."
        )
    return gpu


def _machines(
    inputs: Inputs, load: Load | None, kinds: Sequence[GPU], room: Room
) -> list[Machine]:
    """Return the result for every kind that can be planned."""
    found, unknown = [], None
    for gpu in kinds:
        try:
            found.append(fewest(inputs, load, gpu, room))
        except UnknownArchitecture as error:
            unknown = error
    if unknown is not None and not found:
        raise unknown
    return found


def _rank(machine: Machine) -> tuple[bool, int, int]:
    """Order kinds: those that serve first, then by fewest GPUs and least memory."""
    if machine.gpus:
        return False, machine.gpus, machine.total_memory_bytes
    return True, 0, -machine.gpu.total_memory_bytes


def _option(machine: Machine, load: Load | None, room: Room) -> Solution:
    """Return the solution for one kind."""
    edge, short = machine.serving, machine.short
    if edge is not None:
        why = f"{machine_text(machine)}: {holds(edge)}."
        if short is not None:
            why += f" With {short.plan.gpus_total}: {fails(short)}."
    else:
        most = room.within(machine.gpu).gpus
        why = f"Up to {most} x {machine.gpu.name} do not serve it"
        why += f": {fails(short)}." if short is not None else "."
    return Solution(
        question=_QUESTION,
        asked=f"fewest {machine.gpu.name} for {wanted_text(load)}",
        value=machine.gpus or None,
        unit="GPUs",
        plan=None if edge is None else edge.plan,
        next_plan=None if short is None else short.plan,
        why=why,
        load=load if edge is not None else None,
    )


def _nearest(inputs: Inputs, load: Load | None, machines: Sequence[Machine]) -> Nearest:
    """Return the nearest load that the best of the GPUs serve."""
    shorts = [machine.short for machine in machines if machine.short is not None]
    if not shorts:
        return Nearest(loads=(), sentence="")
    best = max(shorts, key=room_for)
    given = best.plan.settings
    sizes = Layout(
        tensor_parallel_size=given.tensor_parallel_size or 1,
        pipeline_parallel_size=given.pipeline_parallel_size or 1,
        data_parallel_size=given.data_parallel_size or 1,
        enable_expert_parallel=bool(given.enable_expert_parallel),
    )
    here = inputs.changed(gpu=best.plan.gpu, **sizes.arguments())
    return nearest(here, load, is_last=True)
