"""Each figure that people wrote into the workshop, and what computes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from planner import learn
from planner.engine.dtypes import ELEMENT_BYTES
from planner.learn import debugging
from planner.learn.account import line_of, rank_of, token_bytes
from planner.learn.catalogue import LESSONS
from planner.learn.lesson import figures
from planner.learn.lessons import (
    at_night,
    capacity_plan,
    confirm,
    kv_cache,
    rest_of_the_budget,
    weights,
    where_memory_goes,
)
from planner.planning.result import Plan
from planner.units import GIB, KIB, format_gib
from tools import notebooks

Computed = Mapping[str, Callable[[], str]]

DESK = learn.checkpoint(1)
SMALL = learn.checkpoint(5)
CITY = learn.checkpoint(6)
FP8_CACHE = DESK.changed(kv_cache_dtype="fp8")
LARGER = DESK.changed(model="Qwen/Qwen3-14B")
LARGEST = DESK.changed(model="Qwen/Qwen3-32B")
PAIR = LARGER.changed(tensor_parallel_size=2)
VISITORS = capacity_plan.VISITORS
NIGHT = figures("at_night")


def _as_sold() -> float:
    """Return the GB of the box: the memory on the card, before what it keeps."""
    return (DESK.gpu.nvml_memory_bytes or 0) / 1e9


def _files() -> float:
    """Return the GB of the model's files, which hold all parts but the buffers."""
    return _parameters(DESK) * ELEMENT_BYTES["bfloat16"] / 1e9


def _parameters(plan: Plan) -> float:
    held = rank_of(plan).weight_parts
    kept = sum(part.size_bytes for part in held if part.name != "buffers")
    return kept / ELEMENT_BYTES["bfloat16"]


def _parameters_named(model: str) -> float:
    """Return the billions of parameters of a model whose matrices are in fp8."""
    return (
        sum(
            part.size_bytes
            for part in rank_of(DESK.changed(model=model)).weight_parts
            if part.name != "buffers"
        )
        / 1e9
    )


def _of_llama() -> float:
    """Return the billions of parameters of the model that lesson 3 measures by."""
    return _parameters(DESK.changed(model="meta-llama/Llama-3.1-8B-Instruct")) / 1e9


def _billions(plan: Plan, decimals: int = 1) -> str:
    return f"{_parameters(plan) / 1e9:.{decimals}f} billion parameters"


def _bits(dtype: str) -> str:
    return f"{8 * ELEMENT_BYTES[dtype]} bits"


def _tokens(number: float) -> str:
    return f"{number:,.0f} tokens"


def _setting(plan: Plan, name: str) -> float:
    return float(getattr(plan.resolved, name))


def _example(text: str, exercise: str, part: str) -> str:
    """Return an example of how to write an answer; it must not be the answer."""
    judged = learn.exercise(exercise).check(**{part: text}).judgements[part]
    return text if judged.state != "right" else "the answer itself"


def _divisors(most: int) -> str:
    """Return the numbers of cards, doubled each time, that share the heads evenly."""
    found = [
        cards
        for cards in range(2, most + 1)
        if LARGER.changed(tensor_parallel_size=cards).error is None
    ]
    *others, last = found
    return f"{', '.join(str(one) for one in others)} or {last} cards"


def _typed(lesson: int, setting: str, at_least: int = 0) -> int:
    """Return the number that a lesson's code gives a setting: one of that size."""
    (path,) = notebooks.LESSONS.glob(f"{lesson}_*.py")
    typed = re.findall(rf"\b{setting}=([\d_]+)", path.read_text("utf-8"))
    (found,) = {int(one) for one in typed if int(one) >= at_least}
    return found


def _model(name: str) -> int:
    return int(getattr(DESK.model, name))


def _between() -> int:
    """Return the bytes of the lines between the weights and the KV cache."""
    return sum(line_of(DESK, name).size_bytes for name in where_memory_goes._BETWEEN)


def _left(plan: Plan) -> int:
    return rank_of(plan).available_kv_cache_bytes


def _if_all_were_stored(model: str) -> float:
    """Return the bytes of lesson 3's request, if no layer had a window."""
    length = _typed(3, "max_model_len", at_least=20_000)
    groups = DESK.changed(model=model, max_model_len=length).kv_groups
    return sum(
        group.num_layers * group.page_size_bytes / group.block_size for group in groups
    ) * float(length)


