"""Lesson 1: where the memory goes."""

from __future__ import annotations

from planner.learn.account import line_of, rank_of, why
from planner.learn.catalogue import checkpoint
from planner.learn.display import Shown
from planner.learn.exercise import Exercise
from planner.learn.explanation import OpenQuestion
from planner.learn.parts import (
    Choice,
    Mistake,
    Number,
    Size,
    made_plan,
    of_model,
    on_cards,
    takes,
)
from planner.planning.planning import plan
from planner.planning.result import Plan
from planner.units import format_gib

_LONG, _SHORT = 12_000, 4096


def _desk() -> Plan:
    return checkpoint(1)


def _requested() -> int:
    return rank_of(_desk()).requested_memory_bytes


def _total() -> int:
    return _desk().gpu.total_memory_bytes


def _weights() -> int:
    return line_of(_desk(), "weights").size_bytes


def _kv_cache() -> int:
    return rank_of(_desk()).available_kv_cache_bytes


def _at_first() -> int:
    """Return the KV cache of the first start, which has less room."""
    return min(one.available_kv_cache_bytes for one in _desk().alternatives)


READ_THE_BAR = Exercise(
    name="1.1",
    title="Read the bar",
    parts=(
        Size(
            name="requested",
            expected=_requested,
            mistakes=(
                Mistake(
                    _total,
                    "That is the whole card. vLLM requests a share of it, "
                    "gpu_memory_utilization.",
                ),
                Mistake(
                    lambda: _requested() - _kv_cache(),
                    "That is what is used before the KV cache. The KV cache is "
                    "part of what vLLM requests.",
                ),
            ),
        ),
        Size(
            name="kv_cache",
            expected=_kv_cache,
            mistakes=(
                Mistake(
                    lambda: _total() - _weights(),
                    "That is the card minus the weights. vLLM does not request "
                    "the whole card, and there are more lines than the weights.",
                ),
                Mistake(
                    lambda: _requested() - _weights(),
                    "You subtracted only the weights. More lines are subtracted "
                    "before the KV cache gets the rest.",
                ),
                Mistake(
                    _total, "That is the whole card. The KV cache gets what is left."
                ),
                Mistake(
                    lambda: _kv_cache() - _desk().needed_kv_cache_bytes,
                    "That is what is left beside one request of the full length. "
                    "How large is the KV cache itself?",
                ),
                Mistake(
                    _at_first,
                    "That is the first start, which compiles the model. The plan "
                    "is for later starts.",
                ),
            ),
        ),
    ),
    hints=(
        "The line above the table says what is requested, and of what.",
        "The KV cache is the last line of the table.",
        "Type learn.lines(desk) to see each line with its size and its arithmetic.",
    ),
    solved=lambda: Shown(
        text=f"The card has {format_gib(_total())}; vLLM requests a share of it, "
        f"{format_gib(_requested())}.\n{why(_desk(), 'KV cache')}",
    ),
)


def _unmoved() -> str:
    longer = _desk().changed(max_model_len=_LONG)
    return (
        f"Planned again with max_model_len={_LONG:,}: "
        f"{why(longer, 'KV cache')}\nThe cache still holds "
        f"{longer.kv_cache_size_tokens:,} tokens, which are now "
        f"{longer.max_concurrency:.2f} requests instead of "
        f"{_desk().max_concurrency:.2f}."
    )


WHICH_LINE_GROWS = Exercise(
    name="1.2",
    title="Which line grows?",
    parts=(
        Choice(
            name="line",
            options={
                "a": "the weights grow",
                "b": "the KV cache grows",
                "c": "no line changes, and fewer requests fit at once",
                "d": "the peak activation grows",
            },
            expected="c",
            says={
                "a": "The weights are the model itself. They do not depend on the "
                "length of requests.",
                "b": "vLLM reserves nothing for individual requests when it starts. "
                "The KV cache gets what is left, whatever the length.",
                "d": "vLLM processes a long question in chunks of at most "
                "max_num_batched_tokens, so a step does not grow.",
            },
        ),
    ),
    hints=(
        "Plan it: desk.changed(max_model_len=12000). Compare the lines.",
        "planner.compare(desk, desk.changed(max_model_len=12000)) shows them side by "
        "side.",
        "Look at the KV cache in GiB, then at the maximum concurrency.",
    ),
    solved=lambda: Shown(title="Solution: c", text=_unmoved()),
)


def _requests(length: int) -> float:
    return _desk().changed(max_model_len=length).max_concurrency


def _max_num_seqs() -> int:
    resolved = _desk().resolved
    return 0 if resolved is None else resolved.max_num_seqs


