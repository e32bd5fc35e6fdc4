"""What a learner's plan has to do, in the words of the exercise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planner.learn.parts import Condition, Made
from planner.result import Plan

_HOW = 'Make one with planner.plan("Qwen/Qwen3-8B", gpu="L4", ...).'
_NUMBERS = {1: "one", 2: "two", 4: "four"}


def made_plan(
    *conditions: Condition, example: Callable[[], Plan], how: str = _HOW
) -> Made:
    """Return the part that asks for a plan which starts and meets `conditions`."""
    starts = Condition(text="start", is_met=lambda plan: bool(plan.fits))
    return Made(
        name="plan",
        kind=Plan,
        conditions=(*conditions, starts),
        example=example,
        how=how,
    )


def of_model(name: str) -> Condition:
    """Ask for one model."""
    return Condition(
        text=f"be for {name}", is_met=lambda plan: plan.name.lower() == name.lower()
    )


def on_cards(gpu: str, most: int = 1) -> Condition:
    """Ask for a kind of GPU, and not more than so many."""
    several = f"at most {_NUMBERS[most]}" if most > 1 else "one"
    return Condition(
        text=f"run on {several} {gpu}",
        is_met=lambda plan: plan.gpu.name == gpu and plan.gpus_total <= most,
    )


def takes(tokens: int) -> Condition:
    """Ask for requests of that length."""
    return Condition(
        text=f"take requests of {tokens:,} tokens",
        is_met=lambda plan: (
            plan.resolved is not None and plan.resolved.max_model_len >= tokens
        ),
    )


def holds(requests: int, tokens: int) -> Condition:
    """Ask for room in the KV cache for so many requests of that length."""
    times = f"{requests} x " if requests > 1 else ""
    return Condition(
        text=f"have a KV cache of {times}{tokens:,} tokens",
        is_met=lambda plan: plan.kv_cache_size_tokens >= requests * tokens,
    )


def keeps(setting: str, value: Any, text: str) -> Condition:  # noqa: ANN401 - vLLM's
    """Ask that a setting is left as it is, typed or not."""
    return Condition(
        text=text,
        is_met=lambda plan: getattr(plan.settings, setting, None) in (None, value),
    )
