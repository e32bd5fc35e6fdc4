"""Lesson 3: the KV cache: bytes of a token, blocks, and models that keep less."""

from __future__ import annotations

from planner.errors import PlannerError
from planner.learn.account import rank_of, token_bytes, why
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
from planner.models.architecture import ModelArchitecture
from planner.planning.planning import plan
from planner.planning.result import Plan
from planner.units import format_gib, format_size

_QUESTION = 1000
_LONG, _AT_ONCE = 16_384, 6


def _desk() -> Plan:
    return checkpoint(3)


def _model() -> ModelArchitecture:
    found = _desk().model
    if found is None:
        raise PlannerError("The help desk's model was not read.")
    return found


def _token() -> int:
    return token_bytes(_desk())


def _layers() -> int:
    return sum(group.num_layers for group in _desk().kv_groups)


def _heads_ratio() -> int:
    return _model().num_attention_heads // _model().num_kv_heads


def _token_sum() -> str:
    return (
        f"{_layers()} layers x {_model().num_kv_heads} KV heads x "
        f"{_model().head_size} numbers x 2 (keys and values) x 2 bytes = "
        f"{_token():,} bytes = {format_size(_token())} for each token"
    )


BYTES_OF_A_TOKEN = Exercise(
    name="3.1",
    title="The bytes of one token",
    minutes=3,
    parts=(
        Size(
            name="token",
            expected=_token,
            tolerance=0.01,
            mistakes=(
                Mistake(
                    lambda: _token() * _heads_ratio(),
                    "You counted all attention heads. Several of them share one "
                    "KV head, and only KV heads are stored.",
                ),
                Mistake(
                    lambda: _token() // _layers(),
                    "That is one layer. Each layer stores its own.",
                ),
                Mistake(
                    lambda: _token() // 2,
                    "Both keys and values are stored, and each number takes 2 "
                    "bytes. One of these factors of 2 is missing.",
                ),
                Mistake(lambda: _token() * 8, "16 bits are 2 bytes."),
                Mistake(lambda: _token() * 16, "That is a whole block of 16 tokens."),
            ),
        ),
    ),
    hints=(
        "Each layer stores one key and one value for each KV head.",
        "Five factors: layers, KV heads, numbers in a head, keys and values, bytes.",
        "36 x 8 x 128 x 2 x ...",
    ),
    solved=lambda: Shown(title="Solution", text=f"{_token_sum()}."),
)


def _block_size() -> int:
    return _desk().kv_groups[0].block_size


def _blocks() -> int:
    return -(-_QUESTION // _block_size())


BLOCKS = Exercise(
    name="3.2",
    title="Blocks",
    parts=(
        Number(
            name="blocks",
            expected=_blocks,
            mistakes=(
                Mistake(
                    lambda: _QUESTION / _block_size(),
                    ("vLLM allocates whole blocks: the last one may be partly empty."),
                ),
                Mistake(
                    lambda: _QUESTION // _block_size(),
                    "The last tokens need a block as well.",
                ),
                Mistake(
                    lambda: _desk().blocks_per_request,
                    "That is a request of the full max_model_len. vLLM allocates "
                    "blocks for the tokens that exist.",
                ),
                Mistake(lambda: _QUESTION, "A block holds several tokens."),
            ),
        ),
        Choice(
            name="start",
            options={
                "a": "vLLM allocates blocks only for tokens that exist; a request "
                "that finds none waits",
                "b": "vLLM stores what does not fit in the computer's memory",
                "c": "vLLM shortens the requests until they fit",
                "d": "it does not start",
            },
            expected="a",
            says={
                "b": "Only with an offloading argument, and none is set here.",
                "c": "Requests keep their length.",
                "d": "It did: one request fits, and that is all vLLM requires.",
            },
        ),
    ),
    hints=(
        "desk.kv_groups says how many tokens a block holds.",
        "1,000 tokens / 16 tokens, rounded up.",
        "start: vLLM checks that one request fits, and reserves nothing for others.",
    ),
    solved=lambda: Shown(
        title="Solution: a",
        text=f"{_QUESTION:,} tokens / {_block_size()} in a block, rounded up = "
        f"{_blocks()} blocks, of {_desk().num_gpu_blocks:,}.\n"
        f"A request of {_desk().blocks_per_request * _block_size():,} tokens takes "
        f"{_desk().blocks_per_request} blocks once it is that long, and not before.",
    ),
)

_WAYS = {
    "a": "most layers keep only the most recent tokens (a window)",
    "b": "each layer stores one small vector for each token, shared by all heads",
    "c": "most layers keep one state of fixed size, whatever the length",
}
_REPLIES = {
    "a": "A window is called SlidingWindowSpec in kv_groups.",
    "b": "Latent attention is called MLAAttentionSpec in kv_groups.",
    "c": "A state is called MambaSpec in kv_groups.",
}


LENGTH = 32_768
MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "google/gemma-3-12b-it",
    "deepseek-ai/DeepSeek-V3",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
)
"""The measure, which stores every token in every layer, and three that store less."""


