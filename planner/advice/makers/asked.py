"""What was asked for and stands in the way: a dtype, or any argument at all."""

from __future__ import annotations

from collections.abc import Iterator

from planner.advice.candidate import Burden, Candidate
from planner.advice.situation import Situation
from planner.engine import given_arguments
from planner.flags import PLANNER_ONLY

_NEVER = (
    # They are facts of the machine.
    *PLANNER_ONLY,
    # Without these it would be another model, or none.
    *("runner", "trust_remote_code"),
    # These have makers of their own.
    *("kv_cache_memory_bytes", "num_gpu_blocks_override", "enable_lora"),
    *("speculative_config", "spec_method", "spec_model", "spec_tokens"),
    "disable_hybrid_kv_cache_manager",
)


def sixteen_bits(situation: Situation) -> Iterator[Candidate]:
    """Compute in 16 bits, where 32 were asked for."""
    resolved = situation.plan.resolved
    if resolved is None or resolved.dtype != "float32":
        return
    for dtype in ("bfloat16", "float16"):
        yield Candidate(
            kind="dtype",
            title=f"Hold and compute in {dtype}",
            changes={"dtype": dtype},
            cost="Half as many bits; nearly every model is published in 16.",
            burden=Burden.SPEED,
        )


def balanced(situation: Situation) -> Iterator[Candidate]:
    """Leave performance_mode="throughput", which doubles batches."""
    if situation.plan.settings.performance_mode != "throughput":
        return
    yield Candidate(
        kind="performance_mode",
        title="Leave performance_mode at balanced: throughput doubles batches",
        changes={"performance_mode": "balanced"},
        cost="Fewer tokens and requests in one step.",
        burden=Burden.SPEED,
    )


def taken_back(situation: Situation) -> Iterator[Candidate]:
    """Leave out one argument of those given, where that alone makes it start."""
    if situation.plan.fits:
        return
    for name in given_arguments(situation.plan.settings):
        changed = None if name in _NEVER else situation.again(**{name: None})
        if changed is not None and changed.fits:
            yield Candidate(
                kind=name,
                title=f"Leave {name} out: vLLM's own default starts",
                changes={name: None},
                cost="What it was given for.",
                burden=Burden.ABILITY,
            )
