"""Names that vLLM makes from another architecture by their suffix, worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import Refused
from planner.models.families.conversion import base_of
from tests.configs import LLAMA_8B, QWEN3_MOE, architecture
from tests.hybrids import parts

_TINY: dict[str, Any] = {
    **LLAMA_8B,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1024,
    "rope_scaling": None,
}


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("FooForSequenceClassification", "FooForCausalLM"),
        ("FooForTokenClassification", "FooForCausalLM"),
        ("FooForRewardModeling", "FooForCausalLM"),
        ("FooRewardModel", "FooForCausalLM"),
        ("FooModel", "FooForCausalLM"),
        ("FooForCausalLM", None),
        ("FooForMaskedLM", None),
        ("BarModel", None),
    ],
)
def test_the_suffix_says_what_a_model_is_made_from(name: str, base: str | None) -> None:
    """A generating model is made from none, nor is a suffix that vLLM does not have."""
    assert base == base_of(name, {"FooForCausalLM"})


def test_a_classifier_has_a_float32_head_and_no_lm_head() -> None:
    """Five labels of 64 values, 4 bytes each, for 1,024 words of 64 in bfloat16."""
    found = parts(_TINY, architectures=["LlamaForSequenceClassification"], num_labels=5)
    assert 4 * 5 * 64 == found["classifier"]
    assert "lm_head" not in found
    assert 2 * 1024 * 64 == parts(_TINY)["lm_head"]


def test_two_labels_unless_the_config_says_how_many() -> None:
    """Transformers' default."""
    found = parts(_TINY, architectures=["LlamaForTokenClassification"])
    assert 4 * 2 * 64 == found["classifier"]


def test_an_embedding_model_has_no_head_at_all() -> None:
    """Neither words nor labels. vLLM's list has no Phi3Model, only its suffix."""
    found = parts(_TINY, architectures=["Phi3Model"])
    assert not {"lm_head", "classifier"} & set(found)
    assert architecture(_TINY, architectures=["Phi3Model"]).is_pooling


def test_mixtures_of_experts_are_converted_alike() -> None:
    """The name keeps its own, the language model the base's."""
    model = architecture(QWEN3_MOE, architectures=["Qwen3MoeForSequenceClassification"])
    assert "Qwen3MoeForSequenceClassification" == model.architecture
    assert "Qwen3MoeForCausalLM" == model.language_architecture


def test_what_no_suffix_explains_is_refused_in_vllms_words() -> None:
    """A suffix without a model of that name before it."""
    with pytest.raises(Refused, match="are not supported for now"):
        architecture(_TINY, architectures=["NobodysForSequenceClassification"])
