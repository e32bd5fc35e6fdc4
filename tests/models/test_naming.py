"""Layers under the names of vLLM's classes, by which checkpoints name exceptions."""

from __future__ import annotations

from typing import Any

import pytest

from planner.models.architecture import ModelArchitecture
from tests.configs import BERT, GPT2, LLAMA_8B, architecture

FP8: dict[str, Any] = {"quant_method": "fp8", "activation_scheme": "dynamic"}


def quantised(model: ModelArchitecture) -> set[str]:
    """Full names of the layers that are held in another way than published."""
    return {
        f"{model.layer_prefix}.{index}.{module.name}"
        for index, kind in enumerate(model.layers)
        for module in model.layer_kinds[kind].modules
        if getattr(module, "method", None) is not None
    }


def test_gpt2_has_names_of_its_own() -> None:
    """The projection is one layer in the checkpoint as well."""
    ignored = ["transformer.h.1.attn.c_attn", "transformer.h.2.mlp.c_proj"]
    settings = {**FP8, "ignored_layers": ignored}
    found = quantised(architecture(GPT2, quantization_config=settings))
    assert len(found) == 4 * 36 - 2
    assert found.isdisjoint(ignored)
    assert "transformer.h.0.attn.c_attn" in found


def test_bert_calls_them_query_key_and_value() -> None:
    """Names of the checkpoint begin with "encoder", those of vLLM with "model"."""
    ignored = [f"encoder.layer.3.attention.self.{n}" for n in ("query", "key", "value")]
    settings = {**FP8, "ignored_layers": ignored}
    found = quantised(architecture(BERT, quantization_config=settings))
    assert "model.encoder.layer.2.attention.self.qkv_proj" in found
    assert "model.encoder.layer.3.attention.self.qkv_proj" not in found


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"architectures": ["Phi3ForCausalLM"], "model_type": "phi3"}, "qkv_proj"),
        ({}, "q_proj"),
    ],
)
def test_phi3_packs_nothing(changes: dict[str, Any], name: str) -> None:
    """Its checkpoint has qkv_proj, Llama's has three layers in its place."""
    names = [name] if name == "qkv_proj" else ["q_proj", "k_proj", "v_proj"]
    ignored = [f"model.layers.0.self_attn.{one}" for one in names]
    settings = {**FP8, "ignored_layers": ignored}
    model = architecture(LLAMA_8B, quantization_config=settings, **changes)
    found = quantised(model)
    assert "model.layers.1.self_attn.qkv_proj" in found
    assert "model.layers.0.self_attn.qkv_proj" not in found


def test_a_published_score_layer_is_quantised() -> None:
    """One made from the LM head is not."""
    facts = {
        "architectures": ["LlamaForSequenceClassification"],
        "quantization_config": FP8,
    }
    published, made = (
        architecture(LLAMA_8B, **facts, **more)
        for more in ({}, {"classifier_from_token": ["yes", "no"]})
    )
    (one,), (other,) = (
        [m for m in model.every_stage if m.name == "score"]
        for model in (published, made)
    )
    assert getattr(one, "method", None) is not None
    assert getattr(other, "method", None) is None


def test_gpt_bigcode_quantises_its_undivided_mlp() -> None:
    """Every rank holds it in full, but through layers that take a method."""
    facts = {
        "architectures": ["GPTBigCodeForCausalLM"],
        "model_type": "gpt_bigcode",
        "multi_query": True,
        "quantization_config": FP8,
    }
    found = quantised(architecture(GPT2, **facts))
    assert {name.partition(".h.0.")[2] for name in found if ".h.0." in name} == {
        "attn.c_attn",
        "attn.c_proj",
        "mlp.c_fc",
        "mlp.c_proj",
    }
