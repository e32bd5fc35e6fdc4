"""What a question asks to serve, however its numbers are put."""

from __future__ import annotations

import pytest

import planner

LOADS = {
    "1000 registered users, about 20 concurrent": (20, 3072, 1024),
    "250 people, at peak 30 ask at once": (30, 3072, 1024),
    "300 users but only 5% of them active at the same time, 8k": (15, 6144, 2048),
    "Concurrency today is 48 with 6k in and 500 out": (48, 6144, 500),
    "context 32k - 15 developers": (15, 24_576, 8192),
    "40 developers at 8k, at peak maybe a third of them active": (14, 6144, 2048),
    "60 users with 8k, half of them at the same time": (30, 6144, 2048),
    "90 Nutzer mit je 8k, ein Drittel davon gleichzeitig": (30, 6144, 2048),
    "60个用户 三分之一同时在线 上下文8k": (20, 6144, 2048),
    "4 x 32k": (4, 24_576, 8192),
    "32k ctx x 20": (20, 24_576, 8192),
    "10 users, 8k to 32k context": (10, 24_576, 8192),
    "10-20 users at 8k": (20, 6144, 2048),
    "twenty users with eight thousand tokens each": (20, 6000, 2000),
    "zwanzig Nutzer, je achttausend Token": (20, 6000, 2000),
    "50 users share a 6k system prompt, 2k own tokens each": (50, 8192, 0),
    "system prompt 6k shared by all, 500 tok questions, 800 tok answers": (
        (1, 6644, 800)
    ),
    "prefill 20k, decode 500": (1, 20_480, 500),
    "maximum sequence length 4096, batch size 8": (8, 3072, 1024),
    "seq_len=4096, bs=16": (16, 3072, 1024),
    "batch_size of 8 with max_seq_len 4096": (8, 3072, 1024),
    # What the sentence that asks names counts before what was tried.
    "32k failed here. Is 8k for 4 users possible?\nNamely": (4, 6144, 2048),
    "number of input tokens set to 1000, output tokens: 500": (1, 1000, 500),
    # No request is longer than the flag beside it allows.
    "--max-model-len 1024 and 4 users": (4, 768, 256),
    "KV cache: 77,088 tokens, 20 users at 8k": (20, 6144, 2048),
    "| Concurrent requests | 200 |\n| context | 8k |\nfor this": (200, 6144, 2048),
}


@pytest.mark.parametrize("text", LOADS)
def test_the_numbers_of_a_load(text) -> None:
    """Who is there at once counts, of a range the most, of letters their number."""
    load = planner.read(f"{text}: Qwen3-8B on an H200?").load
    assert load is not None
    assert (load.requests, load.prompt_tokens, load.output_tokens) == LOADS[text]
    assert load.shared_prefix_tokens == (6144 if "share" in text else 0)


LEFT = {
    "3000 PDF documents with Qwen3-8B on an L4 overnight?": '"3000" is left aside: so',
    "100k prompts of 1500 tokens, Qwen3-8B on an L4": '"100k" is left aside: so many',
    "Qwen2.5-VL-7B-Instruct on an L4 with video 768 frames?": '"768" is left aside: fr',
    "KV per token of Qwen3-8B is 144 KB, right? On an L4": '"144 KB" is left aside: a',
    "Is 36*5120*2*8 the size for Qwen3-8B on an L4?": '"36" is left aside: a number',
    "Qwen3-8B, RAM: 16 GB (15 GB usable), L4?": '"15 GB" is left aside: memory of',
}


@pytest.mark.parametrize("text", LEFT)
def test_what_is_no_load_is_named(text) -> None:
    """So many in all run one after the other; frames are no videos."""
    found = planner.read(text)
    assert found.load is None
    assert any(note.startswith(LEFT[text]) for note in found.notes)
    assert "limit_mm_per_prompt" not in found.engine_args


def test_an_assumed_length_is_one_that_the_model_takes() -> None:
    """Whisper's decoder has 448 tokens: 20 requests are not refused for 4,096."""
    found = planner.read("Whisper large v3 on an L4, 20 streams")
    assert found.load is not None
    assert found.load.request_tokens == 448


ARGUMENTS = {
    "gpu util 95%": {"gpu_memory_utilization": 0.95},
    "0.85 gpu_memory_utilization": {"gpu_memory_utilization": 0.85},
    # of 139.80 GiB
    "limit vLLM's GPU memory to 100 GB": {"gpu_memory_utilization": 0.71},
    "cpu offload 20GB": {"cpu_offload_gb": 20},
    "10 adapters (LoRA r=16)": {
        "max_loras": 10,
        "max_lora_rank": 16,
        "enable_lora": True,
    },
    "TP   2\nMAX_LEN  32768": {"tensor_parallel_size": 2, "max_model_len": 32_768},
    "PP=2 TP=4": {"tensor_parallel_size": 4, "pipeline_parallel_size": 2},
    "Qwen3-0.6B as draft model": {
        "speculative_config": {
            "method": "draft_model",
            "num_speculative_tokens": 3,
            "model": "Qwen/Qwen3-0.6B",
        }
    },
}


@pytest.mark.parametrize("text", ARGUMENTS)
def test_arguments_in_words(text) -> None:
    """Before the name and behind it, in tables, in capitals."""
    assert planner.read(f"Qwen3-8B on H200, {text}").engine_args == ARGUMENTS[text]


def test_the_size_of_images_is_no_number_of_them() -> None:
    """And a length is said to hold them."""
    text = (
        "Qwen2.5-VL-7B-Instruct on an L4, 5 images 1024x1024 and 16k, how many users?"
    )
    found = planner.read(text)
    assert found.engine_args["limit_mm_per_prompt"] == {"image": 5}
    assert any("that of text and image together" in note for note in found.notes)
