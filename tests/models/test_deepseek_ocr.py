"""DeepSeek-OCR's towers, with their shapes written out."""

import json

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.errors import UnknownArchitecture
from planner.models.families.deepseek_vl2 import deep_encoder

MODEL = "deepseek-ai/DeepSeek-OCR"


def elements(part: str, ranks: int = 1) -> int:
    """Elements of a part of the tower on a rank."""
    layout = ParallelLayout(tensor_parallel_size=ranks)
    return sum(
        tensor.elements
        for module in deep_encoder(2048, 1280).modules
        if module.name.startswith(part)
        for tensor in module.tensors(layout)
    )


def test_sam() -> None:
    """Patches, 64 x 64 positions, twelve layers, four convolutions and two norms.

    Eight layers have positions of windows, 2 x 27 x 64; four of all, 2 x 127 x 64.
    """
    patches = 768 * 3 * 256 + 768
    layer = 4 * 768 * 768 + 4 * 768 + 8 * 768 * 768 + 5 * 768 + 4 * 768
    windows, wholes = 8 * 2 * 27 * 64, 4 * 2 * 127 * 64
    neck = 256 * 768 + 9 * (256 * 256 + 512 * 256 + 1024 * 512) + 4 * 256
    positions = 64 * 64 * 768
    whole = patches + positions + 12 * layer + windows + wholes + neck
    assert elements("sam_model") == whole


def test_clip_is_cut_over_ranks_and_sam_is_not() -> None:
    """24 layers: 4 x 1,024 x 1,024 and 8 x 1,024 x 1,024 elements, half on each."""
    matrices = 24 * 12 * 1024 * 1024
    whole, half = elements("vision_model"), elements("vision_model", ranks=2)
    columns = 24 * (3 * 1024 + 4096)  # biases of what is cut along its outputs
    assert whole - half == (matrices + columns) // 2
    assert elements("sam_model", ranks=2) == elements("sam_model")


def test_an_image() -> None:
    """16 x 17 of the whole, 20 x 21 of four crops, one mark between."""
    (image,) = deep_encoder(2048, 1280).items
    assert image.tokens == 16 * 17 + 20 * 21 + 1


def test_without_images_two_vectors_stay() -> None:
    """2 x 1,280 x 2 bytes are no part of the tower."""
    plan = planner.plan(MODEL, gpu="H100", language_model_only=True)
    names = [module.name for module in plan.model.every_stage]
    assert "image_newline" in names


def test_latent_attention_in_it_is_named(tmp_path) -> None:
    """Which is DeepSeek-VL2's."""
    config = dict(planner.plan(MODEL, gpu="H100").model.files.config)
    config["language_config"] = {**config["language_config"], "use_mla": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnknownArchitecture, match="language_config"):
        planner.plan(tmp_path, gpu="H100")
