"""Models by the words of their names."""

from __future__ import annotations

import pytest

from planner.models.catalogue import entries
from planner.reading.questions.named import models_in


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("will Llama 3.3 70B do?", "meta-llama/Llama-3.3-70B-Instruct"),
        ("llama 3.3 70b awq", "casperhansen/llama-3.3-70b-instruct-awq"),
        # "3" is neither 3.1 nor 3.3, nor is "k2" K2.5.
        ("llama 3 70b", "meta-llama/Meta-Llama-3-70B-Instruct"),
        # A longer name with the same first word is another model.
        ("Llama3 8B", "meta-llama/Meta-Llama-3-8B-Instruct"),
        ("BGE-large beside it", "BAAI/bge-large-en"),
        # What stands before a bar, and a letter of a word behind, are no part of it.
        ("| LLM | Llama 3.1 8B | 8 GB", "meta-llama/Llama-3.1-8B-Instruct"),
        ("chạy Qwen3 32B với", "Qwen/Qwen3-32B"),
        ("Kimi K2, please", "moonshotai/Kimi-K2-Instruct"),
        # Variants have words of their own, and the plain model has none.
        ("qwen 2.5 7b", "Qwen/Qwen2.5-7B-Instruct"),
        ("qwen3 coder 480b fp8", "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8"),
        ("gpt oss 120b", "openai/gpt-oss-120b"),
        # A copy has the model's own name.
        ("Mistral Small 3.2", "mistralai/Mistral-Small-3.2-24B-Instruct-2506"),
        # "20" is not in a date of 2025.
        ("Qwen3 32B 20 users", "Qwen/Qwen3-32B"),
        ("我想跑Qwen3-32B-AWQ", "Qwen/Qwen3-32B-AWQ"),
        ("someone/their-model-13b", "someone/their-model-13b"),
    ],
)
def test_a_name_in_words(text, name) -> None:
    """The plainest model that has all of the words."""
    assert [model.name for model in models_in(text)] == [name]


@pytest.mark.parametrize(
    "text",
    [
        *("", "What is the weather in Paris?", "a large llama on a phi", "7B on 24 GB"),
        *("in FP16/BF16?", "on A100/H100-80GB", "4k/8k of context", "Qwen-based"),
    ],
)
def test_no_name(text) -> None:
    """A family alone names no model, nor do a size and what a slash parts."""
    assert models_in(text) == ()


def test_several_in_their_order() -> None:
    """Each once."""
    found = models_in("Qwen3-32B or Llama-3.3-70B-Instruct? Or Qwen3 32B again?")
    assert [one.name for one in found] == [
        "Qwen/Qwen3-32B",
        "meta-llama/Llama-3.3-70B-Instruct",
    ]


def test_a_variant_that_is_not_known_is_not_the_plain_model() -> None:
    """GLM-4.5-Air has a third of the weights of GLM-4.5."""
    (air,) = models_in("can I run glm 4.5 air on it?")
    assert ("", "glm 4.5 air") == (air.name, air.written)
    assert "give its name on the Hub" in air.note


def test_what_was_taken_for_what_is_said() -> None:
    """With others that have the same words; nothing for a name as it is written."""
    (said,) = models_in("gemma 3 27b")
    assert said.note.startswith('"gemma 3 27b" is taken for google/gemma-3-27b-it.')
    assert "google/gemma-3-27b-pt" in said.note
    assert models_in("google/gemma-3-27b-it")[0].note == ""


def test_every_name_of_the_catalogue_is_itself() -> None:
    """Written with its owner, in a sentence."""
    names = [entry.name for entry in entries()]
    found = {name: [one.name for one in models_in(f"Is {name} ok?")] for name in names}
    assert {name: one for name, one in found.items() if one != [name]} == {}
