"""The nearest possible loads and machines, where the requested ones are impossible."""

from __future__ import annotations

from dataclasses import replace

from planner.engine.gpu import GPU, catalogue
from planner.errors import UnknownArchitecture
from planner.planning.inputs import Inputs
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.planning.serving import serve, serving
from planner.planning.words import either, first_sentence, load_text
from planner.solve.fewest_gpus import Machine, fewest
from planner.solve.layouts import Layout, Room, is_refused
from planner.solve.search import longest, most_at_once
from planner.values import frozen

_NODES = 4
"""Machines that are tried where one is not enough."""


@frozen
class Nearest:
    """The nearest loads that can be served, and a sentence that names them."""

    loads: tuple[Load, ...]
    sentence: str


def nearest(
    inputs: Inputs,
    load: Load | None,
    *,
    follows: bool = True,
    is_last: bool = False,
) -> Nearest:
    """Return the loads that the same GPUs serve; else the GPUs that serve the load.

    Args:
        inputs: the start that comes nearest within the given limits.
        load: the load that it does not serve; None: one request of max_model_len
            tokens.
        follows: whether the number of requests was given.
        is_last: whether there are no other GPUs to try.
    """
    wanted = serving(inputs.plan()).load if load is None else load
    loads = _loads(inputs, wanted, follows=follows)
    if loads:
        text = either([load_text(other) for other in loads])
        on = f" on {machine_words(inputs.plan())}" if is_last else ""
        return Nearest(loads=loads, sentence=f"Nearest that is served{on}: {text}.")
    if is_last:
        return Nearest(loads=(), sentence="Not even a request of one token is served.")
    return Nearest(loads=(), sentence=elsewhere(inputs, load))


def nearest_of_any_length(
    inputs: Inputs, load: Load, *, follows: bool = True
) -> Nearest:
    """Return loads that are served where no length serves that many requests.

    These are the most requests, at their greatest length, and one request, at its
    greatest length.
    """
    most = most_at_once(inputs.changed(max_model_len=None), load)
    counts = [most.value, 1] if most.is_found else []
    loads = []
    for requests in dict.fromkeys(counts):
        found = longest(inputs, _any_length(load, requests))
        loads.append(replace(load, requests=requests).of_length(found.value))
    if not loads:
        return nearest(inputs, load, follows=follows)
    text = either([load_text(other) for other in loads])
    return Nearest(loads=tuple(loads), sentence=f"Nearest that is served: {text}.")


def _loads(inputs: Inputs, load: Load, *, follows: bool) -> tuple[Load, ...]:
    """Return fewer requests of the same length, and the same number of shorter ones."""
    found = []
    fewer = most_at_once(inputs, load)
    if fewer.is_found and fewer.value < load.requests:
        found.append(replace(load, requests=fewer.value))
    shorter = longest(inputs, _any_length(load, load.requests), follows=follows)
    if shorter.is_found and shorter.value < load.request_tokens:
        found.append(load.of_length(shorter.value))
    if not found and load.requests > 1:
        alone = longest(inputs, _any_length(load, 1))
        if alone.is_found:
            tokens = min(alone.value, load.request_tokens)
            found.append(replace(load, requests=1).of_length(tokens))
    return tuple(found)


def _any_length(load: Load, requests: int) -> Load:
    """Return the requests whose length is searched: their answers may be short."""
    return replace(
        load.of_length(load.request_tokens), output_tokens=0, requests=requests
    )


def elsewhere(inputs: Inputs, load: Load | None) -> str:
    """Name the GPUs that serve a load.

    Several of the same kind in one machine; else one other GPU of the catalogue, the
    one with the least memory; else several of the largest, in one machine or more.
    """
    free = inputs.changed(
        **Layout().arguments(),
        gpu_memory_utilization=None,
        kv_cache_memory_bytes=None,
        num_gpu_blocks_override=None,
    )
    gpu = replace(inputs.plan().gpu, free_memory_bytes=None)
    whole = [one for one in catalogue() if not one.mig_profile]
    by_size = sorted(whole, key=lambda one: one.total_memory_bytes)
    largest = serve(free.changed(gpu=by_size[-1]), load).plan
    if is_refused(largest) and largest.error is not None:
        words = first_sentence(largest.error.message)
        return f"vLLM refuses it on any GPU: {words}."
    for kind, room in (
        (gpu, Room()),
        *((one, Room(gpus_per_node=1)) for one in by_size),
        (by_size[-1], Room()),
        (by_size[-1], Room(nodes=_NODES)),
    ):
        machine = _of_kind(free, load, kind, room)
        if machine is not None:
            return f"Nearest that serves it: {machine_text(machine)}."
    return (
        f"{_NODES} machines of 8 x {by_size[-1].name}, the largest GPU of the "
        "catalogue, do not serve it either."
    )


def _of_kind(inputs: Inputs, load: Load | None, gpu: GPU, room: Room) -> Machine | None:
    try:
        machine = fewest(inputs, load, gpu, room)
    except UnknownArchitecture:
        return None
    return machine if machine.gpus else None


def machine_text(machine: Machine) -> str:
    """Write how many GPUs serve, and the layout of the model on them."""
    if machine.serving is None:
        return f"no number of {machine.gpu.name}"
    return machine_words(machine.serving.plan)


def machine_words(plan: Plan) -> str:
    """Write a plan's GPUs and the layout of the model on them."""
    given = plan.settings
    sizes = {
        "tensor": given.tensor_parallel_size,
        "pipeline": given.pipeline_parallel_size,
        "data": given.data_parallel_size,
    }
    parts = [f"{kind} parallel {size}" for kind, size in sizes.items() if size]
    if given.enable_expert_parallel:
        parts.append("expert parallel")
    if given.gpu_memory_utilization is not None:
        parts.append(f"gpu_memory_utilization={given.gpu_memory_utilization:g}")
    layout = f" ({', '.join(parts)})" if parts else ""
    return f"{plan.gpus_total} x {plan.gpu.name}{layout}"