def _all_at_full_length() -> float:
    requests = _setting(DESK, "max_num_seqs")
    return requests * _setting(DESK, "max_model_len") * token_bytes(DESK)


def _num_factors() -> int:
    """Return how many factors the arithmetic of a token has."""
    return learn.exercise("3.1").solution().text.split("=")[0].count(" x ") + 1


def _difference() -> float:
    """Return the bytes by which the recorded start differs from its plan."""
    rows = {row.name: row for row in learn.recorded().compare().rows}
    return float(rows["KV cache"].difference or 0)


def _not_requested() -> str:
    """Return the share of a card that vLLM leaves by default."""
    return f"{1 - _setting(DESK, 'gpu_memory_utilization'):.0%}".replace("%", " %")


def _graphs_charged(version: str) -> bool:
    """Whether a release without an older runner takes graphs off its budget."""
    return line_of(DESK.changed(vllm_version=version), "CUDA graphs").size_bytes > 0


def _if_charged(words: str, charged: str, *others: str) -> str:
    """Return the words, if one release charges graphs and the others do not."""
    is_so = not charged or _graphs_charged(charged)
    return words if is_so and not any(map(_graphs_charged, others)) else "other words"


def _slid(lesson: int) -> tuple[float, ...]:
    """Return the values of a lesson's slider, as its code has them."""
    (path,) = notebooks.LESSONS.glob(f"{lesson}_*.py")
    (values,) = re.findall(r"values=\((.+?)\)", path.read_text("utf-8"))
    return tuple(float(one) for one in values.split(","))


def _fp8_at(length: int) -> Plan:
    return FP8_CACHE.changed(quantization="fp8", max_model_len=length)


_WORDS = {
    2: "two",
    4: "four",
    5: "five",
    6: "six",
    8: "eight",
    9: "nine",
    10: "ten",
    40: "forty",
}


def _words(number: float) -> str:
    return _WORDS[int(number)]


FIRST: Computed = {
    "8 %": _not_requested,
    "24 GB": lambda: f"{_as_sold():.0f} GB",
    "16": lambda: f"{line_of(DESK, 'weights').size_bytes / 1e9:.0f}",
    "16.4 GB": lambda: f"{_files():.1f} GB",
    "22.03 GiB": lambda: format_gib(DESK.gpu.total_memory_bytes),
    "0.92": lambda: f"{_setting(DESK, 'gpu_memory_utilization')}",
    "15.27 GiB": lambda: format_gib(line_of(DESK, "weights").size_bytes),
    "four smaller lines take 1.38 GiB": lambda: (
        f"{_words(len(where_memory_goes._BETWEEN))} smaller lines take "
        f"{format_gib(_between())}"
    ),
    "1.38 GiB": lambda: format_gib(_between()),
    "8,192": lambda: f"{_setting(DESK, 'max_model_len'):,.0f}",
    "8,192 tokens": lambda: _tokens(_setting(DESK, "max_model_len")),
    "12,000": lambda: f"{where_memory_goes._LONG:,}",
    "12000": lambda: f"{where_memory_goes._LONG}",
    "12,000 tokens": lambda: _tokens(where_memory_goes._LONG),
    "4096": lambda: f"{where_memory_goes._SHORT}",
    "4,096 tokens": lambda: _tokens(where_memory_goes._SHORT),
    "40,960 tokens": lambda: _tokens(_model("max_position_embeddings")),
    "5 GiB": lambda: _example("5 GiB", "1.1", "kv_cache"),
    "5.5 GiB": lambda: _example("5.5 GiB", "1.1", "kv_cache"),
}

