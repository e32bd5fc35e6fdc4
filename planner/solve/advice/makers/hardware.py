"""More GPUs, another division of the model over them, or a larger GPU instead of each.

Planning decides which sizes are legal (heads, vocabulary, experts, quantised blocks).
The larger GPU is the smallest that suffices. A workstation GPU (GeForce, TITAN, Quadro,
RTX) is replaced by another where one suffices, else by a data centre GPU; a data centre
GPU only by another. A GPU of an older compute capability is offered only if no other
suffices, and none with more than eight times the memory: then several smaller ones do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product

from planner.engine.gpu import GPU, catalogue
from planner.planning.result import Outcome, Plan
from planner.solve.advice.situation import Burden, Candidate, Situation
from planner.units import format_gib

_MOST_RANKS = 8
"""GPUs that a machine usually has."""
_CLEARLY_LARGER = 1.02
"""Totals of GPUs of the same size differ by what drivers reserve."""
_WORTH_A_MOVE = 1.25
"""Where the plan starts already, a GPU with less than this much more memory is not
offered."""
_FAR_LARGER = 8
_WORKSTATION = re.compile(r"GeForce|TITAN|Quadro|\bRTX")
_SERVER = re.compile(r"Server Edition")
Suffices = Callable[[Plan], bool]


def tensor_parallel(situation: Situation) -> Iterator[Candidate]:
    """Shard every layer over more GPUs."""
    model, now = situation.model, situation.plan.settings.tensor_parallel_size or 1
    if model is None or not _can_join(situation):
        return
    heads = model.num_attention_heads
    for size in range(now + 1, _MOST_RANKS + 1):
        if heads % size:
            continue
        yield Candidate(
            title=f"Split the model across {_gpus(size)}",
            changes={"tensor_parallel_size": size},
            cost=f"{_in_all(situation, size / now)}; they exchange activations after "
            "every layer, so they should be joined by NVLink or at least sit in one "
            "machine.",
            burden=Burden.HARDWARE,
        )


def fewer_ranks(situation: Situation) -> Iterator[Candidate]:
    """Shard over fewer GPUs, where vLLM refuses the given size."""
    now = situation.plan.settings.tensor_parallel_size or 1
    if situation.plan.outcome is not Outcome.REFUSED:
        return
    for size in _below(now, _heads(situation)):
        yield Candidate(
            title=f"Split the model across {_gpus(size)}",
            changes={"tensor_parallel_size": size},
            cost=f"{_in_all(situation, size / now)}: vLLM refuses this model over "
            f"{now}.",
            burden=Burden.NOTHING,
        )


def pipeline_parallel(situation: Situation) -> Iterator[Candidate]:
    """Distribute the layers over more pipeline stages."""
    now = situation.plan.settings.pipeline_parallel_size or 1
    if situation.model is None or not _can_join(situation):
        return
    for size in range(now + 1, _MOST_RANKS + 1):
        yield Candidate(
            title=f"Spread the layers over {size} pipeline stages",
            changes={"pipeline_parallel_size": size},
            cost=f"{_in_all(situation, size / now)}; a request passes through them one "
            "after the other, so a single answer comes no faster.",
            burden=Burden.HARDWARE,
        )


def fewer_stages(situation: Situation) -> Iterator[Candidate]:
    """Use fewer pipeline stages, where vLLM refuses the given number."""
    now = situation.plan.settings.pipeline_parallel_size or 1
    if situation.plan.outcome is not Outcome.REFUSED:
        return
    for size in _below(now, _layers(situation)):
        yield Candidate(
            title=f"Spread the layers over {size} pipeline stages"
            if size > 1
            else "Keep all layers in one pipeline stage",
            changes={"pipeline_parallel_size": size},
            cost=f"{_in_all(situation, size / now)}: vLLM refuses {now} stages here.",
            burden=Burden.NOTHING,
        )


def data_parallel(situation: Situation) -> Iterator[Candidate]:
    """Run several replicas: more requests at once, not longer ones."""
    now = situation.plan.settings.data_parallel_size or 1
    if situation.model is None or not _can_join(situation):
        return
    for factor in (2, 4, 8):
        size = factor * now
        yield Candidate(
            title=f"Run {size} engines side by side",
            changes={"data_parallel_size": size},
            cost=f"{_in_all(situation, factor)}, each engine with weights of its own: "
            "more requests at once, no longer ones.",
            burden=Burden.HARDWARE,
        )


def expert_parallel(situation: Situation) -> Iterator[Candidate]:
    """Give each rank whole experts instead of a shard of every expert."""
    plan = situation.plan
    ranks = plan.gpus_total // (plan.settings.pipeline_parallel_size or 1)
    is_on = plan.settings.enable_expert_parallel
    if plan.model is None or not plan.model.is_moe or is_on or ranks == 1:
        return
    yield Candidate(
        title="Put whole experts on each GPU (expert parallelism)",
        changes={"enable_expert_parallel": True},
        cost="Tokens travel to the GPU that holds their experts; popular experts make "
        "one GPU wait for another.",
    )


def attention_replicas(situation: Situation) -> Iterator[Candidate]:
    """Keep a request's latent KV cache on one GPU, where each would hold a copy.

    Each GPU then has the attention weights in full, and its share of the experts.
    """
    plan = situation.plan
    model, settings = plan.model, plan.settings
    ranks = settings.tensor_parallel_size or 1
    if (
        model is None
        or not model.is_moe
        or not model.has_latent_attention
        or ranks == 1
    ):
        return
    size = ranks * plan.engines
    yield Candidate(
        argument="data_parallel_size",
        title=f"Run {size} engines of one GPU, and put whole experts on each (data "
        "parallel attention)",
        changes={
            "tensor_parallel_size": None,
            "data_parallel_size": size,
            "enable_expert_parallel": True,
        },
        cost="Each GPU holds the attention weights in full and serves requests of its "
        "own, so a single answer comes slower; the engines wait for one another at "
        "every layer of experts.",
    )


def context_parallel(situation: Situation) -> Iterator[Candidate]:
    """Divide each request's KV cache over ranks that would otherwise replicate it."""
    settings = situation.plan.settings
    ranks = settings.tensor_parallel_size or 1
    now = settings.decode_context_parallel_size or 1
    for size in (
        size
        for size in range(now + 1, min(ranks, _heads(situation)) + 1)
        if ranks % size == 0
    ):
        yield Candidate(
            title=f"Divide each request's KV cache over {size} GPUs "
            "(decode context parallel)",
            changes={"decode_context_parallel_size": size},
            cost="The GPUs exchange partial attention results at every layer, and "
            "fewer attention kernels can do it.",
        )


