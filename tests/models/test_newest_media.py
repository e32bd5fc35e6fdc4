"""ERNIE-4.5-VL, Kimi-Audio, Molmo 2, Gemma 3n and Moondream 3, beside their answers.

What vLLM's own code answered for their weights and caches is in
`test_registry_answers.py`; here is what a plan of them depends on besides.
"""

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.errors import UnknownArchitecture
from planner.memory.media.encoder import encoder_budget_tokens, profiled_items

_ROWS = Path(__file__).parent.parent / "data" / "registry-media.jsonl.xz"


def config_of(architecture: str) -> dict[str, Any]:
    """The config that vLLM was asked about."""
    lines = lzma.decompress(_ROWS.read_bytes()).decode().splitlines()
    rows = {row["model"]: row for row in map(json.loads, lines)}
    config: dict[str, Any] = rows[architecture]["config"]
    return config


def plan_of(path: Path, config: dict[str, Any], **arguments: Any) -> planner.Plan:
    """A plan of a folder that holds this config."""
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return planner.plan(path, gpu="H200", trust_remote_code=True, **arguments)


def test_each_layer_of_ernie_has_a_rotary_table_of_its_own(tmp_path: Path) -> None:
    """28 tables of 4 x 131,072 rows of 128, 3.5 GiB; half with half the positions."""
    config = config_of("Ernie4_5_VLMoeForConditionalGeneration")
    tables = 28 * 4 * 131_072 * 128 * 2

    whole = plan_of(tmp_path, config).ranks[0].weights_bytes
    half = plan_of(tmp_path, {**config, "max_position_embeddings": 65_536})

    assert whole - half.ranks[0].weights_bytes == tables // 2


def test_ernies_tied_head_stops_on_several_stages(tmp_path: Path) -> None:
    """vLLM ties a head that the first stage does not have."""
    config = config_of("Ernie4_5_VLMoeForConditionalGeneration")

    tied = plan_of(tmp_path, config, pipeline_parallel_size=2)
    untied = plan_of(
        tmp_path, {**config, "tie_word_embeddings": False}, pipeline_parallel_size=2
    )

    assert "tie_weights" in str(tied.error)
    assert len(untied.ranks) == 2


def test_kimi_audio_needs_the_config_of_its_encoder(tmp_path: Path) -> None:
    """It is in a folder beside config.json, from which vLLM reads it."""
    config = config_of("MoonshotKimiaForCausalLM")

    with pytest.raises(UnknownArchitecture, match=r"whisper-large-v3/config\.json"):
        plan_of(tmp_path, config)


def test_molmo_2_needs_a_step_for_its_longest_video(tmp_path: Path) -> None:
    """384 frames of 81 tokens, which no step splits; an image has 14 x 80 + 196."""
    config = config_of("Molmo2ForConditionalGeneration")
    videos = {"max_num_batched_tokens": 36_864}

    refused = plan_of(tmp_path, config)
    images = plan_of(tmp_path, config, limit_mm_per_prompt={"video": 0})
    run = plan_of(tmp_path, config, **videos).limiting_rank.profile_run
    batch = profiled_items(images.limiting_rank.profile_run)

    assert "max_tokens_per_mm_item (31104)" in str(refused.error)
    assert encoder_budget_tokens(run) == 36_864
    assert batch.tokens_per_item == 14 * 80 + 14 * 14


def test_gemma_3n_takes_one_encoder_of_images(tmp_path: Path) -> None:
    """The blocks of timm's others are not known here."""
    config = config_of("Gemma3nForConditionalGeneration")
    config["vision_config"]["architecture"] = "mobilenetv5_base"

    with pytest.raises(UnknownArchitecture, match="mobilenetv5_300m_enc"):
        plan_of(tmp_path, config)


def test_moondream_sees_one_image_in_a_prompt(tmp_path: Path) -> None:
    """Of 730 tokens, in two crops of 27 x 27 patches."""
    plan = plan_of(tmp_path, config_of("Moondream3ForCausalLM"))
    (image,) = plan.model.towers[0].items

    assert (image.tokens, image.patches, image.per_prompt) == (730, 2 * 27 * 27, 1)
