"""Lesson 5: predict, run vLLM, explain the difference."""

from __future__ import annotations

from functools import cache

from planner.confirming.measurement import Measurement
from planner.learn.account import line_of, rank_of, recorded, why
from planner.learn.catalogue import checkpoint
from planner.learn.display import Shown
from planner.learn.exercise import Exercise
from planner.learn.explanation import OpenQuestion
from planner.learn.parts import (
    Choice,
    Condition,
    Mistake,
    Number,
    Size,
    holds,
    made_plan,
    of_model,
    takes,
)
from planner.learn.starts import PublishedStart, published
from planner.planning.result import Plan
from planner.units import GIB, format_gib

_LENGTH, _AT_ONCE = 4096, 4
_MOST = 0.4


def _small() -> Plan:
    return checkpoint(5)


def _total() -> int:
    return _small().gpu.total_memory_bytes


def _requested() -> int:
    return rank_of(_small()).requested_memory_bytes


def _weights() -> int:
    return line_of(_small(), "weights").size_bytes


BEFORE_IT_STARTS = Exercise(
    name="5.1",
    title="Before it starts",
    parts=(
        Size(
            name="weights",
            expected=_weights,
            mistakes=(
                Mistake(
                    lambda: _weights() // 2,
                    "That is 2 bytes for each parameter. This start uses float32.",
                ),
                Mistake(
                    lambda: _weights() * 8, "float32 has 32 bits, which are 4 bytes."
                ),
            ),
        ),
        Size(
            name="requested",
            expected=_requested,
            mistakes=(
                Mistake(
                    _total,
                    "That is the memory of the whole machine. This start may use "
                    "a share of it.",
                ),
                Mistake(
                    lambda: round(_total() * 0.92),
                    "0.92 is vLLM's default. This start sets another value.",
                ),
            ),
        ),
    ),
    hints=(
        "The plan shows both: the first line of the table, and the line above it.",
        "weights: 0.6 billion parameters x 4 bytes.",
        "requested: small.gpu.total_memory_bytes x 0.3",
    ),
    solved=lambda: Shown(
        text=f"{why(_small(), 'weights')}\nrequested: 0.3 x {format_gib(_total())} = "
        f"{format_gib(_requested())}.",
    ),
)


@cache
def _measured() -> Measurement:
    return recorded().compare().measurement


def _figure(name: str) -> float:
    return _measured().log.figures[name]


def _logged(name: str) -> int:
    return round(_figure(name) * GIB)


READ_THE_LOG = Exercise(
    name="5.2",
    title="Read the log",
    parts=(
        Size(
            name="kv_cache",
            expected=lambda: _logged("available_kv_gib"),
            tolerance=0.005,
            mistakes=(
                Mistake(
                    lambda: rank_of(_small()).available_kv_cache_bytes,
                    "That is the estimate. The log says what vLLM measured.",
                ),
                Mistake(
                    lambda: _logged("consumed_gib"),
                    "That is what everything except the KV cache takes.",
                ),
                Mistake(
                    lambda: _logged("requested_gib"),
                    "That is what vLLM requested in total.",
                ),
            ),
        ),
        Number(
            name="tokens",
            expected=lambda: _figure("kv_tokens"),
            mistakes=(
                Mistake(
                    lambda: _small().kv_cache_size_tokens,
                    "That is the estimate. The log says what vLLM measured.",
                ),
                Mistake(
                    lambda: _figure("max_concurrency_len"),
                    "That is the length of one request.",
                ),
            ),
        ),
    ),
    hints=(
        "vLLM writes both in the two lines above.",
        "kv_cache: the first number after Auto set.",
        "tokens: the number after CPU KV cache size.",
    ),
    solved=lambda: recorded().said("Auto set", "KV cache size"),
)


def _block_size() -> int:
    return _small().kv_groups[0].block_size


def _measured_blocks() -> int:
    return int(_figure("kv_tokens")) // _block_size()