def _kinds(name: str) -> str:
    planned = _desk().changed(model=name, max_model_len=LENGTH)
    kinds = ", ".join(sorted({group.kind for group in planned.kv_groups}))
    return (
        f"{name}: {kinds}; a request of {LENGTH:,} tokens takes "
        f"{format_gib(planned.needed_kv_cache_bytes)}."
    )


THREE_MODELS = Exercise(
    name="3.3",
    title="Three models that store less",
    parts=(
        Choice(name="gemma", options=_WAYS, expected="a", says=_REPLIES),
        Choice(name="deepseek", options=_WAYS, expected="b", says=_REPLIES),
        Choice(name="qwen_next", options=_WAYS, expected="c", says=_REPLIES),
    ),
    hints=(
        "kv_groups names the kind of each group of layers.",
        "FullAttentionSpec keeps every token. The other names say what is stored.",
        "MLA is latent attention, Mamba is a state, SlidingWindow is a window.",
    ),
    solved=lambda: Shown(
        title="Solution: gemma a, deepseek b, qwen_next c",
        text="\n".join(map(_kinds, MODELS)),
    ),
)


def _answer() -> Plan:
    return plan(
        "Qwen/Qwen3-8B",
        gpu="L4",
        max_model_len=_LONG,
        quantization="fp8",
        kv_cache_dtype="fp8",
    )


LONG_DOCUMENTS = Exercise(
    name="3.4",
    title="Long documents",
    minutes=3,
    parts=(
        made_plan(
            of_model("Qwen/Qwen3-8B"),
            on_cards("L4"),
            takes(_LONG),
            holds(_AT_ONCE, _LONG),
            example=_answer,
        ),
    ),
    hints=(
        "6 x 16,384 tokens are 98,304 tokens. How many does the desk hold now?",
        "Two things decide: the bytes of a token, and the bytes left for the cache.",
        "kv_cache_dtype makes a token smaller; quantization leaves more room.",
    ),
    solved=lambda: Shown(
        text=f"{why(_answer(), 'KV cache')}\n"
        f"{rank_of(_answer()).available_kv_cache_bytes:,} bytes / "
        f"{token_bytes(_answer()):,} bytes for each token = "
        f"{_answer().kv_cache_size_tokens:,} tokens in whole blocks.",
        code=_answer().command(),
    ),
)


def _why_it_starts() -> str:
    resolved = _desk().resolved
    most = 0 if resolved is None else resolved.max_num_seqs
    return (
        f"max_num_seqs={most} is a limit, not a reservation. vLLM checks that one "
        f"request of {_desk().blocks_per_request} blocks fits into the "
        f"{_desk().num_gpu_blocks:,} that it has, and starts. After that it allocates "
        f"a block for every {_block_size()} tokens that really exist. Most visitors "
        "write little, so more of them fit than the longest ones would allow. When no "
        "block is free, new requests wait, and a running one may be preempted: its "
        "blocks are freed, and it is computed again later."
    )


QUESTION = OpenQuestion(
    asked="All requests together could need about eighty times what the cache "
    "holds. Why does vLLM start, and what happens when they all come?",
    expert=_why_it_starts,
    points=(
        "one request has to fit, and that is all",
        "blocks are allocated for tokens that exist",
        "without a free block, requests wait or are preempted",
    ),
)


def _tokens() -> float:
    return float(_desk().kv_cache_size_tokens)


SLIPS: tuple[Mistake, ...] = (
    Mistake(
        lambda: _tokens() / _heads_ratio(),
        "all attention heads are counted. Only KV heads are stored.",
    ),
    Mistake(
        lambda: _tokens() * 2,
        "a factor of 2 is missing: keys and values, or two bytes of a number.",
    ),
    Mistake(
        lambda: _tokens() * _layers(),
        "one layer alone. Each layer stores its own keys and values.",
    ),
    Mistake(lambda: _tokens() / _block_size(), "blocks. Each holds several tokens."),
    Mistake(lambda: 8192.0, "that is one request. The cache holds more than one."),
)
"""Figures of the prediction that a forgotten step gives."""

EXERCISES: tuple[Exercise, ...] = (
    BYTES_OF_A_TOKEN,
    BLOCKS,
    THREE_MODELS,
    LONG_DOCUMENTS,
)