SECOND: Computed = {
    "7 %": lambda: f"{GIB / 1e9 - 1:.0%}".replace("%", " %"),
    "14 billion parameters": lambda: (
        f"{int(_parameters(LARGER) / 1e9)} billion parameters"
    ),
    "14 GB": lambda: f"{int(_parameters(LARGER) / 1e9)} GB",
    "14.8 billion parameters": lambda: _billions(LARGER),
    "32.8 billion parameters": lambda: _billions(LARGEST),
    "24 GB": lambda: f"{_as_sold():.0f} GB",
    "48": lambda: f"{2 * _as_sold():.0f}",
    "20.27 GiB": lambda: format_gib(rank_of(DESK).requested_memory_bytes),
    "24": lambda: f"{_as_sold():.0f}",
    "22.03 GiB of an L4, of which vLLM may use 20.27.": lambda: (
        f"{format_gib(DESK.gpu.total_memory_bytes)} of an L4, of which vLLM may use "
        f"{format_gib(rank_of(DESK).requested_memory_bytes).split()[0]}."
    ),
    "16": lambda: _bits("bfloat16").split()[0],
    "16 bits": lambda: _bits("bfloat16"),
    "2 bytes": lambda: f"{ELEMENT_BYTES['bfloat16']} bytes",
    "4 bytes": lambda: f"{ELEMENT_BYTES['float32']} bytes",
    "8 bits": lambda: _bits("float8_e4m3fn"),
    "2, 4 or 8 cards": lambda: _divisors(8),
    "8,192 tokens": lambda: _tokens(weights._LENGTH),
    "less than a third": lambda: (
        f"{'less' if figures('weights')['budgets'] > 3 else 'more'} than a third"
    ),
    "two cards as one": lambda: (
        f"{_words(_setting(PAIR, 'tensor_parallel_size'))} cards as one"
    ),
}

THIRD: Computed = {
    "3.62 GiB": lambda: format_gib(_left(DESK)),
    "36": lambda: f"{DESK.kv_groups[0].num_layers}",
    "36 layers": lambda: f"{DESK.kv_groups[0].num_layers} layers",
    "32 attention heads": lambda: f"{_model('num_attention_heads')} attention heads",
    "8 KV heads": lambda: f"{_model('num_kv_heads')} KV heads",
    "128": lambda: f"{_model('head_size')}",
    "128 numbers": lambda: f"{_model('head_size')} numbers",
    "16 bits": lambda: _bits("bfloat16"),
    "2 bytes": lambda: f"{ELEMENT_BYTES['bfloat16']} bytes",
    "Five factors": lambda: f"{_words(_num_factors()).capitalize()} factors",
    "1,000 tokens": lambda: _tokens(kv_cache._QUESTION),
    "16 tokens": lambda: _tokens(DESK.kv_groups[0].block_size),
    "256": lambda: f"{_setting(DESK, 'max_num_seqs'):.0f}",
    "8,192 tokens": lambda: _tokens(_setting(DESK, "max_model_len")),
    "288 GiB": lambda: f"{_all_at_full_length() / GIB:.0f} GiB",
    "twice the tokens": lambda: (
        "twice the tokens"
        if 2 == round(FP8_CACHE.kv_cache_size_tokens / DESK.kv_cache_size_tokens, 2)
        else "other tokens"
    ),
    "32,768 tokens": lambda: _tokens(_typed(3, "max_model_len", at_least=20_000)),
    "4,096 tokens": lambda: f"{_slid(3)[2]:,.0f} tokens",
    "if four of 32,768 do": lambda: (
        f"if {_words(int(_fp8_at(32_768).max_concurrency))} of 32,768 do"
    ),
    "about eighty times": lambda: (
        "about eighty times"
        if 75 < _all_at_full_length() / _left(DESK) < 85
        else "many times"
    ),
    "DeepSeek-V3 has eighty times": lambda: (
        "DeepSeek-V3 has eighty times"
        if 80 == round(_parameters_named("deepseek-ai/DeepSeek-V3") / _of_llama(), -1)
        else "another number of times"
    ),
    "12 GiB": lambda: f"{_if_all_were_stored('google/gemma-3-12b-it') / GIB:.0f} GiB",
    "Six visitors": lambda: f"{_words(kv_cache._AT_ONCE).capitalize()} visitors",
    "16,384 tokens": lambda: _tokens(kv_cache._LONG),
    "98,304 tokens": lambda: _tokens(kv_cache._AT_ONCE * kv_cache._LONG),
}