EXPLAIN_THE_DIFFERENCE = Exercise(
    name="5.3",
    title="Explain the difference",
    parts=(
        Number(
            name="blocks",
            expected=_measured_blocks,
            mistakes=(
                Mistake(
                    lambda: _small().num_gpu_blocks,
                    "That is the plan's number. How many did vLLM have?",
                ),
                Mistake(
                    lambda: int(_figure("kv_tokens")) // 16,
                    "16 tokens are a block on most GPUs. On a processor a block "
                    "holds more.",
                ),
            ),
        ),
        Choice(
            name="cause",
            options={
                "a": "a block takes more bytes than planned",
                "b": "the model has more layers than planned",
                "c": "everything but the KV cache took more memory than estimated, so "
                "less was left",
                "d": "random weights are smaller than real ones",
            },
            expected="c",
            says={
                "a": "Divide the measured memory by the blocks: it is the same.",
                "b": "The layers are read from the model's configuration.",
                "d": "They have the same shapes and the same bytes.",
            },
        ),
    ),
    hints=(
        "Divide the tokens of the log by the tokens of a block.",
        "small.kv_groups says how many tokens a block holds: 128.",
        "Which line of the comparison is larger than estimated?",
    ),
    solved=lambda: Shown(
        title="Solution: c",
        text=f"{_figure('kv_tokens'):,.0f} tokens / {_block_size()} in a block = "
        f"{_measured_blocks()} blocks; the plan had {_small().num_gpu_blocks}.\n"
        f"{format_gib(_logged('available_kv_gib'))} / {_measured_blocks()} blocks = "
        f"{_logged('available_kv_gib') // _measured_blocks():,} bytes, of which a "
        f"block takes {rank_of(_small()).bytes_per_block:,}: the blocks are as "
        "planned.\n"
        f"Everything else took {format_gib(_logged('consumed_gib'))} instead of "
        f"{format_gib(_requested() - rank_of(_small()).available_kv_cache_bytes)}.",
    ),
)


@cache
def _missed() -> tuple[PublishedStart, PublishedStart]:
    """Return the start that the plan missed, and the same with a larger share."""
    starts = published().starts
    return starts[2], starts[3]


def _of_the_miss() -> str:
    first, second = _missed()
    peak = line_of(first.plan, "peak activation").size_bytes
    return (
        f"{first.what}: planned "
        f"{format_gib(rank_of(first.plan).available_kv_cache_bytes)}, logged "
        f"{format_gib(first.kv_cache_bytes)}.\n{second.what}: planned "
        f"{format_gib(rank_of(second.plan).available_kv_cache_bytes)}, logged "
        f"{format_gib(second.kv_cache_bytes)}.\n"
        "The share doubled and the difference did not, so it is in a line that does "
        "not depend on the share. The logged weights are as planned. What is left is "
        f"the peak: planned {format_gib(peak)}, and "
        f"{format_gib(peak + first.error_bytes)} would explain both logs.\n"
        f"The planner's arithmetic of the {why(first.plan, 'peak activation')}\n"
        "Published starts of such releases on "
        "an H100 agree with that figure; why this card needed less is not known."
    )


THE_ONE_IT_MISSED = Exercise(
    name="5.4",
    title="The one it missed",
    parts=(
        Size(
            name="off",
            expected=lambda: abs(_missed()[0].error_bytes),
            is_difference=True,
            mistakes=(
                Mistake(
                    lambda: _missed()[0].kv_cache_bytes,
                    "That is the whole KV cache. By how much was the plan off?",
                ),
                Mistake(
                    lambda: (
                        _missed()[0].kv_cache_bytes
                        - rank_of(_missed()[0].plan).available_kv_cache_high_bytes
                    ),
                    "That is how far it is outside the range. How far from the "
                    "plan's figure?",
                ),
            ),
        ),
        Choice(
            name="line",
            options={
                "a": "the weights",
                "b": "the share of the card",
                "c": "the peak activation",
                "d": "the bytes of a token",
            },
            expected="c",
            says={
                "a": "Compare the two columns of the weights.",
                "b": "Then the start with twice the share would be off by twice as "
                "much.",
                "d": "The KV cache is off in GiB, before it is divided into tokens.",
            },
        ),
    ),
    hints=(
        "The column Difference has it; a sign says only the direction.",
        "The third and the fourth start differ only in their share.",
        "Which line is neither logged in the table nor a share of the card?",
    ),
    solved=lambda: Shown(title="Solution: c", text=_of_the_miss()),
)


