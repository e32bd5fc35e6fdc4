"""More GPUs for one engine, or more engines.

Which sizes are legal (heads, vocabulary, experts, blocks of quantised weights) is what
planning them says.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.advice.candidate import Burden, Candidate
from planner.advice.situation import Situation
from planner.result import Outcome

_MOST_RANKS = 8
"""GPUs that one machine usually joins."""


def tensor_parallel(situation: Situation) -> Iterator[Candidate]:
    """Cut every layer over more GPUs."""
    model, now = situation.model, situation.plan.settings.tensor_parallel_size or 1
    if model is None or not _can_join(situation):
        return
    heads = model.num_attention_heads
    for size in range(now + 1, _MOST_RANKS + 1):
        if heads % size:
            continue
        yield Candidate(
            kind="tensor_parallel_size",
            title=f"Cut the model over {_gpus(size)}",
            changes={"tensor_parallel_size": size},
            cost=f"{_in_all(situation, size / now)}; they exchange activations after "
            "every layer, so they should be joined by NVLink or at least sit in one "
            "machine.",
            burden=Burden.HARDWARE,
        )


def _below(now: int, most: int) -> Iterator[int]:
    """Yield the sizes below the asked one, largest first.

    None above `most` (heads, layers) is legal, however large a size was asked for.
    """
    yield from range(min(now - 1, most), 0, -1)


def _heads(situation: Situation) -> int:
    """Return the largest tensor parallel size that any rule allows."""
    model = situation.model
    return _MOST_RANKS if model is None else model.num_attention_heads


def _layers(situation: Situation) -> int:
    """Return the largest number of pipeline stages with a layer each."""
    model = situation.model
    return _MOST_RANKS if model is None else model.num_hidden_layers


def fewer_ranks(situation: Situation) -> Iterator[Candidate]:
    """Cut over fewer GPUs than asked for, where vLLM refuses that size."""
    now = situation.plan.settings.tensor_parallel_size or 1
    if situation.plan.outcome is not Outcome.REFUSED:
        return
    for size in _below(now, _heads(situation)):
        yield Candidate(
            kind="tensor_parallel_size",
            title=f"Cut the model over {_gpus(size)}",
            changes={"tensor_parallel_size": size},
            cost=f"{_in_all(situation, size / now)}: vLLM refuses this model over "
            f"{now}.",
            burden=Burden.NOTHING,
        )


def pipeline_parallel(situation: Situation) -> Iterator[Candidate]:
    """Put the layers on more GPUs, one after the other."""
    now = situation.plan.settings.pipeline_parallel_size or 1
    if situation.model is None or not _can_join(situation):
        return
    for size in range(now + 1, _MOST_RANKS + 1):
        yield Candidate(
            kind="pipeline_parallel_size",
            title=f"Spread the layers over {size} pipeline stages",
            changes={"pipeline_parallel_size": size},
            cost=f"{_in_all(situation, size / now)}; a request passes through them one "
            "after the other, so a single answer comes no faster.",
            burden=Burden.HARDWARE,
        )


def fewer_stages(situation: Situation) -> Iterator[Candidate]:
    """Take fewer pipeline stages than asked for, where vLLM refuses as many."""
    now = situation.plan.settings.pipeline_parallel_size or 1
    if situation.plan.outcome is not Outcome.REFUSED:
        return
    for size in _below(now, _layers(situation)):
        yield Candidate(
            kind="pipeline_parallel_size",
            title=f"Spread the layers over {size} pipeline stages"
            if size > 1
            else "Keep all layers in one pipeline stage",
            changes={"pipeline_parallel_size": size},
            cost=f"{_in_all(situation, size / now)}: vLLM refuses {now} stages here.",
            burden=Burden.NOTHING,
        )


def data_parallel(situation: Situation) -> Iterator[Candidate]:
    """Run the engine several times: more requests, not more room for one."""
    now = situation.plan.settings.data_parallel_size or 1
    if situation.model is None or not _can_join(situation):
        return
    for factor in (2, 4, 8):
        size = factor * now
        yield Candidate(
            kind="data_parallel_size",
            title=f"Run {size} engines side by side",
            changes={"data_parallel_size": size},
            cost=f"{_in_all(situation, factor)}, each engine with weights of its own: "
            "more requests at once, no longer ones.",
            burden=Burden.HARDWARE,
        )


def expert_parallel(situation: Situation) -> Iterator[Candidate]:
    """Give each rank whole experts in place of a slice of every expert."""
    plan = situation.plan
    ranks = plan.gpus_total // (plan.settings.pipeline_parallel_size or 1)
    is_on = plan.settings.enable_expert_parallel
    if plan.model is None or not plan.model.is_moe or is_on or ranks == 1:
        return
    yield Candidate(
        kind="enable_expert_parallel",
        title="Give each GPU whole experts (expert parallel)",
        changes={"enable_expert_parallel": True},
        cost="Tokens travel to the GPU that holds their experts; popular experts make "
        "one GPU wait for another.",
        burden=Burden.SPEED,
    )


def context_parallel(situation: Situation) -> Iterator[Candidate]:
    """Divide each request's KV cache over ranks that would hold copies of it."""
    settings = situation.plan.settings
    ranks = settings.tensor_parallel_size or 1
    now = settings.decode_context_parallel_size or 1
    for size in (
        size
        for size in range(now + 1, min(ranks, _heads(situation)) + 1)
        if ranks % size == 0
    ):
        yield Candidate(
            kind="decode_context_parallel_size",
            title=f"Divide each request's KV cache over {size} GPUs "
            "(decode context parallel)",
            changes={"decode_context_parallel_size": size},
            cost="The GPUs exchange partial attention results at every layer, and "
            "fewer attention kernels can do it.",
            burden=Burden.SPEED,
        )


def _can_join(situation: Situation) -> bool:
    """Whether several of them make one engine: no processor, no slice of a GPU."""
    gpu = situation.plan.gpu
    return not gpu.is_cpu and not gpu.mig_profile


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def _in_all(situation: Situation, factor: float) -> str:
    now = situation.plan.gpus_total
    return f"{_gpus(round(now * factor))} in place of {now}"
