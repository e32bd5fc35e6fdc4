"""Questions in words."""

from __future__ import annotations

import pytest

import planner
from planner.errors import PlannerError
from planner.planning.load import Load
from planner.reading.reading import Kind


@pytest.mark.parametrize(
    ("text", "gpu", "gpus"),
    [
        ("Qwen3-8B on two RTX 3090s", "RTX3090", 2),
        ("3x4090 for Qwen3-8B?", "RTX4090", 3),
        ("Qwen3-8B, H100 x 4", "H100", 4),
        ("dual a100 40gb Qwen3-8B", "A100-40GB", 2),
        ("will Qwen3-8B run on my 3060?", "RTX3060", None),
        ("Can an A6000 run Qwen3-8B", "A6000", 1),
        ("Qwen3-8B on a g5.12xlarge", "A10G", 4),
        ("Qwen3-8B on two nodes of 8 H100 each", "H100", 16),
        ("我想在两张4090上跑Qwen3-8B", "RTX4090", 2),
        ("Qwen3-8B, 10 users?", None, None),
    ],
)
def test_gpus(text, gpu, gpus) -> None:
    """By name, with the number before or after it; open where it is not told."""
    found = planner.read(text)
    assert found.kind is Kind.QUESTION
    assert getattr(found.gpu, "name", found.gpu) == gpu
    assert found.gpus == gpus
    assert found.open == (() if gpu else ("The GPU is not named.",))


def test_a_name_and_nothing_else_is_a_model() -> None:
    """With what its words are taken for."""
    found = planner.read("Llama 3.3 70B")
    assert found.kind is Kind.MODEL
    assert found.model == "meta-llama/Llama-3.3-70B-Instruct"
    assert found.notes


def test_one_copy_is_split_over_all_gpus() -> None:
    """Within a node by tensor parallelism, over nodes by stages."""
    found = planner.read("Qwen3-235B-A22B on two nodes of 8 H100 each")
    assert found.engine_args == {
        "tensor_parallel_size": 8,
        "pipeline_parallel_size": 2,
    }
    assert "One copy of the model over all of the GPUs is meant." in found.notes


@pytest.mark.parametrize(
    ("words", "length"),
    [
        ("with 32k context", 32 * 1024),
        ("context of 32,768", 32_768),
        ("max context 8192 tokens", 8192),
        ("at 128K", 128 * 1024),
        ("1M context", 1024**2),
        ("for $10k", None),
        ("please", None),
    ],
)
def test_context(words, length) -> None:
    """32k is 32,768 tokens; a price is no length."""
    found = planner.read(f"Qwen3-8B on L4 {words}")
    assert found.engine_args.get("max_model_len") == length


@pytest.mark.parametrize(
    ("words", "load"),
    [
        # A request's whole length: 8,192 = 6,144 + 2,048.
        (
            "20 users, 8k context",
            Load(prompt_tokens=6144, output_tokens=2048, requests=20),
        ),
        (
            "50 concurrent requests of 16k tokens",
            Load(prompt_tokens=12_288, output_tokens=4096, requests=50),
        ),
        (
            "4k in / 1k out, 100 users",
            Load(prompt_tokens=4096, output_tokens=1024, requests=100),
        ),
        ("concurrency 8", Load(prompt_tokens=3072, output_tokens=1024, requests=8)),
    ],
)
def test_users(words, load) -> None:
    """The plan is then of this load: max_model_len and max_num_seqs follow."""
    found = planner.read(f"Qwen3 32B on H100, {words}")
    assert found.load == load
    assert found.to_dict()["load"]["requests"] == load.requests
    plan = found.plan()
    assert plan.load == load
    assert plan.resolved is not None
    assert plan.resolved.max_model_len == load.request_tokens
    assert plan.resolved.max_num_seqs == load.requests


@pytest.mark.parametrize(
    ("text", "model", "arguments"),
    [
        ("Qwen3 32B in FP8 on L40S", "Qwen/Qwen3-32B-FP8", {}),
        (
            "4bit llama 3.1 8b on an L4",
            "meta-llama/Llama-3.1-8B-Instruct~GPTQ-Int4",
            {},
        ),
        ("Qwen3-8B on L4, fp8 kv cache", "Qwen/Qwen3-8B", {"kv_cache_dtype": "fp8"}),
        ("gpt-oss-120b in fp8 on H100", "openai/gpt-oss-120b", {}),
    ],
)
def test_formats(text, model, arguments) -> None:
    """A published checkpoint, else an estimated one; said in a note."""
    found = planner.read(text)
    assert found.model == model
    assert found.engine_args == arguments
    assert arguments or found.notes


def test_memory_alone_is_a_gpu_of_that_size() -> None:
    """The others of that size are named."""
    found = planner.read("phi 4 on 24 GB VRAM")
    gpu = planner.GPU.named(found.gpu)
    assert 0.9 * 24 <= gpu.total_memory_bytes / 2**30 <= 24
    assert any("RTX4090" in note and "L4" in note for note in found.notes)


def test_each_model_on_each_gpu_is_a_start() -> None:
    """In the order of the text."""
    text = "Is an H100 or an H200 better for Qwen3-32B?"
    second = planner.read(text, start=2)
    assert (second.model, second.gpu.name, second.num_starts) == (
        "Qwen/Qwen3-32B",
        "H200",
        2,
    )
    with pytest.raises(PlannerError, match="holds 2 starts"):
        planner.read(text, start=3)


def test_release_and_flags_count_too() -> None:
    """As written."""
    found = planner.read("vLLM 0.30.1 with Qwen3 8B --max-model-len 8192 on L4")
    assert found.vllm_version == "0.30.1"
    assert found.engine_args == {"max_model_len": 8192}


def test_an_error_with_a_model_in_words_is_still_an_error() -> None:
    """Its model is the one that is named."""
    found = planner.read("CUDA out of memory with Llama 3.1 8B on my 4090: help")
    assert found.kind is not Kind.QUESTION
    assert found.model == "meta-llama/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize(
    "text",
    [
        "ollama run llama3.1:70b on two 3090s",
        "kubectl apply -f qwen3-8b.yaml",
        "x" * 3000,
        "model = AutoModel.from_pretrained('Qwen/Qwen3-8B')",
        "base:\n  model: Qwen/Qwen3-8B\n  sequence_len: 8192",
        "<p>Qwen3 8B on an L4</p>",
        "Qwen3 8B\n" * 20,
    ],
)
def test_what_is_no_question(text) -> None:
    """Another engine or command, code, a configuration, markup, a long text."""
    with pytest.raises(PlannerError):
        planner.read(text)
