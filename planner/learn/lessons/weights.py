"""Lesson 2: weights, their number formats, and several GPUs."""

from __future__ import annotations

from math import ceil

from planner.learn.account import line_of, part_bytes, rank_of, why
from planner.learn.catalogue import checkpoint
from planner.learn.display import Shown
from planner.learn.exercise import Exercise
from planner.learn.explanation import OpenQuestion
from planner.learn.parts import (
    Choice,
    Mistake,
    Number,
    Size,
    holds,
    made_plan,
    of_model,
    on_cards,
    takes,
)
from planner.planning.planning import plan
from planner.planning.result import Plan
from planner.units import format_gib

_LENGTH, _AT_ONCE = 8192, 4
_LARGER, _LARGEST = "Qwen/Qwen3-14B", "Qwen/Qwen3-32B"


def _desk() -> Plan:
    return checkpoint(2)


def _largest() -> Plan:
    return _desk().changed(model=_LARGEST)


def _weights(planned: Plan) -> int:
    """Return the line of the account, which the allocator has rounded."""
    return line_of(planned, "weights").size_bytes


def _budgets() -> float:
    return _weights(_largest()) / rank_of(_desk()).requested_memory_bytes


def _cards() -> int:
    return ceil(_budgets())


FROM_PARAMETERS_TO_BYTES = Exercise(
    name="2.1",
    title="From parameters to bytes",
    minutes=3,
    parts=(
        Size(
            name="weights",
            expected=lambda: _weights(_largest()),
            needs_its_unit=True,
            mistakes=(
                Mistake(
                    lambda: _weights(_largest()) * 8,
                    "bfloat16 has 16 bits, and 8 bits are one byte.",
                ),
                Mistake(
                    lambda: _weights(_largest()) * 2,
                    "That is 4 bytes for each parameter, as in float32.",
                ),
                Mistake(
                    lambda: _weights(_largest()) // 2,
                    "That is 1 byte for each parameter, as in fp8. bfloat16 is larger.",
                ),
            ),
        ),
        Number(
            name="cards",
            expected=_cards,
            mistakes=(
                Mistake(
                    lambda: _cards() - 1,
                    "Divide GiB by GiB: the 24 GB of the box are 22.03 GiB, of "
                    "which vLLM may use 20.27. Then round up.",
                ),
                Mistake(lambda: round(_budgets(), 2), "Cards come whole."),
                Mistake(lambda: 1, "One card holds less than a third of it."),
            ),
        ),
    ),
    hints=(
        "bfloat16 takes 16 bits: how many bytes is that?",
        "32.8 billion parameters x 2 bytes. Write GB or GiB behind your number.",
        "cards: your size / desk.limiting_rank.requested_memory_bytes, rounded up.",
    ),
    solved=lambda: Shown(
        text=f"{_weights(_largest()) // 2:,} parameters x 2 bytes = "
        f"{_weights(_largest()):,} bytes = {format_gib(_weights(_largest()))}.\n"
        f"{format_gib(_weights(_largest()))} / "
        f"{format_gib(rank_of(_desk()).requested_memory_bytes)} that vLLM may use of "
        f"an L4 = {_budgets():.2f}, so {_cards()} cards.",
    ),
)


def _fp8() -> Plan:
    return _desk().changed(quantization="fp8")


HALF_THE_BYTES = Exercise(
    name="2.2",
    title="Half the bytes?",
    parts=(
        Size(
            name="weights",
            expected=lambda: _weights(_fp8()),
            mistakes=(
                Mistake(
                    lambda: _weights(_desk()) // 2,
                    "That is half of everything. Some parts keep their 2 bytes.",
                ),
                Mistake(
                    lambda: _weights(_desk()), "That is the size without quantization."
                ),
                Mistake(
                    lambda: _weights(_desk()) // 4,
                    "8 bits instead of 16 is half, not a quarter.",
                ),
            ),
        ),
        Choice(
            name="stays",
            options={
                "a": "nothing, every part is halved",
                "b": "attention",
                "c": "the embeddings and the head (lm_head)",
                "d": "the mlp",
            },
            expected="c",
            says={
                "a": "Compare the parts of both plans. Two large ones are unchanged.",
                "b": "Attention is made of large matrices, which fp8 is for.",
                "d": "The mlp is made of large matrices, which fp8 is for.",
            },
        ),
    ),
    hints=(
        "desk.changed(quantization='fp8') plans it. Look at the line of the weights.",
        "Compare the parts: embeddings, attention, mlp, norms, lm_head.",
        "Halve attention and mlp, and leave embeddings and lm_head as they are.",
    ),
    solved=lambda: Shown(
        title="Solution: c",
        text=f"{why(_desk(), 'weights')}\nWith fp8, {why(_fp8(), 'weights')}",
    ),
)


