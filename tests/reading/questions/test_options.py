"""What a question would choose between, and what its models share."""

from __future__ import annotations

import pytest

import planner

CHOICES = {
    "Qwen3-32B fp16 vs fp8 vs awq on an A100 80GB?": [
        "Qwen/Qwen3-32B on 1 x A100-80GB, dtype=float16",
        "Qwen/Qwen3-32B-FP8 on 1 x A100-80GB",
        "Qwen/Qwen3-32B-AWQ on 1 x A100-80GB",
    ],
    "Qwen3-32B fp8 or awq on one A100 80GB, 20 users at 8k?": [
        "Qwen/Qwen3-32B-FP8 on 1 x A100-80GB",
        "Qwen/Qwen3-32B-AWQ on 1 x A100-80GB",
    ],
    "TP 2 oder PP 2 für Qwen3-32B auf 2 H100?": [
        "Qwen/Qwen3-32B on 2 x H100, tensor_parallel_size=2",
        "Qwen/Qwen3-32B on 2 x H100, pipeline_parallel_size=2",
    ],
    "Is a 4090 better than two 3090s for Qwen3-8B?": [
        "Qwen/Qwen3-8B on 1 x RTX4090",
        "Qwen/Qwen3-8B on 2 x RTX3090",
    ],
    "Qwen3-8B on an L4 with 16k or 32k context?": [
        "Qwen/Qwen3-8B on 1 x L4, 16k",
        "Qwen/Qwen3-8B on 1 x L4, 32k",
    ],
    "Llama-3.1-8B sur une A10G pour 10 ou 40 utilisateurs ?": [
        "meta-llama/Llama-3.1-8B on 1 x A10G, 10",
        "meta-llama/Llama-3.1-8B on 1 x A10G, 40",
    ],
    "Does gpu-memory-utilization from 0.9 to 0.95 help Qwen3-8B on an L4?": [
        "Qwen/Qwen3-8B on 1 x L4, gpu_memory_utilization=0.9",
        "Qwen/Qwen3-8B on 1 x L4, gpu_memory_utilization=0.95",
    ],
    "Qwen3-8B auf einer L4: max_num_seqs 64 statt 256?": [
        "Qwen/Qwen3-8B on 1 x L4, max_num_seqs=64",
        "Qwen/Qwen3-8B on 1 x L4, max_num_seqs=256",
    ],
    "How much does an fp8 KV cache save for Qwen3-8B on an L4?": [
        "Qwen/Qwen3-8B on 1 x L4",
        "Qwen/Qwen3-8B on 1 x L4, kv_cache_dtype=fp8",
    ],
}
ONE = (
    "Qwen3-32B-AWQ with fp8 kv cache and TP 2 on 2 L4",
    "Qwen3-8B on an L4, 20 users with 4k context",
    "Qwen3-8B in FP8 on an L4 and a budget of 3 GPUs",
    "vLLM 0.11.0, H100 PCIe, Llama-3.3-70B FP8, TP2. Will 0.33.0 need more memory?",
)


@pytest.mark.parametrize("text", CHOICES)
def test_each_of_what_a_question_would_choose_between_is_a_start(text) -> None:
    """And each is answered, the one that serves most named first."""
    found = [planner.read(text, start=at + 1).shown for at in range(len(CHOICES[text]))]
    explained = planner.read(text).explain()

    assert CHOICES[text] == found
    assert f"of {len(found)} serve it" in explained.headline
    assert [
        one.startswith(f"{name}: ")
        for one, name in zip(explained.answer, found, strict=True)
    ] == [True] * len(found)


@pytest.mark.parametrize("text", ONE)
def test_options_that_go_together_are_one_start(text) -> None:
    """Nothing joins them by "or", and none excludes another."""
    assert planner.read(text).num_starts == 1


def test_models_that_run_together_share_the_gpu() -> None:
    """Each has what it needs beside KV cache, and an equal part of what is left."""
    text = "Can I run Qwen3-8B and Llama-3.1-8B together on one H100?"
    both = [planner.read(text, start=at) for at in (1, 2)]
    shares = [one.engine_args["gpu_memory_utilization"] for one in both]

    assert sum(shares) <= 0.92 < sum(shares) + 0.02  # rounded down to hundredths
    assert planner.read(text).explain().headline.startswith("Yes: 2 of 2 fit together")
    small = planner.read(text.replace("H100", "L4")).explain()
    assert small.headline.startswith("No: 0 of 2 fit together")


def test_models_of_which_one_is_meant_share_nothing() -> None:
    """Each is planned alone."""
    text = "Qwen3-8B or Llama-3.1-8B on one H100?"
    assert "gpu_memory_utilization" not in planner.read(text).engine_args


def test_a_name_stands_for_the_model_that_takes_the_length() -> None:
    """Qwen3-235B-A22B takes 40,960 tokens; its later version 262,144."""
    short, long = (
        planner.read(f"Qwen3-235B on 8 H200 with {length} tokens context")
        for length in ("32768", "262144")
    )
    assert short.model == "Qwen/Qwen3-235B-A22B"
    assert long.model == "Qwen/Qwen3-235B-A22B-Instruct-2507"


def test_200k_are_200_000_where_204_800_are_too_many() -> None:
    """GLM-4.6 takes 202,752 tokens; a model that takes more is asked for 204,800."""
    lengths = [
        planner.read(f"{model} on 8 B200 with 200k context").engine_args
        for model in ("GLM 4.6", "Qwen3-235B-A22B-Instruct-2507")
    ]
    assert [200_000, 204_800] == [one["max_model_len"] for one in lengths]


def test_fp8_without_a_checkpoint_is_made_while_vllm_loads() -> None:
    """So that the command names a model that there is."""
    reading = planner.read("Mistral-7B-Instruct-v0.1 in FP8 on an L4")
    assert reading.engine_args == {"quantization": "fp8_per_tensor"}
    assert "~" not in reading.plan().command()


LAYOUTS = {
    # 64 heads are not divided by 3.
    "Llama-3.3-70B on 3 RTX 3090": {"pipeline_parallel_size": 3},
    "Llama-3.3-70B on 6 L40S": {
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 3,
    },
    # Padded to 29,696, which two ranks divide into groups of 128.
    "Qwen2.5-72B-AWQ on 2x3090": {"tensor_parallel_size": 2},
    "Kimi K2 on 16 H100 across 2 nodes": {
        "tensor_parallel_size": 8,
        "pipeline_parallel_size": 2,
    },
    "Llama 405B on 2 DGX H100": {
        "tensor_parallel_size": 8,
        "pipeline_parallel_size": 2,
    },
}


@pytest.mark.parametrize("text", LAYOUTS)
def test_one_copy_is_split_as_vllm_allows(text) -> None:
    """Over tensor-parallel ranks of a node, else over pipeline stages."""
    assert LAYOUTS[text] == planner.read(text).engine_args
