"""What exercises read off a plan."""

from __future__ import annotations

from planner.errors import PlannerError
from planner.result import Line, Plan, RankMemory


def rank_of(plan: Plan) -> RankMemory:
    """Return the rank that limits a plan.

    Raises:
        PlannerError: where vLLM refuses the settings, so that nothing is allocated.
    """
    rank = plan.limiting_rank
    if rank is None:
        raise PlannerError(f"Nothing is allocated: {plan.error}")
    return rank


def line_of(plan: Plan, name: str) -> Line:
    """Return a line of the account, such as "weights"."""
    return rank_of(plan).line(name)


def why(plan: Plan, name: str) -> str:
    """Return a line's arithmetic as a sentence: its name, then the sum."""
    return f"{name}: {line_of(plan, name).why}."


def part_bytes(plan: Plan, name: str) -> int:
    """Return the bytes of a part of the weights, such as "attention"; 0 without it."""
    parts = rank_of(plan).weight_parts
    return next((one.size_bytes for one in parts if one.name == name), 0)


def token_bytes(plan: Plan) -> int:
    """Return the KV cache of one token, where each layer keeps every token."""
    return rank_of(plan).bytes_per_block // plan.kv_groups[0].block_size


def message_of(plan: Plan) -> str:
    """Return what vLLM says where it does not start; empty where it does."""
    return "" if plan.error is None else plan.error.message