SHORTER_QUESTIONS = Exercise(
    name="1.3",
    title="Shorter questions",
    parts=(
        Number(
            name="requests",
            expected=lambda: _requests(_SHORT),
            tolerance=0.02,
            may_be_whole=True,
            mistakes=(
                Mistake(
                    lambda: _desk().max_concurrency,
                    "That is the number for the long requests. The cache holds "
                    "as many tokens, and each request now needs fewer of them.",
                ),
                Mistake(
                    lambda: _desk().max_concurrency / 2,
                    "Shorter requests leave room for more of them, not for fewer.",
                ),
                Mistake(
                    _max_num_seqs,
                    "That is max_num_seqs, the most that vLLM works on at once. "
                    "The KV cache is full before that.",
                ),
            ),
        ),
    ),
    hints=(
        "The size of the KV cache in tokens does not change.",
        "Divide the tokens of the cache by the tokens of a request.",
        "desk.kv_cache_size_tokens / 4096",
    ),
    solved=lambda: Shown(
        text=f"{_desk().kv_cache_size_tokens:,} tokens / {_SHORT:,} tokens for each "
        f"request = {_requests(_SHORT):.2f} requests.",
        code="desk.changed(max_model_len=4096).max_concurrency",
    ),
)


def _long_plan() -> Plan:
    return plan("Qwen/Qwen3-8B", gpu="L4", max_model_len=_LONG)


A_PLAN_THAT_STARTS = Exercise(
    name="1.4",
    title="A plan that starts",
    minutes=3,
    parts=(
        made_plan(
            of_model("Qwen/Qwen3-8B"),
            on_cards("L4"),
            takes(_LONG),
            example=_long_plan,
        ),
    ),
    hints=(
        "A plan for the model's own length does not start on this card.",
        "The plan says how long a request may be: Longest max_model_len.",
        'planner.plan("Qwen/Qwen3-8B", gpu="L4", max_model_len=...) with a length '
        "between 12,000 and that one.",
    ),
    solved=lambda: Shown(
        text=f"Any length from {_LONG:,} to "
        f"{_desk().max_model_len_that_fits or 0:,} tokens works.",
        code=_long_plan().command(),
    ),
)


def _why_no_line_grows() -> str:
    longer = _desk().changed(max_model_len=_LONG)
    return (
        f"vLLM requests {format_gib(_requested())} once, subtracts what it needs to "
        f"run, and makes the rest the KV cache: {format_gib(_kv_cache())}, whatever "
        "the length. Nothing in there belongs to a request yet. The length only says "
        f"how many of the same {_desk().kv_cache_size_tokens:,} tokens one request may "
        f"use: {_desk().max_concurrency:.2f} requests of 8,192 fit at once, or "
        f"{longer.max_concurrency:.2f} of {_LONG:,}. vLLM refuses to start only when "
        "not even one request fits."
    )


QUESTION = OpenQuestion(
    asked="A long request needs more memory than a short one. Why does a longer "
    "max_model_len change no line of the account?",
    expert=_why_no_line_grows,
    points=(
        "the budget is fixed before any request",
        "the KV cache is what remains of it",
        "the length divides the same tokens among fewer requests",
    ),
)


def _lines_between() -> int:
    names = ("persistent buffers", "peak activation", "non-torch", "CUDA graphs")
    return sum(line_of(_desk(), name).size_bytes for name in names)


def _graphs() -> int:
    return line_of(_desk(), "CUDA graphs").size_bytes


SLIPS: tuple[Mistake, ...] = (
    Mistake(
        lambda: _total() - _weights(),
        "the whole card minus the weights. You forgot the 8 % that vLLM does not "
        "request, and the buffers, activations and graphs.",
    ),
    Mistake(
        lambda: (_desk().gpu.nvml_memory_bytes or 0) - _weights(),
        "the 24 GB of the box minus the weights. You forgot the 8 % that vLLM "
        "does not request, and the buffers, activations and graphs.",
    ),
    Mistake(
        lambda: _requested() - _weights(),
        "vLLM's share of the card minus the weights. You forgot the buffers, "
        "activations and graphs.",
    ),
    Mistake(
        lambda: _total() - _weights() - _lines_between() + _graphs(),
        "you forgot the 8 % that vLLM does not request, and the graphs.",
    ),
    Mistake(
        lambda: _total() - _weights() - _lines_between(),
        "you forgot the 8 % of the card that vLLM does not request.",
    ),
    Mistake(lambda: _kv_cache() + _graphs(), "you forgot the CUDA graphs."),
    Mistake(lambda: _weights(), "that is the model itself. What is left beside it?"),
)
"""Figures of the prediction that a forgotten step gives."""

EXERCISES: tuple[Exercise, ...] = (
    READ_THE_BAR,
    WHICH_LINE_GROWS,
    SHORTER_QUESTIONS,
    A_PLAN_THAT_STARTS,
)
