"""Phi-4-multimodal and Phi-3-vision: what they hold, and what an image becomes."""

import json
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.models.architecture import ModelArchitecture
from planner.models.families.towers.crops import (
    PaddedCrops,
    ScaledCrops,
    phi3_items,
    phi4_image_items,
)
from planner.models.layers import Part
from tests.memory.test_multimodal_oracle import CONFIGS, folder

PHI4 = "microsoft/Phi-4-multimodal-instruct"


@pytest.fixture(scope="module")
def phi4(tmp_path_factory: pytest.TempPathFactory) -> planner.Plan:
    """A plan of Phi-4-multimodal on one GPU."""
    return _planned(tmp_path_factory.mktemp("phi4"))


def _planned(into: Path, **settings: Any) -> planner.Plan:
    place = folder(json.dumps(CONFIGS[PHI4]), into)
    return planner.plan(place, gpu="H100", trust_remote_code=True, **settings)


def _parameters(model: ModelArchitecture) -> int:
    """Elements of all modules but buffers, once per layer."""
    kinds = [model.layer_kinds[kind] for kind in model.layers]
    modules = (
        *model.first_stage,
        *model.last_stage,
        *(m for tower in model.towers for m in tower.modules),
        *(m for kind in kinds for m in kind.modules),
    )
    layout = ParallelLayout()
    return sum(
        tensor.elements
        for module in modules
        if module.part is not Part.BUFFERS
        for tensor in module.tensors(layout)
    )


def test_with_what_vllm_leaves_out_it_is_the_published_model(
    phi4: planner.Plan,
) -> None:
    """5,574,460,384 parameters are published; vLLM leaves adapters and SigLIP's end.

    Adapters of rank 256 and 320 on query-key-value (3,072 to 5,120), output (3,072 to
    3,072), gate-up (3,072 to 16,384) and down (8,192 to 3,072) of 32 layers: 45,056
    columns and rows each. Of SigLIP the last layer of 15,239,504, its last norm and its
    pooling head. What is not in the checkpoint is a table of 5,000 sinusoids and a
    number to look a device up by.
    """
    adapters = 32 * (256 + 320) * (8192 + 6144 + 19456 + 11264)
    attention, norm = 4 * (1152 * 1152 + 1152), 2 * 1152
    mlp = 2 * 1152 * 4304 + 4304 + 1152
    last_layer = attention + mlp + 2 * norm
    head = 1152 + attention + norm + mlp
    not_published = 5000 * 1024 + 1
    assert phi4.model is not None
    held = _parameters(phi4.model) - not_published
    assert held + adapters + last_layer + norm + head == 5_574_460_384


def test_videos_keep_eyes_that_see_none(tmp_path: Path) -> None:
    """The tower goes when images and videos are switched off, not images alone."""
    whole = _planned(tmp_path).ranks[0].weights_bytes
    no_images = _planned(tmp_path, limit_mm_per_prompt={"image": 0})
    neither = _planned(tmp_path, limit_mm_per_prompt={"image": 0, "video": 0})
    assert no_images.ranks[0].weights_bytes == whole
    assert neither.ranks[0].weights_bytes < whole


def test_no_pipeline_in_vllms_words(tmp_path: Path) -> None:
    """The class does not say that it can be cut into stages."""
    plan = _planned(tmp_path, pipeline_parallel_size=2)
    assert plan.error is not None
    assert plan.error.message.startswith("Pipeline parallelism is not supported")


def test_rows_of_padding_are_no_tokens() -> None:
    """36 crops of 16 x 16 tokens: 576 rows of 16 and a mark, one mark, 16 x 17 more.

    An image of 448 x 700 lies on two crops, 196 of 896 pixels of padding: 14 of 64
    rows of patches, so that 25 rows of tokens are left.
    """
    (largest,) = phi4_image_items()
    assert largest.tokens == 576 * 17 + 1 + 16 * 17 == 10_065
    assert largest.patches == 37 * 32 * 32
    assert PaddedCrops().image(448, 700).tokens == 25 * 17 + 1 + 16 * 17


@pytest.mark.parametrize(("most", "crops"), [(16, 16), (4, 4), (9, 9)])
def test_a_narrow_image_fills_all_crops(most: int, crops: int) -> None:
    """144 tokens each and of the whole, a mark, and 12 for each row of crops."""
    item = ScaledCrops(most=most).image(50, 8000)
    assert item.tokens == (crops + 1) * 144 + 1 + (crops + 1) * 12


def test_a_square_has_as_many_crops_as_fit() -> None:
    """Of 16 crops 4 x 4; the largest image has 16 below each other."""
    assert ScaledCrops().image(50, 50).tokens == 17 * 144 + 1 + 5 * 12
    (largest,) = phi3_items()
    assert largest.tokens == 17 * 144 + 1 + 17 * 12 == 2_653