def larger_gpu(situation: Situation) -> Iterator[Candidate]:
    """Offer the smallest GPU that serves; without one, the smallest that starts."""
    now = situation.plan.gpu
    gpu = _smallest(situation, situation.serves)
    if gpu is None and not situation.plan.fits:
        gpu = _smallest(situation, lambda plan: plan.fits)
    if gpu is None:
        return
    taken = now.free_memory_bytes is not None
    yield Candidate(
        title=f"Use {gpu.name} ({format_gib(gpu.total_memory_bytes)})",
        changes={"gpu": gpu.name},
        cost=f"{gpu.name} instead of {now.name} "
        f"({format_gib(now.total_memory_bytes)})"
        f"{', taken to be empty' if taken else ''}.",
        burden=Burden.HARDWARE,
    )


def _below(now: int, most: int) -> Iterator[int]:
    """Yield the sizes below the given one, largest first.

    Sizes above `most` (heads, layers) are never legal, so they are skipped.
    """
    yield from range(min(now - 1, most), 0, -1)


def _heads(situation: Situation) -> int:
    """Return the largest tensor parallel size that can be legal."""
    model = situation.model
    return _MOST_RANKS if model is None else model.num_attention_heads


def _layers(situation: Situation) -> int:
    """Return the largest number of pipeline stages with at least one layer each."""
    model = situation.model
    return _MOST_RANKS if model is None else model.num_hidden_layers


def _can_join(situation: Situation) -> bool:
    """Whether several such GPUs can form one engine: not a CPU or a MIG slice."""
    gpu = situation.plan.gpu
    return not gpu.is_cpu and not gpu.mig_profile


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def _in_all(situation: Situation, factor: float) -> str:
    now = situation.plan.gpus_total
    return f"{_gpus(round(now * factor))} instead of {now}"


def _smallest(situation: Situation, suffices: Suffices) -> GPU | None:
    """Return the smallest GPU that suffices, from the first group that has one."""

    def check(gpu: GPU) -> bool:
        plan = situation.again(gpu=gpu.name)
        return plan is not None and suffices(plan)

    least = _WORTH_A_MOVE if situation.is_served else _CLEARLY_LARGER
    for gpus in _choices(situation.plan.gpu, least):
        largest = {gpu.compute_capability: gpu for gpu in gpus}
        enough = [generation for generation, gpu in largest.items() if check(gpu)]
        for gpu in gpus:
            if gpu.compute_capability in enough and check(gpu):
                return gpu
    return None


def _choices(gpu: GPU, least: float) -> Iterator[Sequence[GPU]]:
    """Yield groups of larger GPUs, one per size: same class first, older ones last."""
    if gpu.is_cpu:
        return
    classes = (True, False) if _is_workstation(gpu) else (False,)
    for is_older, is_workstation in product((False, True), classes):
        by_size: dict[int, GPU] = {}
        for other in _larger(gpu, least):
            if (other.compute_capability < gpu.compute_capability) is not is_older:
                continue
            if _is_workstation(other) is is_workstation:
                by_size.setdefault(other.total_memory_bytes, other)
        yield [by_size[size] for size in sorted(by_size)]


def _larger(gpu: GPU, least: float) -> Iterator[GPU]:
    for other in catalogue():
        times = other.total_memory_bytes / gpu.total_memory_bytes
        is_alike = other.is_integrated == gpu.is_integrated and not other.mig_profile
        if least <= times <= _FAR_LARGER and is_alike:
            yield other


def _is_workstation(gpu: GPU) -> bool:
    """Whether it is a workstation GPU, by the name that its driver reports."""
    name = gpu.device_name or gpu.name
    return bool(_WORKSTATION.search(name)) and not _SERVER.search(name)
