"""Answers that need no GPU, and what no plan answers."""

from __future__ import annotations

import pytest

import planner

NOT_ANSWERED = {
    "Can I fine-tune Llama 3 8B on a 3090?": "training",
    "How long does it take to load Qwen3-8B on an L4?": "how long a start takes",
    "Would NVLink help for Qwen3-32B on 2 A100?": "what a link between GPUs",
    "Is 16GB RAM enough to load Qwen3-8B on a 4090?": "the processor's memory",
    "机器内存够不够加载Qwen3-8B? L4": "the processor's memory",
    "Kann ich Qwen3-8B auf einer 4090 trainieren?": "training",
    "能在3090上微调Qwen3-8B吗?": "training",
    "100k prompts of 500 tokens, Qwen3-8B on an L4, how long?": "how long a batch",
    "eagle3 for Qwen3-8B on an L4?": "a drafter is counted where",
}


def test_a_model_has_its_size_on_any_gpu() -> None:
    """36 layers x 2 x 8 heads x 128 x 2 bytes are 144 KiB a token: 4.5 GiB for 32k."""
    text = "How much VRAM does Qwen3-8B need with 32k context?"
    headline, *rest = [(e := planner.read(text).explain()).headline, *e.answer]
    assert headline.startswith("Weights take 15.27 GiB, and a request of 32,768 tokens")
    assert "4.50 GiB of KV cache: 144.0 KiB a token, 2.2 MiB for a block" in headline
    assert "for 1 request of 32,768 tokens at once, by list prices" in rest[0]


def test_an_argument_has_its_meaning() -> None:
    """The same text as beside its control."""
    said = planner.read("What does gpu_memory_utilization do?").explain()
    assert said.headline.startswith("gpu_memory_utilization: The share of each GPU's")


@pytest.mark.parametrize("text", NOT_ANSWERED)
def test_what_no_plan_answers_comes_first(text) -> None:
    """And no verdict stands for it."""
    explained = planner.read(text).explain()
    assert explained.headline.startswith(f"Not answered: {NOT_ANSWERED[text]}")
    assert explained.answer[0].startswith("Serving it: ")


def test_what_an_hour_may_cost_bounds_the_search() -> None:
    """An A40 is 0.44 an hour, the cheapest that holds 16 GiB of weights."""
    dear, cheap = (
        planner.read(f"cheapest GPU for Qwen3-8B with 32k for {most}?").explain()
        for most in ("0.50 $/hour", "0.10 USD per hour")
    )
    assert dear.headline.startswith("1 x A40 at 0.44 USD per hour")
    assert "Nothing with a list price of 0.10 or less per hour" in cheap.headline


FIRST = {
    "what is the context length of Qwen3-8B": "Its config: requests of up to 40,960 to",
    "how many layers does Llama-3.1-70B have?": "Its config: requests of up to 131,07",
    "what's the price of an H100?": "1 x H100: 3.99 USD per hour, by list prices.",
    "H100": "H100 can serve 1 request of 4,096 tokens (assumed) at once with, of the",
    "is 2 GPUs enough for mixtral 8x22b": "Open: The GPU is not named.",
    "13b params fp16 how much vram": "Weights of 13 billion parameters take 24.21",
    "will a 7B model fit on an L4?": "Weights of 7 billion parameters take 13.04",
    "Why does nvidia-smi show 72GB for a 7B model on my H100?": "By design: at its",
    "vllm takes all my vram even with a tiny model": "By design: at its start vLLM",
    "vLLM belegt den gesamten VRAM": "By design: at its start vLLM takes a share",
    "How can I limit the memory vLLM uses to 10 GB?": "By design: at its start vLLM",
    "Qwen3-0.6B takes 22GB on my 3090. A memory leak?": "By design: vLLM takes 0.92",
    "Which open model, and on what GPU?": "Open: The model is not named.",
    "kv cache per token of Qwen3-32B?": "Weights take 61.03 GiB, and a request",
    "how much does an hour of 8xH100 cost?": "8 x H100: 31.92 USD per hour, by list",
    "does chunked prefill save memory? Qwen3-8B, T4": "enable_chunked_prefill:",
}


@pytest.mark.parametrize("text", FIRST)
def test_the_fact_that_is_asked_for_comes_first(text) -> None:
    """Before sizes and prices that nobody asked for."""
    assert planner.read(text).explain().headline.startswith(FIRST[text])


@pytest.mark.parametrize("text", ["Qwen3-8B", "Qwen/Qwen3-8B"])
def test_a_name_alone_is_understood(text) -> None:
    """It is the model, and no number in it is left over."""
    assert [str(one.use) for one in planner.read(text).account] == ["used"]