FOURTH: Computed = {
    "20 GiB": lambda: f"{rank_of(DESK).requested_memory_bytes / GIB:.0f} GiB",
    "15.27 GiB": lambda: format_gib(line_of(DESK, "weights").size_bytes),
    "3.62 GiB": lambda: format_gib(_left(DESK)),
    "0.92": lambda: f"{_setting(DESK, 'gpu_memory_utilization')}",
    "92 %": lambda: f"{_setting(DESK, 'gpu_memory_utilization'):.0%}".replace(
        "%", " %"
    ),
    "0.95": lambda: f"{rest_of_the_budget._HIGHER}",
    "0.03": lambda: (
        f"{rest_of_the_budget._HIGHER - _setting(DESK, 'gpu_memory_utilization'):.2f}"
    ),
    "256": lambda: f"{_setting(DESK, 'max_num_seqs'):.0f}",
    "64": lambda: f"{rest_of_the_budget._FEWER}",
    "64 instead of 256: a quarter": lambda: (
        "64 instead of 256: a "
        f"{'quarter' if _setting(DESK, 'max_num_seqs') == 4 * 64 else 'part'}"
    ),
    "65th": lambda: f"{rest_of_the_budget._FEWER + 1}th",
    "8,192 tokens": lambda: _tokens(rest_of_the_budget._LENGTH),
    "28,672 tokens": lambda: _tokens(rest_of_the_budget._TOKENS_AT_ONCE),
    "There are ten": lambda: f"There are {_words(debugging.count())}",
    "the other nine starts": lambda: (
        f"the other {_words(debugging.count() - 1)} starts"
    ),
    "2.5 GiB": lambda: _example("2.5 GiB", "4.1", "gained"),
    "300 MiB": lambda: _example("300 MiB", "4.1", "gained"),
    "at 1.0": lambda: f"at {_slid(4)[-1]}",
    "Since vLLM 0.20": lambda: _if_charged("Since vLLM 0.20", "0.20.0", "0.19.1"),
    "than it did in 0.19": lambda: _if_charged("than it did in 0.19", "", "0.19.1"),
    "0.22 to 0.28": lambda: _if_charged("0.22 to 0.28", "0.21.0", "0.22.0", "0.28.0"),
    "until 0.29": lambda: _if_charged("until 0.29", "0.29.0", "0.28.0"),
    "three and a half such requests": lambda: (
        "three and a half such requests"
        if rest_of_the_budget._TOKENS_AT_ONCE == 3.5 * rest_of_the_budget._LENGTH
        else "another number of them"
    ),
}

FIFTH: Computed = {
    "a card with 24 GB like yours": lambda: (
        f"a card with {learn.published()[1].plan.gpu.nvml_memory_bytes / GIB:.0f} GB "
        "like yours"
    ),
    "23.5 GiB": lambda: f"{SMALL.gpu.total_memory_bytes / GIB:.1f} GiB",
    "0.3": lambda: f"{_setting(SMALL, 'gpu_memory_utilization')}",
    "4 bytes": lambda: f"{ELEMENT_BYTES['float32']} bytes",
    "32 bits": lambda: _bits("float32"),
    "2 bytes": lambda: f"{ELEMENT_BYTES['bfloat16']} bytes",
    "0.92": lambda: f"{_setting(DESK, 'gpu_memory_utilization')}",
    "0.6 billion parameters": lambda: (
        f"{line_of(SMALL, 'weights').size_bytes / 4e9:.1f} billion parameters"
    ),
    "a quarter of a GiB": lambda: (
        "a quarter of a GiB"
        if 1 == round(4 * abs(_difference()) / GIB)
        else "another part of a GiB"
    ),
    "128": lambda: f"{SMALL.kv_groups[0].block_size}",
    "128 tokens": lambda: _tokens(SMALL.kv_groups[0].block_size),
    "0.6": lambda: f"{line_of(SMALL, 'weights').size_bytes / 4e9:.1f}",
    "16 tokens": lambda: _tokens(DESK.kv_groups[0].block_size),
    "Four colleagues": lambda: f"{_words(confirm._AT_ONCE).capitalize()} colleagues",
    "4096": lambda: f"{confirm._LENGTH}",
    "4,096 tokens": lambda: _tokens(confirm._LENGTH),
    "16,384": lambda: f"{confirm._AT_ONCE * confirm._LENGTH:,}",
    "0.4": lambda: f"{confirm._MOST}",
    "0.36": lambda: (
        f"{_setting(confirm.MADE['5.5'].example(), 'gpu_memory_utilization')}"
    ),
}

SIXTH: Computed = {
    "forty visitors": lambda: f"{_words(VISITORS.requests)} visitors",
    "40": lambda: f"{VISITORS.requests}",
    "3000": lambda: f"{VISITORS.prompt_tokens}",
    "3,000 tokens": lambda: _tokens(VISITORS.prompt_tokens),
    "1000": lambda: f"{VISITORS.output_tokens}",
    "1,000": lambda: f"{VISITORS.output_tokens:,}",
    "4,000": lambda: f"{VISITORS.request_tokens:,}",
    "4,000 tokens": lambda: _tokens(VISITORS.request_tokens),
    "144 KiB": lambda: f"{token_bytes(DESK) / KIB:.0f} KiB",
    "72 KiB": lambda: f"{token_bytes(CITY) / KIB:.0f} KiB",
    "8 bits": lambda: _bits("float8_e4m3fn"),
    "10.09 GiB": lambda: format_gib(_left(CITY)),
    "half of what it cost in lesson 3": lambda: (
        "half of what it cost in lesson 3"
        if 2 * token_bytes(CITY) == token_bytes(DESK)
        else "another part of it"
    ),
    "1.8": lambda: f"{capacity_plan._BUDGET}",
    "2 or 4 cards": lambda: _divisors(4),
    "1,024 x 1,024": lambda: f"{KIB:,} x {GIB // KIB // KIB:,}",
}

