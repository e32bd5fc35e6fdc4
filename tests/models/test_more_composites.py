"""Models left to Transformers, and further composites, beside their answers.

What vLLM's own code answered for them is in `test_registry_answers.py`; here is what
the planner refuses, and what a plan depends on besides.
"""

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.errors import UnknownArchitecture

_ROWS = Path(__file__).parent.parent / "data" / "registry-more.jsonl.xz"


def config_of(model: str) -> dict[str, Any]:
    """The config that vLLM was asked about."""
    lines = lzma.decompress(_ROWS.read_bytes()).decode().splitlines()
    rows = {row["model"]: row for row in map(json.loads, lines)}
    config: dict[str, Any] = rows[model]["config"]
    return config


def plan_of(path: Path, config: dict[str, Any], **arguments: Any) -> planner.Plan:
    """A plan of a folder that holds this config."""
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return planner.plan(path, gpu="H200", trust_remote_code=True, **arguments)


def test_pooling_through_transformers_never_splits_a_prompt(tmp_path: Path) -> None:
    """It takes the first token of each, so a step holds the longest prompt."""
    config = config_of("TransformersEmbeddingModel")

    pooled = plan_of(tmp_path, config)
    generating = plan_of(
        tmp_path, {**config, "architectures": ["TransformersForCausalLM"]}
    )

    assert pooled.resolved.max_num_batched_tokens == 32_768
    assert generating.resolved.max_num_batched_tokens == 8_192


def test_a_classifier_through_transformers_has_a_score_for_each_label(
    tmp_path: Path,
) -> None:
    """Four bytes for each of 4,096 columns and three labels more."""
    config = config_of("TransformersForSequenceClassification")
    five = {str(index): str(index) for index in range(5)}

    two = plan_of(tmp_path, config).ranks[0].weights_bytes
    more = plan_of(tmp_path, {**config, "id2label": five}).ranks[0].weights_bytes

    assert more - two == 3 * 4 * config["hidden_size"]


def test_transformers_needs_a_model_type_that_is_known_here(tmp_path: Path) -> None:
    """Gemma's classes have buffers of their own."""
    config = {**config_of("TransformersForCausalLM"), "model_type": "gemma"}

    with pytest.raises(UnknownArchitecture, match="through Transformers are: arcee"):
        plan_of(tmp_path, config)


def test_mimo_v2_with_sounds_is_refused(tmp_path: Path) -> None:
    """Their tokeniser lies in a folder beside config.json."""
    config = {**config_of("MiMoV2OmniForCausalLM"), "audio_config": {"group_size": 4}}

    with pytest.raises(UnknownArchitecture, match="audio_config"):
        plan_of(tmp_path, config)


def test_decision_3_has_a_score_for_each_code(tmp_path: Path) -> None:
    """One column of 4,096 in four bytes for each code of an answer."""
    config = config_of("D3ForSequenceClassification")
    decision = config["decision_config"]
    shorter = {
        **decision,
        "codes": decision["codes"][:10],
        "token_ids": decision["token_ids"][:10],
    }
    size = config["text_config"]["hidden_size"]

    twelve = plan_of(tmp_path, config).ranks[0].weights_bytes
    ten = plan_of(tmp_path, {**config, "decision_config": shorter})

    assert twelve - ten.ranks[0].weights_bytes == 2 * 4 * size


def test_decision_3_that_reads_both_ways_is_refused(tmp_path: Path) -> None:
    """Its attention would need no cache of keys and values."""
    config = config_of("D3ForSequenceClassification")
    decision = {**config["decision_config"], "attention_mode": "noncausal"}

    with pytest.raises(UnknownArchitecture, match="causal attention is"):
        plan_of(tmp_path, {**config, "decision_config": decision})


def test_the_first_ovis_takes_aimv2_or_siglip(tmp_path: Path) -> None:
    """As vLLM does."""
    config = config_of("Ovis")
    config["visual_tokenizer_config"]["backbone_config"]["model_type"] = "dinov2"

    with pytest.raises(UnknownArchitecture, match="AIMv2 and SigLIP"):
        plan_of(tmp_path, config)
