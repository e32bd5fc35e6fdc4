"""Lesson 4: activations, sampler, CUDA graphs, utilization, and out of memory."""

from __future__ import annotations

from planner.learn.account import line_of, message_of, rank_of, why
from planner.learn.catalogue import checkpoint
from planner.learn.display import Shown
from planner.learn.exercise import Exercise
from planner.learn.explanation import OpenQuestion
from planner.learn.parts import (
    Choice,
    Mistake,
    Size,
    holds,
    keeps,
    made_plan,
    of_model,
    on_cards,
    takes,
)
from planner.planning.planning import plan
from planner.planning.result import Plan
from planner.units import format_gib

_FEWER = 64
_LENGTH, _TOKENS_AT_ONCE = 8192, 28_672
_HIGHER = 0.95


def _desk() -> Plan:
    return checkpoint(4)


def _kv_cache(planned: Plan) -> int:
    return rank_of(planned).available_kv_cache_bytes


def _higher() -> Plan:
    return _desk().changed(gpu_memory_utilization=_HIGHER)


def _gained() -> int:
    return _kv_cache(_higher()) - _kv_cache(_desk())


def _share() -> float:
    resolved = _desk().resolved
    return 0.0 if resolved is None else resolved.gpu_memory_utilization


WHAT_IS_ALLOWED = Exercise(
    name="4.1",
    title="What is allowed",
    parts=(
        Choice(
            name="meaning",
            options={
                "a": "the GPU computes 92 % of the time",
                "b": "92 % of the card becomes KV cache",
                "c": "vLLM may take up to 92 % of the card, and the KV cache gets what "
                "is left of that",
                "d": "vLLM takes 92 % of what other programs leave free",
            },
            expected="c",
            says={
                "a": "It is about memory, not about time.",
                "b": "Weights, buffers, activations and graphs come out of it first.",
                "d": "It is a share of the whole card. If less is free, vLLM does not "
                "start.",
            },
        ),
        Size(
            name="gained",
            expected=_gained,
            needs_its_unit=True,
            mistakes=(
                Mistake(
                    lambda: round(_kv_cache(_desk()) * (_HIGHER - _share())),
                    "That is a share of the KV cache. The setting is one of the card.",
                ),
                Mistake(
                    lambda: round(
                        rank_of(_desk()).requested_memory_bytes * (_HIGHER - _share())
                    ),
                    "That is a share of what vLLM requests now. The setting is "
                    "one of the whole card.",
                ),
                Mistake(
                    lambda: _kv_cache(_higher()),
                    "That is the whole KV cache with 0.95. How much is new?",
                ),
                Mistake(
                    lambda: rank_of(_higher()).requested_memory_bytes,
                    "That is all that vLLM requests. How much more than before?",
                ),
            ),
        ),
    ),
    hints=(
        "The other lines do not change: all that is new goes to the KV cache.",
        "0.95 - 0.92 = 0.03 of the whole card.",
        "0.03 x desk.gpu.total_memory_bytes",
    ),
    solved=lambda: Shown(
        title="Solution: c",
        text=f"({_HIGHER} - {_share()}) x {format_gib(_desk().gpu.total_memory_bytes)} "
        f"= {format_gib(_gained())}.\nWith {_HIGHER}, {why(_higher(), 'KV cache')}",
    ),
)


def _fewer() -> Plan:
    return _desk().changed(max_num_seqs=_FEWER)


def _buffers(planned: Plan) -> int:
    return line_of(planned, "persistent buffers").size_bytes


def _sequences() -> int:
    resolved = _desk().resolved
    return 1 if resolved is None else resolved.max_num_seqs


FEWER_AT_ONCE = Exercise(
    name="4.2",
    title="Fewer at once",
    parts=(
        Size(
            name="buffers",
            expected=lambda: _buffers(_fewer()),
            mistakes=(
                Mistake(
                    lambda: _buffers(_desk()),
                    "That is the line for the default number of requests.",
                ),
                Mistake(
                    lambda: _buffers(_desk()) // _sequences(),
                    "That is the share of one request. There are still 64.",
                ),
                Mistake(lambda: _buffers(_fewer()) * 8, "Bits are not bytes."),
            ),
        ),
        Choice(
            name="price",
            options={
                "a": "answers get worse",
                "b": "the 65th request waits until another one has finished",
                "c": "requests must be shorter",
                "d": "there is none, and vLLM should do it by itself",
            },
            expected="b",
            says={
                "a": "The model computes the same.",
                "c": "max_model_len does not change.",
                "d": "A desk with many short questions works on more than 64 at once.",
            },
        ),
    ),
    hints=(
        "The line's arithmetic has max_num_seqs as a factor.",
        "64 instead of 256: a quarter.",
        'desk.changed(max_num_seqs=64).limiting_rank.line("persistent buffers")',
    ),
    solved=lambda: Shown(
        title="Solution: b",
        text=f"By default, {why(_desk(), 'persistent buffers')}\nWith max_num_seqs="
        f"{_FEWER}, {why(_fewer(), 'persistent buffers')}\n"
        "The sampler works on fewer rows as well, so the peak is smaller. "
        f"Now, {why(_fewer(), 'peak activation')}",
    ),
)