def _answer() -> Plan:
    return _small().changed(max_model_len=_LENGTH, gpu_memory_utilization=0.36)


MAKE_ROOM = Exercise(
    name="5.5",
    title="Make room for a test",
    parts=(
        made_plan(
            of_model("Qwen/Qwen3-0.6B"),
            Condition(
                text="be for the machine of the recorded run",
                is_met=lambda plan: plan.gpu.total_memory_bytes == _total(),
                yours=lambda plan: f"is for {plan.gpu.name}",
            ),
            Condition(
                text=f"leave gpu_memory_utilization at {_MOST} or below",
                is_met=lambda plan: (
                    plan.resolved is not None
                    and plan.resolved.gpu_memory_utilization <= _MOST
                ),
                yours=lambda plan: (
                    f"has {plan.resolved.gpu_memory_utilization:g}"
                    if plan.resolved
                    else ""
                ),
            ),
            takes(_LENGTH),
            holds(_AT_ONCE, _LENGTH),
            example=_answer,
            how="Make one with small.changed(...).",
        ),
    ),
    hints=(
        "4 x 4,096 tokens are 16,384. How many does the plan hold now?",
        "small.changed(max_model_len=4096, ...) changes the plan of that run.",
        "gpu_memory_utilization=0.36 requests more of the machine's memory.",
    ),
    solved=lambda: Shown(
        text=f"{why(_answer(), 'KV cache')}\nThat is "
        f"{_answer().kv_cache_size_tokens:,} tokens.",
        code=_answer().command(),
    ),
)


def _what_stays_exact() -> str:
    rank = rank_of(_small())
    return (
        f"A block takes {rank.bytes_per_block:,} bytes in the plan and in the start, "
        "because that follows from the model and its number format. How many blocks "
        "there are follows from what is left, and what is left depends on everything "
        "else in the process: libraries, compiled code, packed copies. Those are "
        f"estimated, and they took {format_gib(_logged('consumed_gib'))} instead of "
        f"{format_gib(_requested() - rank.available_kv_cache_bytes)}. So I trust "
        "weights and bytes per token to the byte, and plan with the low end of the "
        "range for the rest."
    )


QUESTION = OpenQuestion(
    asked="The plan and the start differ. Which figures of a plan would you rely on to "
    "the byte, which not, and why?",
    expert=_what_stays_exact,
    points=(
        "weights and the bytes of a token follow from the model",
        "what is left for the cache is an estimate with a range",
        "a difference has a line that it comes from",
    ),
)

SLIPS: tuple[Mistake, ...] = (
    Mistake(
        lambda: _requested() - _weights(),
        "vLLM's share minus the weights. You forgot the process itself, the "
        "packed copies of embeddings and head, and what compiling leaves.",
    ),
    Mistake(_requested, "that is all that vLLM may take. The weights are part of it."),
    Mistake(
        lambda: _total() - _requested() + rank_of(_small()).available_kv_cache_bytes,
        "you forgot that vLLM may take only 0.3 of the computer.",
    ),
    Mistake(
        lambda: _total() - _weights(),
        "the whole computer minus the weights. vLLM may take 0.3 of it.",
    ),
)
"""Figures of the prediction that a forgotten step gives."""

EXERCISES: tuple[Exercise, ...] = (
    BEFORE_IT_STARTS,
    READ_THE_LOG,
    EXPLAIN_THE_DIFFERENCE,
    THE_ONE_IT_MISSED,
    MAKE_ROOM,
)
