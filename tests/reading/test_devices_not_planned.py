"""A device that a text names and no plan is for: said so, and never replaced."""

from __future__ import annotations

from itertools import product

import pytest

import planner
from planner.engine.not_covered import not_covered_in
from planner.errors import PlannerError

DEVICES = (
    *("MI300X", "Mac M3 Max", "M2 Ultra", "Gaudi 3", "TPU v5e", "Ascend 910B"),
    *("RX 7900 XTX", "Radeon", "RTX 9090", "V100", "B300X", "Arc B580", "Trainium2"),
    *("NVIDIA T500", "Quadro P2000", "GeForce MX450", "RTX 4070 Laptop"),
)
WORDS = (
    "Qwen3-8B on an {}",
    "Does Qwen3 8B run on my {} with 24 GB of VRAM?",
    "Passt Qwen3-8B auf eine {} mit 24 GB?",
    "Qwen3-8B 能在{}上运行吗",
    "Est-ce que Qwen3-8B tourne sur un {} ?",
    "¿Cabe Qwen3-8B en una {} con 32k de contexto?",
    "vllm serve Qwen/Qwen3-8B --max-model-len 8192  # on our {}",
    "# {}\nfrom vllm import LLM\nLLM('Qwen/Qwen3-8B')",
)
WITHOUT_A_GPU = (
    *("Qwen3-8B CPU only", "Qwen3-8B auf der CPU", "Qwen3-8B sans GPU?"),
    *("Does Qwen3-8B run on a CPU?", "Qwen3-8B 没有GPU能运行吗"),
)


def refusal(ask, *arguments, **named) -> str:
    """What a question is refused with; empty where it is answered."""
    try:
        ask(*arguments, **named)
    except PlannerError as error:
        return str(error)
    return ""


def test_the_sentence_is_that_of_a_plan_for_the_device() -> None:
    """In every language and form: what is open, and why there is no plan."""
    wrong = []
    refused = {one: refusal(planner.plan, "Qwen/Qwen3-8B", gpu=one) for one in DEVICES}
    for words, (device, said) in product(WORDS, refused.items()):
        reading = planner.read(words.format(device))
        told = (reading.model, reading.gpu, refusal(reading.plan), reading.open[-1:])
        if told != ("Qwen/Qwen3-8B", None, said, (said,)):
            wrong.append((words.format(device), told))
    assert [] == wrong


def test_a_processor_is_asked_for_its_memory() -> None:
    """No GPU's figures stand for it, nor those of the machine that is asked."""
    refused = [refusal(planner.read(text).plan) for text in WITHOUT_A_GPU]
    assert ["The text names a CPU, and not its memory."] * len(refused) == [
        said.partition(" Plan on")[0] for said in refused
    ]


@pytest.mark.parametrize(
    "text", ["my model on an H100", "mein Modell auf einer H100", "我的模型在 H100 上"]
)
def test_a_question_without_a_known_model_asks_for_it(text) -> None:
    """What it does name is taken."""
    reading = planner.read(text)
    assert ("H100", ("The model is not named.",)) == (reading.gpu.name, reading.open)
    assert "does not say which model" in refusal(reading.plan)


def test_words_of_something_else_are_no_device() -> None:
    """Of platforms, benchmarks, models and owners."""
    text = (
        "linux/amd64 on bare metal, Intel Xeon, lm_eval arc_easy, MiniMax-M2, "
        "apple/OpenELM, amd/Llama-3.1-8B, the mps backend, 910 tokens, H264"
    )
    assert [] == not_covered_in(text)
    assert () == planner.read(f"Qwen3-8B on an H100: {text}").notes


def test_beside_a_gpu_that_is_planned_for_another_is_a_note() -> None:
    """The plan is for the one; what is said of the other is in sight."""
    reading = planner.read("Llama-3.1-8B-Instruct on an H100 or an MI300X?")
    assert "H100" == reading.plan().gpu.name
    assert "'MI300X' is an AMD GPU" in reading.notes[-1]