_CURES = {
    "a": "a smaller max_model_len",
    "b": "fewer bytes for each weight, a smaller model, or more GPUs",
    "c": "a higher gpu_memory_utilization",
    "d": "a lower gpu_memory_utilization, or stop the other programs on the card",
}
_REPLIES = {
    "a": "The length is not the problem here.",
    "b": "The weights are not the problem here. Try what costs nothing first.",
    "c": "The card has little left to give.",
    "d": "A smaller budget leaves even less room.",
}


def _failing() -> dict[str, Plan]:
    desk = _desk()
    return {
        "larger_model": desk.changed(model="Qwen/Qwen3-14B"),
        "low_share": desk.changed(gpu_memory_utilization=0.7),
        "full_length": desk.changed(max_model_len=None),
        "high_share": desk.changed(gpu_memory_utilization=1.0),
    }


FOUR_WAYS_TO_FAIL = Exercise(
    name="4.3",
    title="Four ways to fail",
    minutes=3,
    parts=(
        Choice(name="larger_model", options=_CURES, expected="b", says=_REPLIES),
        Choice(name="low_share", options=_CURES, expected="c", says=_REPLIES),
        Choice(name="full_length", options=_CURES, expected="a", says=_REPLIES),
        Choice(name="high_share", options=_CURES, expected="d", says=_REPLIES),
    ),
    hints=(
        "Ask which is too small for each message: the card, the budget or the cache.",
        "CUDA out of memory while loading: the weights alone are too large.",
        "No available memory for the cache blocks: the budget ends before the cache.",
    ),
    solved=lambda: Shown(
        title="Solution: b, c, a, d",
        text="\n".join(
            f"{name}: {message_of(failed)}" for name, failed in _failing().items()
        ),
    ),
)


def _answer() -> Plan:
    return plan("Qwen/Qwen3-8B", gpu="L4", max_model_len=_LENGTH, max_num_seqs=_FEWER)


MORE_WITHOUT_LOSS = Exercise(
    name="4.4",
    title="More room, same answers",
    minutes=3,
    parts=(
        made_plan(
            of_model("Qwen/Qwen3-8B"),
            on_cards("L4"),
            takes(_LENGTH),
            holds(1, _TOKENS_AT_ONCE),
            keeps("quantization", None, "leave the weights as they are"),
            keeps("kv_cache_dtype", "auto", "leave the KV cache's dtype as it is"),
            keeps("enforce_eager", False, "keep its CUDA graphs"),
            example=_answer,
        ),
    ),
    hints=(
        "Weights, KV cache dtype and graphs stay. Which lines are left to shrink?",
        "Two lines grow with max_num_seqs, and so does the number of graphs.",
        "Try max_num_seqs=64, then less.",
    ),
    solved=lambda: Shown(
        text=f"{why(_answer(), 'KV cache')}\nThat is "
        f"{_answer().kv_cache_size_tokens:,} tokens instead of "
        f"{_desk().kv_cache_size_tokens:,}.",
        code=_answer().command(),
    ),
)


def _why_full() -> str:
    rank = rank_of(_desk())
    return (
        f"gpu_memory_utilization={_share()} lets vLLM take "
        f"{format_gib(rank.requested_memory_bytes)} of the card, and it takes all of "
        f"it at the start: {format_gib(_kv_cache(_desk()))} are KV cache that is "
        "allocated before the first request, so that no request can fail for want of "
        "memory later. nvidia-smi shows what is allocated, not what is in use. A leak "
        "would grow from hour to hour; this does not change."
    )


QUESTION = OpenQuestion(
    asked="nvidia-smi shows a full card, and no request has arrived. Why is that not "
    "a leak?",
    expert=_why_full,
    points=(
        "vLLM takes its share at the start",
        "the KV cache fills what is left of the share",
        "nvidia-smi shows what is allocated, not what is used",
    ),
)

SLIPS: tuple[Mistake, ...] = (
    Mistake(
        lambda: line_of(_desk(), "peak activation").size_bytes,
        "that is the peak activation, the second largest of them.",
    ),
    Mistake(lambda: _between(), "that is all of the lines between them together."),
    Mistake(
        lambda: _between() + _kv_cache(_desk()),
        "that is everything beside the weights, the KV cache included.",
    ),
)
"""Figures of the prediction that a forgotten step gives."""


def _between() -> int:
    rank = rank_of(_desk())
    weights = line_of(_desk(), "weights").size_bytes
    return rank.requested_memory_bytes - weights - _kv_cache(_desk())


EXERCISES: tuple[Exercise, ...] = (
    WHAT_IS_ALLOWED,
    FEWER_AT_ONCE,
    FOUR_WAYS_TO_FAIL,
    MORE_WITHOUT_LOSS,
)
