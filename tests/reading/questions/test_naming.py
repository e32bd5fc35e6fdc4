"""What a question names, and what it says is not meant."""

from __future__ import annotations

import pytest

import planner
from planner.reading.account import Use
from planner.reading.questions.question import Question

MEANT = {
    "not the H100 but an A100 80GB: does Qwen3-8B fit?": ("A100-80GB", {}),
    "we do not have H200s, only an L4, Qwen3-8B?": ("L4", {}),
    "L40S instead of an H100 for Qwen3-8B?": ("L40S", {}),
    "Qwen3-8B auf einer L4 statt einer H100?": ("L4", {}),
    "Qwen3-8B sur une L4, pas une H100 ?": ("L4", {}),
    "H100ではなくL4でQwen3-8Bは動きますか": ("L4", {}),
    "Qwen3-8B nicht auf einer H100, sondern auf einer L4?": ("L4", {}),
    "Warum passt Qwen3-8B nicht auf eine L4?": ("L4", {}),
    "Pourquoi Qwen3-8B ne tient pas sur une L4 ?": ("L4", {}),
    "why does Qwen3-8B not run on an L4?": ("L4", {}),
    "Qwen3-8B without fp8 kv cache on an L4?": ("L4", {}),
    "does it fit or not on an L4, Qwen3-8B?": ("L4", {}),
    "Qwen3-8B on an L4 with fp8 kv cache?": ("L4", {"kv_cache_dtype": "fp8"}),
}


@pytest.mark.parametrize("text", MEANT)
def test_what_is_denied_is_not_planned(text) -> None:
    """It is one start, and the account says of the other that it is not meant."""
    found = planner.read(text)
    gpu = getattr(found.gpu, "name", found.gpu)
    assert (gpu, dict(found.engine_args), found.num_starts) == (*MEANT[text], 1)
    denied = [one for one in found.account if one.what == "said not to be meant"]
    assert all(one.use is Use.KEPT for one in denied)
    assert bool(denied) == any(w in text for w in ("H100", "H200", "without"))


@pytest.mark.parametrize(
    "text",
    [
        "Qwen3-8B on my two T4, I do not want to use tensor parallel",
        "Qwen3-8B auf zwei T4 ohne Tensor-Parallel?",
    ],
)
def test_without_ranks_the_layers_are_split(text) -> None:
    """vLLM's other way to use both GPUs for one copy."""
    assert planner.read(text).engine_args == {"pipeline_parallel_size": 2}


NAMED = {
    "https://huggingface.co/Qwen/Qwen3-14B-AWQ/tree/main on a 3060?": (
        "Qwen/Qwen3-14B-AWQ"
    ),
    "ollama with qwen3:32b now; vllm with Qwen3-32B-AWQ on a 4090?": (
        "Qwen/Qwen3-32B-AWQ"
    ),
    "DeepSeek R1 on 8 H200?": "deepseek-ai/DeepSeek-R1",
    "mistral nemo on a 3060?": "mistralai/Mistral-Nemo-Instruct-2407",
    "qwen3:8b on an L4?": "Qwen/Qwen3-8B",
    "bge-m3 embedding on a T4?": "BAAI/bge-m3",
    "gptoss120b on an H100?": "openai/gpt-oss-120b",
    "4张48G的卡塞不下GLM5.3flash吧": "zai-org/GLM-5.3-Flash",
    "qwen25-vl-7b on an L4?": "Qwen/Qwen2.5-VL-7B-Instruct",
    "Gemma 4, that is acme/gemma-4-31B-it-AWQ-4bit, on an A100 80GB?": (
        "acme/gemma-4-31B-it-AWQ-4bit"
    ),
    "does --max-model-len 8192 --reasoning-parser deepseek_r1 fit on an H100?": None,
    "Command R+ on 4 A100 40GB": None,
    "GLM-4.5-Large-FP8 @ 4xH100": None,
}


@pytest.mark.parametrize("text", NAMED)
def test_models_as_people_name_them(text) -> None:
    """By the address of a page, another program's tag, without a size; else open."""
    found = planner.read(text)
    assert found.model == NAMED[text]
    assert found.intent == ("other" if "Command" in text else "fits")
    assert bool(found.open) == (found.model is None)


RELEASES = {
    "from v0.8.5.post1 to 0.10.1": ["0.8.5.post1", "0.10.1"],
    "vLLM v0.11.0": ["0.11.0"],
    "image v0.10.1.1": ["0.10.1.1"],
    "--host 0.0.0.0": [],
}


@pytest.mark.parametrize("text", RELEASES)
def test_releases(text) -> None:
    """With a v and without, with four numbers, and no address."""
    found = Question(f"Qwen3-8B on an L4 {text}").releases
    assert [one.version for one in found] == RELEASES[text]


def test_the_flags_of_another_program_are_no_load() -> None:
    """Its model, its GPUs and what is asked are read, and the rest is left aside."""
    found = planner.read(
        "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --tp 2 "
        "--max-running-requests 99 --port 8000\nIs vllm on 2 H200 ok for the same?"
    )
    assert (found.model, found.gpus, found.load) == ("Qwen/Qwen3-32B", 2, None)
    assert found.engine_args == {"tensor_parallel_size": 2}
    assert any(note.startswith("SGLang shares out memory") for note in found.notes)


def test_what_another_asked_is_not_asked_again() -> None:
    """A quoted line counts where the rest has no model, no GPU or no question."""
    quoted = "X wrote:\n> Qwen3-32B on one H100?\n"
    found = planner.read(f"{quoted}\nNo. Does Qwen3-8B fit on my L4 with 8k?")
    assert (found.model, found.gpu.name, found.num_starts) == ("Qwen/Qwen3-8B", "L4", 1)
    assert any(piece.what == "what another asked" for piece in found.account)
    assert planner.read(f"{quoted}\nDoes it? With 8k?").model == "Qwen/Qwen3-32B"


@pytest.mark.parametrize(
    "words",
    [
        "Qwen3-0.6B as draft for Qwen3-32B",
        "Qwen3-32B with Qwen3-0.6B as draft",
        "Qwen3-32B with draft model Qwen3-0.6B",
    ],
)
def test_the_model_that_drafts_is_told_by_the_word_beside_it(words: str) -> None:
    """Whichever of the two is named first."""
    found = planner.read(f"{words} on an H100, enough memory?")
    assert (found.model, found.num_starts) == ("Qwen/Qwen3-32B", 1)
    assert found.engine_args["speculative_config"]["model"] == "Qwen/Qwen3-0.6B"