def _pair() -> Plan:
    return _desk().changed(model=_LARGER, tensor_parallel_size=2)


def _alone() -> Plan:
    return _desk().changed(model=_LARGER)


TWO_CARDS = Exercise(
    name="2.3",
    title="Two cards",
    parts=(
        Size(
            name="each_card",
            expected=lambda: _weights(_pair()),
            mistakes=(
                Mistake(
                    lambda: _weights(_alone()),
                    "That is the whole model. Each card holds its share.",
                ),
                Mistake(
                    lambda: _weights(_alone()) * 2,
                    "Tensor parallelism splits the model; it does not copy it.",
                ),
                Mistake(
                    lambda: _weights(_alone()) // 4,
                    "Two cards take half each, not a quarter.",
                ),
            ),
        ),
        Choice(
            name="copied",
            options={
                "a": "attention",
                "b": "the mlp",
                "c": "the norms",
                "d": "the embeddings",
            },
            expected="c",
            says={
                "a": "Attention is split by heads.",
                "b": "The mlp is split by columns and rows.",
                "d": "The embeddings are split by tokens of the vocabulary.",
            },
        ),
    ),
    hints=(
        "Plan Qwen/Qwen3-14B with tensor_parallel_size=2; the lines are for one card.",
        "Which part has the same size with one card and with two?",
        "Nearly half of the whole model, and a little more: small parts are copied.",
    ),
    solved=lambda: Shown(
        title="Solution: c",
        text=f"One card, {why(_alone(), 'weights')}\nEach of two cards, "
        f"{why(_pair(), 'weights')}\nThe norms take "
        f"{part_bytes(_alone(), 'norms'):,} bytes on one card, and "
        f"{part_bytes(_pair(), 'norms'):,} on each of two.",
    ),
)


def _answer() -> Plan:
    return plan(_LARGER, gpu="L4", tensor_parallel_size=2, max_model_len=_LENGTH)


A_LARGER_MODEL = Exercise(
    name="2.4",
    title="A larger model",
    minutes=3,
    parts=(
        made_plan(
            of_model(_LARGER),
            on_cards("L4", most=2),
            takes(_LENGTH),
            holds(_AT_ONCE, _LENGTH),
            example=_answer,
        ),
    ),
    hints=(
        "Start from desk.changed(model='Qwen/Qwen3-14B'), which does not start.",
        "Fewer bytes for each weight, more cards, or both.",
        "tensor_parallel_size=2 uses two cards as one.",
    ),
    solved=lambda: Shown(
        text=f"Two cards leave {format_gib(line_of(_answer(), 'KV cache').size_bytes)} "
        f"each for the KV cache, which is {_answer().kv_cache_size_tokens:,} tokens.",
        code=_answer().command(),
    ),
)


def _what_fp8_halves() -> str:
    kept = part_bytes(_desk(), "embeddings") + part_bytes(_desk(), "lm_head")
    return (
        f"FP8 halves the large matrices of the layers, from 16 bits to 8. Embeddings "
        f"and head keep their size, here {format_gib(kept)} together, and so do the "
        f"norms. So {format_gib(_weights(_desk()))} become "
        f"{format_gib(_weights(_fp8()))}, which is more than half. The smaller the "
        "model, the larger the share of its vocabulary, and the less FP8 saves."
    )


QUESTION = OpenQuestion(
    asked='Your colleague says: "FP8 halves the model." What do you answer?',
    expert=_what_fp8_halves,
    points=(
        "the large matrices of the layers are halved",
        "embeddings, head and norms are not",
        "so the model is smaller by less than half",
    ),
)

SLIPS: tuple[Mistake, ...] = (
    Mistake(
        lambda: _weights(_alone()) / 2,
        "one byte for each parameter. bfloat16 has 16 bits, which are two.",
    ),
    Mistake(
        lambda: _weights(_alone()) * 2, "four bytes for each parameter, as in float32."
    ),
    Mistake(lambda: _weights(_alone()) * 8, "bits. Eight of them are a byte."),
    Mistake(lambda: _weights(_desk()), "that is the smaller model."),
)
"""Figures of the prediction that a forgotten step gives."""

EXERCISES: tuple[Exercise, ...] = (
    FROM_PARAMETERS_TO_BYTES,
    HALF_THE_BYTES,
    TWO_CARDS,
    A_LARGER_MODEL,
)
