"""What vLLM refuses after it has loaded the model."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.show.verdict import verdict

NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
MTP = {"method": "mtp", "num_speculative_tokens": 1}
RERANKER, EMBEDDING = "BAAI/bge-reranker-v2-m3", "Qwen/Qwen3-Embedding-0.6B"
SMALL = "Qwen/Qwen3-0.6B"
V32, V32_FP4 = "deepseek-ai/DeepSeek-V3.2", "nvidia/DeepSeek-V3.2-NVFP4"
SUPER = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4"
ON_B200 = {"gpu": "B200", "tensor_parallel_size": 8, "max_model_len": 4352}


def error(model: str, **given: Any) -> str:
    """Return the words of the refusal; empty where the start is not refused."""
    found = planner.plan(model, **given).error
    return found.message if found is not None and found.kind == "refused" else ""


@pytest.mark.parametrize(
    ("model", "given", "words"),
    [
        (RERANKER, {"enable_prefix_caching": True}, "at least one cacheable group"),
        (RERANKER, {"speculative_config": NGRAM}, "assert self.sampler is not None"),
        (EMBEDDING, {"speculative_config": NGRAM}, "assert self.sampler is not None"),
        (SMALL, {"dtype": "float32", "enable_lora": True}, "assert weight.dtype in"),
        (
            V32_FP4,
            {**ON_B200, "enable_lora": True, "speculative_config": MTP},
            "LoRA context must be set",
        ),
        (
            SUPER,
            {**ON_B200, "dtype": "float16", "speculative_config": MTP},
            "got: c10::Half != c10::BFloat16",
        ),
    ],
)
def test_assertions_of_the_profile_run(
    model: str, given: dict[str, Any], words: str
) -> None:
    """In the words of traced dry runs of 0.33.0; 0.31.0 asserts the same."""
    assert words in error(model, **given)
    assert "" == error(model, vllm_version="0.30.0", **given)


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (RERANKER, {}),
        (EMBEDDING, {"enable_prefix_caching": True}),
        ("Qwen/Qwen3-Reranker-0.6B", {"speculative_config": NGRAM}),
        (SMALL, {"dtype": "float32"}),
        (SMALL, {"enable_lora": True}),
        # Its draft's experts are FP8, whose kernel runs without adapters.
        (V32, {**ON_B200, "enable_lora": True, "speculative_config": MTP}),
        (V32_FP4, {**ON_B200, "speculative_config": MTP}),
        (SUPER, {**ON_B200, "speculative_config": MTP}),
        (SUPER, {**ON_B200, "dtype": "float16"}),
    ],
)
def test_what_starts(model: str, given: dict[str, Any]) -> None:
    """A part of what is refused together starts."""
    assert "" == error(model, **given)


def test_the_cpu_build_has_other_kernels() -> None:
    """Adapters of float32 are computed by PyTorch there."""
    given = {"dtype": "float32", "enable_lora": True, "gpu": "CPU"}
    assert "assert weight" not in error(SMALL, **given)


def test_int8_activations_on_blackwell_end_a_start() -> None:
    """Their product has no kernel there: the profile run ends, after all is loaded."""

    def error_on(gpu: str, release: str = "0.31.0") -> str:
        model = "RedHatAI/phi-4-quantized.w8a8"
        made = planner.plan(model, gpu=gpu, vllm_version=release, max_model_len=2048)
        assert made.num_gpu_blocks > 0
        return "" if made.error is None else f"{made.outcome}: {made.error.kind}"

    said = verdict(planner.plan("RedHatAI/phi-4-quantized.w8a8", gpu="B200"))
    assert "Does not start: vLLM loads it, and ends before it serves" == said.headline
    assert ("", "The memory below is what it would take, the reason beneath it.") == (
        said.margin,
        said.sentence,
    )
    ends = "does not fit: not_served"
    assert {ends} == {error_on(gpu) for gpu in ("GB10", "B200", "RTX5090")}
    assert "" == error_on("H100")
    assert ends == error_on("B200", "0.19.1")


@pytest.mark.parametrize(
    ("given", "ends"),
    [
        ({}, True),
        ({"dtype": "bfloat16"}, False),
        ({"kv_cache_dtype": "auto"}, False),
        ({"attention_backend": "TRITON_ATTN"}, False),
        ({"enforce_eager": True}, False),
        ({"gpu": "L40S"}, False),
    ],
)
def test_flash_attention_3_writes_bfloat16_from_an_fp8_cache(
    given: dict[str, Any], ends: bool
) -> None:
    """On Hopper, where graphs are captured: a dry run of 0.33.0 ended so."""
    asked: dict[str, Any] = {
        "gpu": "H100",
        "dtype": "float16",
        "kv_cache_dtype": "fp8",
        **given,
    }
    releases = ("0.33.0",) if "attention_backend" in given else ("0.12.0", "0.33.0")
    for release in releases:
        found = planner.plan(SMALL, vllm_version=release, **asked).error
        assert ends == (found is not None and "must have dtype BF16" in found.message)


def test_a_step_has_room_for_the_guesses_of_all_requests_with_adapters() -> None:
    """256 requests of two tokens are 512, of which 392 have room."""
    given = {"speculative_config": NGRAM, "max_num_seqs": 128}
    guesses = 128 * (NGRAM["num_speculative_tokens"] + 1)
    words = "Consider increasing max_num_batched_tokens"
    for less in (0, 1):
        said = error(
            SMALL, **given, enable_lora=True, max_num_batched_tokens=guesses - less
        )
        assert said.startswith(words) == bool(less)
    assert "" == error(SMALL, **given, max_num_batched_tokens=guesses - 1)


@pytest.mark.parametrize(("release", "ends"), [("0.19.1", False), ("0.33.0", True)])
def test_published_wheels_have_no_kernels_for_volta(release: str, ends: bool) -> None:
    """The plan is that of a build of one's own, and says so."""
    found = planner.plan(SMALL, gpu="V100-32GB", dtype="float16", vllm_version=release)
    assert ends == (found.error is not None and found.error.kind == "not_served")
    assert found.ranks