SEVENTH: Computed = {
    "20,000": lambda: f"{_typed(7, 'num_rows'):,}",
    "20,000 old letters": lambda: f"{at_night.ROWS:,} old letters",
    "3,000 tokens": lambda: _tokens(at_night.LETTER.prompt_tokens),
    "300": lambda: f"{at_night.LETTER.output_tokens}",
    "four L4 by now": lambda: f"{_words(at_night._CARDS)} L4 by now",
    "two in each of two servers": lambda: (
        f"{_words(at_night.SERVERS[0].gpus)} in each of "
        f"{_words(len(at_night.SERVERS))} servers"
    ),
    "four replicas of two cards": lambda: (
        f"{_words(at_night.REPLICAS[1])} replicas of "
        f"{_words(NIGHT['of_a_replica'])} cards"
    ),
    "eight cards, for": lambda: f"{_words(NIGHT['at_most'])} cards, for",
    "eight cards, and I have four": lambda: (
        f"{_words(NIGHT['at_most'])} cards, and I have {_words(at_night._CARDS)}"
    ),
    "2 or 4 cards": lambda: _divisors(4),
    "Replicas x 2": lambda: f"Replicas x {NIGHT['of_a_replica']:g}",
    "exactly four cards": lambda: f"exactly {_words(at_night._CARDS)} cards",
    "about twice as long": lambda: (
        "about twice as long"
        if 2 == at_night.REPLICAS[1] / NIGHT["placed"]
        else "longer"
    ),
}

CARDS: Computed = {
    "8 billion parameters": lambda: _billions(DESK, decimals=0),
    "16 bits": lambda: _bits("bfloat16"),
    "16 GB": lambda: f"{_files():.0f} GB",
    "15 GiB": lambda: f"{_files() * 1e9 / GIB:.0f} GiB",
}

SLIDES: Computed = {
    "24 GB": lambda: f"{_as_sold():.0f} GB",
    "16.4 GB": lambda: f"{_files():.1f} GB",
    "7 or 8 GB": lambda: f"7 or {_as_sold() - _files():.0f} GB",
    "0.92": lambda: f"{_setting(DESK, 'gpu_memory_utilization')}",
    "256": lambda: f"{_setting(DESK, 'max_num_seqs'):.0f}",
    "64": lambda: f"{rest_of_the_budget._FEWER}",
    "65": lambda: f"{rest_of_the_budget._FEWER + 1}",
    # The last lesson, on Ray, is optional.
    "Six lessons": lambda: f"{_words(len(LESSONS) - 1).capitalize()} lessons",
}

FIGURES: Mapping[str, Computed] = {
    "where_memory_goes": FIRST,
    "weights": SECOND,
    "kv_cache": THIRD,
    "rest_of_the_budget": FOURTH,
    "confirm": FIFTH,
    "capacity_plan": SIXTH,
    "at_night": SEVENTH,
    "README.md": {
        "Six lessons": SLIDES["Six lessons"],
        "8 %": FIRST["8 %"],
    },
    "minute-cards.md": CARDS,
    "slides.md": SLIDES,
    "handout.md": CARDS,
    "learners.md": {"5 GiB": FIRST["5 GiB"]},
    "helpers.md": {"16 bits": CARDS["16 bits"]},
}

GIVEN: Mapping[str, set[str]] = {
    # What published models have, in passing.
    "weights": {"4 bits"},
    # How long a lesson is, which tests/learn/test_workshop.py holds.
    "README.md": {"20 to 25 minutes", "130 words"},
    # A version of Python, and how a figure may be written.
    "learners.md": {"3.11", "5 GB"},
    # What learners are to try on their own.
    "rest_of_the_budget": {"8,192", "16,384"},
}
"""Figures that nothing computes: no statement about a plan."""
