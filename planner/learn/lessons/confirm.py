"""Lesson 5: predict, run vLLM, explain the difference."""

from __future__ import annotations

from functools import cache

from planner.confirming.measurement import Measurement
from planner.learn.account import line_of, rank_of, recorded, why
from planner.learn.catalogue import checkpoint
from planner.learn.display import Shown
from planner.learn.exercise import Exercise
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
    minutes=2,
    parts=(
        Size(
            name="weights",
            expected=_weights,
            mistakes=(
                Mistake(
                    value=lambda: _weights() // 2,
                    says="That is 2 bytes for each parameter. This start uses float32.",
                ),
                Mistake(
                    value=lambda: _weights() * 8,
                    says="float32 has 32 bits, which are 4 bytes.",
                ),
            ),
        ),
        Size(
            name="requested",
            expected=_requested,
            mistakes=(
                Mistake(
                    value=_total,
                    says="That is the memory of the whole machine. This start may use "
                    "a share of it.",
                ),
                Mistake(
                    value=lambda: round(_total() * 0.92),
                    says="0.92 is vLLM's default. This start sets another value.",
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
        title="Solution",
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
    minutes=2,
    parts=(
        Size(
            name="kv_cache",
            expected=lambda: _logged("available_kv_gib"),
            tolerance=0.005,
            mistakes=(
                Mistake(
                    value=lambda: rank_of(_small()).available_kv_cache_bytes,
                    says="That is the estimate. The log says what vLLM measured.",
                ),
                Mistake(
                    value=lambda: _logged("consumed_gib"),
                    says="That is what everything except the KV cache takes.",
                ),
                Mistake(
                    value=lambda: _logged("requested_gib"),
                    says="That is what vLLM requested in total.",
                ),
            ),
        ),
        Number(
            name="tokens",
            expected=lambda: _figure("kv_tokens"),
            mistakes=(
                Mistake(
                    value=lambda: _small().kv_cache_size_tokens,
                    says="That is the estimate. The log says what vLLM measured.",
                ),
                Mistake(
                    value=lambda: _figure("max_concurrency_len"),
                    says="That is the length of one request.",
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
    minutes=2,
    parts=(
        Number(
            name="blocks",
            expected=_measured_blocks,
            mistakes=(
                Mistake(
                    value=lambda: _small().num_gpu_blocks,
                    says="That is the plan's number. How many did vLLM have?",
                ),
                Mistake(
                    value=lambda: int(_figure("kv_tokens")) // 16,
                    says="16 tokens are a block on most GPUs. On a processor a block "
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


def _answer() -> Plan:
    return _small().changed(max_model_len=_LENGTH, gpu_memory_utilization=0.36)


MAKE_ROOM = Exercise(
    name="5.4",
    title="Make room for a test",
    minutes=3,
    parts=(
        made_plan(
            of_model("Qwen/Qwen3-0.6B"),
            Condition(
                text="be for the machine of the recorded run",
                is_met=lambda plan: plan.gpu.total_memory_bytes == _total(),
            ),
            Condition(
                text=f"leave gpu_memory_utilization at {_MOST} or below",
                is_met=lambda plan: (
                    plan.resolved is not None
                    and plan.resolved.gpu_memory_utilization <= _MOST
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
        title="Solution",
        text=f"{why(_answer(), 'KV cache')}\nThat is "
        f"{_answer().kv_cache_size_tokens:,} tokens.",
        code=_answer().command(),
    ),
)

EXERCISES: tuple[Exercise, ...] = (
    BEFORE_IT_STARTS,
    READ_THE_LOG,
    EXPLAIN_THE_DIFFERENCE,
    MAKE_ROOM,
)
