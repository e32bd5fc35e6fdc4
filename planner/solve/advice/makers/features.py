"""Features that take memory: LoRA, speculative decoding, CPU offloading, wide dtypes.

Each is reduced or switched off; `taken_back` tries this with any given argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import floor
from typing import Any

from planner.engine.arguments import PLANNER_ONLY
from planner.engine.settings import EngineSettings, given_arguments
from planner.models.architecture import Speculation
from planner.solve.advice.makers.batch import halves
from planner.solve.advice.situation import Burden, Candidate, Situation
from planner.units import GIB

_DEFAULT_RANK = 16
_LEAST_RANK = 8
_MOST_ADAPTERS = 64
"""The most adapters that are offered, however many are given."""
_SPECULATIVE = ("speculative_config", "spec_method", "spec_model", "spec_tokens")
_NEVER_TAKEN_BACK = (
    # Facts of the machine.
    *PLANNER_ONLY,
    # Without these it would be another model, or none at all.
    *("runner", "trust_remote_code"),
    # These have their own makers.
    *("kv_cache_memory_bytes", "num_gpu_blocks_override", "enable_lora"),
    *_SPECULATIVE,
    "disable_hybrid_kv_cache_manager",
)
_TOKENS = "num_speculative_tokens"


def smaller_rank(situation: Situation) -> Iterator[Candidate]:
    """Reserve memory for adapters of a lower rank."""
    settings = situation.plan.settings
    if not settings.enable_lora:
        return
    for rank in halves(settings.max_lora_rank or _DEFAULT_RANK, _LEAST_RANK):
        yield Candidate(
            title=f"Keep room for adapters up to rank {rank}",
            changes={"max_lora_rank": rank},
            cost=f"Adapters of a higher rank than {rank} are refused.",
            burden=Burden.ABILITY,
        )


def fewer_adapters(situation: Situation) -> Iterator[Candidate]:
    """Reserve memory for fewer adapters in one batch."""
    settings = situation.plan.settings
    if not settings.enable_lora:
        return
    for count in range(min((settings.max_loras or 1) - 1, _MOST_ADAPTERS), 0, -1):
        yield Candidate(
            title=f"Keep room for {count} adapter{'s' * (count > 1)} in one batch",
            changes={"max_loras": count},
            cost="Requests for further adapters wait for a batch of their own.",
        )


def sharded(situation: Situation) -> Iterator[Candidate]:
    """Shard both factors of each adapter over the ranks."""
    settings = situation.plan.settings
    ranks = settings.tensor_parallel_size or 1
    if not settings.enable_lora or settings.fully_sharded_loras or ranks == 1:
        return
    yield Candidate(
        title="Split both factors of each adapter across the GPUs",
        changes={"fully_sharded_loras": True},
        cost="The GPUs exchange more data for every adapter.",
    )


def without_adapters(situation: Situation) -> Iterator[Candidate]:
    """Serve the model without adapters."""
    if not situation.plan.settings.enable_lora:
        return
    yield Candidate(
        title="Serve without LoRA adapters",
        changes={"enable_lora": False},
        cost="Adapters are refused; merge one into the weights beforehand.",
        burden=Burden.ABILITY,
    )


def sixteen_bits(situation: Situation) -> Iterator[Candidate]:
    """Compute in 16 bits instead of 32."""
    resolved = situation.plan.resolved
    if resolved is None or resolved.dtype != "float32":
        return
    for dtype in ("bfloat16", "float16"):
        yield Candidate(
            title=f"Hold and compute in {dtype}",
            changes={"dtype": dtype},
            cost="Half as many bits; nearly every model is published in 16 bits.",
        )


def balanced(situation: Situation) -> Iterator[Candidate]:
    """Leave performance_mode="throughput", which doubles batches."""
    if situation.plan.settings.performance_mode != "throughput":
        return
    yield Candidate(
        title="Leave performance_mode at balanced: throughput doubles batches",
        changes={"performance_mode": "balanced"},
        cost="Fewer tokens and requests in one step.",
    )


def taken_back(situation: Situation) -> Iterator[Candidate]:
    """Remove one given argument, where that alone makes the plan start."""
    if situation.plan.fits:
        return
    never = (*_NEVER_TAKEN_BACK, *situation.plan.follows)
    for name in given_arguments(situation.plan.settings):
        changed = None if name in never else situation.again(**{name: None})
        if changed is not None and changed.fits:
            yield Candidate(
                title=f"Leave {name} out: vLLM starts with its own default",
                changes={name: None},
                cost="You lose whatever you had set it for.",
                burden=Burden.ABILITY,
            )


def fewer_guesses(situation: Situation) -> Iterator[Candidate]:
    """Draft fewer tokens in each step: fewer states, logits and graphs."""
    found = _speculation(situation)
    if found is None:
        return
    for tokens in halves(found.num_speculative_tokens, 1):
        yield Candidate(
            argument="num_speculative_tokens",
            title=f"Guess {tokens} token{'s' * (tokens > 1)} ahead instead of "
            f"{found.num_speculative_tokens}",
            changes=_with_tokens(situation.plan.settings, tokens),
            cost="Easy passages gain less speed.",
        )


def without_draft(situation: Situation) -> Iterator[Candidate]:
    """Switch speculative decoding off: no draft model, no KV cache for it."""
    found = _speculation(situation)
    if found is None:
        return
    given = situation.plan.settings
    what = "without the draft" if found.draft is not None else "without guessing ahead"
    yield Candidate(
        argument="speculative_config",
        title=f"Serve {what}",
        changes={
            name: None for name in _SPECULATIVE if getattr(given, name) is not None
        },
        cost="Each step gives one token a request; the answers stay the same.",
    )


def fewer_offloaded_blocks(situation: Situation) -> Iterator[Candidate]:
    """Offload fewer KV blocks to CPU memory: as many as fit, or none."""
    missing, engines = _missing(situation)
    size = situation.plan.settings.kv_offloading_size
    if not missing or not size:
        return
    left = floor(size - missing / engines / GIB)
    for gib in (left, 0):
        if 0 <= gib < size:
            yield Candidate(
                title=f"Keep {gib} GiB of KV blocks in CPU memory, not {size:g}"
                if gib
                else "Keep no KV blocks in CPU memory",
                changes={"kv_offloading_size": float(gib) or None},
                cost="Fewer prompts are found again after they have left the GPU.",
            )


def less_offloaded_weights(situation: Situation) -> Iterator[Candidate]:
    """Offload fewer weights to CPU memory: as many as fit, or none."""
    missing, _ = _missing(situation)
    size = situation.plan.settings.cpu_offload_gb
    if not missing or not size:
        return
    workers = max(account.gpus for account in situation.plan.host)
    left = floor(size - missing / workers / GIB)
    for gib in (left, 0):
        if 0 <= gib < size:
            yield Candidate(
                title=f"Hold {gib} GiB of each GPU's weights in CPU memory, not "
                f"{size:g}"
                if gib
                else "Hold all weights on the GPUs",
                changes={"cpu_offload_gb": float(gib) or None},
                cost="The GPU keeps more weights, and less KV cache.",
                burden=Burden.NOTHING,
            )


def without_sleep(situation: Situation) -> Iterator[Candidate]:
    """Start without sleep mode, which needs room for the weights."""
    missing, _ = _missing(situation)
    if missing and dict(situation.plan.settings.others).get("enable_sleep_mode"):
        yield Candidate(
            title="Start without sleep mode",
            changes={"enable_sleep_mode": None},
            cost="vLLM cannot release the GPU without being stopped.",
            burden=Burden.ABILITY,
        )


def _speculation(situation: Situation) -> Speculation | None:
    model = situation.model
    return None if model is None else model.speculation


def _with_tokens(given: EngineSettings, tokens: int) -> dict[str, Any]:
    if given.spec_tokens is not None:
        return {"spec_tokens": tokens}
    config: Any = given.speculative_config
    if not isinstance(config, Mapping):
        return {"spec_tokens": tokens}
    kept = {k: v for k, v in config.items() if k.replace("-", "_") != _TOKENS}
    return {"speculative_config": {**kept, _TOKENS: tokens}}


def _missing(situation: Situation) -> tuple[int, int]:
    """Return the bytes that the fullest machine lacks, and its number of engines."""
    error = situation.plan.error
    if error is None or error.kind != "host_memory":
        return 0, 1
    short = [
        (one.certain_bytes - one.capacity_bytes, max(one.engines, 1))
        for one in situation.plan.host
        if one.capacity_bytes is not None
    ]
    return max(short, default=(0, 1))
