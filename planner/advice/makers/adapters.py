"""LoRA: room for smaller adapters, and for fewer of them."""

from __future__ import annotations

from collections.abc import Iterator

from planner.advice.candidate import Burden, Candidate
from planner.advice.makers.ladders import halves
from planner.advice.situation import Situation

_DEFAULT_RANK = 16
_LEAST_RANK = 8

_MOST_ADAPTERS = 64
"""Where fewer are offered first, however many were asked for."""


def smaller_rank(situation: Situation) -> Iterator[Candidate]:
    """Keep room for adapters of a lower rank."""
    settings = situation.plan.settings
    if not settings.enable_lora:
        return
    for rank in halves(settings.max_lora_rank or _DEFAULT_RANK, _LEAST_RANK):
        yield Candidate(
            kind="max_lora_rank",
            title=f"Keep room for adapters up to rank {rank}",
            changes={"max_lora_rank": rank},
            cost=f"Adapters of a higher rank than {rank} are refused.",
            burden=Burden.ABILITY,
        )


def fewer_adapters(situation: Situation) -> Iterator[Candidate]:
    """Keep room for fewer adapters in one batch."""
    settings = situation.plan.settings
    if not settings.enable_lora:
        return
    for count in range(min((settings.max_loras or 1) - 1, _MOST_ADAPTERS), 0, -1):
        yield Candidate(
            kind="max_loras",
            title=f"Keep room for {count} adapter{'s' * (count > 1)} in one batch",
            changes={"max_loras": count},
            cost="Requests for further adapters wait for a batch of their own.",
            burden=Burden.SPEED,
        )


def sharded(situation: Situation) -> Iterator[Candidate]:
    """Cut both factors of each adapter over the ranks."""
    settings = situation.plan.settings
    ranks = settings.tensor_parallel_size or 1
    if not settings.enable_lora or settings.fully_sharded_loras or ranks == 1:
        return
    yield Candidate(
        kind="fully_sharded_loras",
        title="Cut both factors of each adapter over the GPUs",
        changes={"fully_sharded_loras": True},
        cost="The GPUs exchange more between them for every adapter.",
        burden=Burden.SPEED,
    )


def without(situation: Situation) -> Iterator[Candidate]:
    """Serve the model without adapters."""
    if not situation.plan.settings.enable_lora:
        return
    yield Candidate(
        kind="enable_lora",
        title="Serve without LoRA adapters",
        changes={"enable_lora": False},
        cost="Adapters are refused; merge one into the weights beforehand.",
        burden=Burden.ABILITY,
    )
