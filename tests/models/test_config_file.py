"""What is the config.json of a model, and what is not."""

from __future__ import annotations

import pytest

from planner.errors import PlannerError
from planner.models.sources.folder import model_config


@pytest.mark.parametrize(
    "text", ['{"architectures": ["MiniCPM3ForCausalLM"]}', b'{"model_type": "llama"}']
)
def test_a_model_says_its_architecture_or_its_type(text: str | bytes):
    """Some published files have only one of the two."""
    assert len(model_config(text, "config.json")) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not JSON"),
        ("not json", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "holds a JSON list"),
        ("3", "holds a JSON number"),
        ('"llama"', "holds a JSON string"),
        ("true", "holds a JSON boolean"),
        ("null", "holds a JSON null"),
        ("{}", "neither `architectures` nor `model_type`"),
        ('{"architectures": []}', "neither `architectures` nor `model_type`"),
        ('{"peft_type": "LORA"}', "LoRA adapter"),
        ('{"tokenizer_class": "X"}', "config of a tokenizer"),
        ('{"_class_name": "X"}', "Diffusers pipeline"),
    ],
)
def test_everything_else_is_refused_by_what_it_is(text: str | bytes, words: str):
    """The message names the place and what lies there."""
    with pytest.raises(PlannerError, match=words) as raised:
        model_config(text, "here/config.json")
    assert "here/config.json" in str(raised.value)
