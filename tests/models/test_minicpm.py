"""MiniCPM-V, with its shapes written out."""

import pytest

from planner.engine.layout import ParallelLayout
from planner.errors import UnknownArchitecture
from planner.models.architecture import ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.registry import readers

TEXT = {
    "model_type": "minicpmv",
    "version": 2.6,
    "hidden_size": 256,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "num_key_value_heads": 1,
    "vocab_size": 32,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "query_num": 4,
    "drop_vision_last_layer": False,
    "vision_config": {
        "hidden_size": 8,
        "image_size": 28,
        "intermediate_size": 12,
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "patch_size": 14,
        "num_channels": 3,
    },
}


def read(**changes: object) -> ModelArchitecture:
    """Read the model with other fields."""
    facts = Facts({**TEXT, **changes}, "minicpmv")
    known = readers()
    label = Label(name="tiny", architecture="MiniCPMV", readers=known)
    return known["MiniCPMV"](facts, label)


def elements(model: ModelArchitecture, part: str) -> int:
    """Elements of a part of the tower on one GPU."""
    return sum(
        tensor.elements
        for module in model.towers[0].modules
        if module.name.startswith(part)
        for tensor in module.tensors(ParallelLayout())
    )


def test_the_tower() -> None:
    """Patches 8 x 3 x 14 x 14 + 8, four positions of 8, norms of a layer and behind.

    A layer: qkv 3 x (8 x 8 + 8), out 8 x 8 + 8, MLP 12 x 8 + 12 and 8 x 12 + 8.
    """
    layer = 3 * 72 + 72 + 108 + 104 + 2 * 16
    assert elements(read(), "vpm.") == 8 * 588 + 8 + 4 * 8 + layer + 16


def test_the_resampler() -> None:
    """Four queries, attention, three norms, a projection, 8 -> 256; no positions.

    Those, 70 x 70 of them and 36,000 moments in 4.5, stay on the CPU.
    """
    size = 256
    attention = 4 * size * size + 4 * size
    whole = 4 * size + attention + 6 * size + size * size + 8 * size
    assert elements(read(), "resampler.") == whole
    later = read(version=4.5, head_dim=128)
    assert elements(later, "resampler.") == whole


def test_what_it_takes() -> None:
    """Ten slices of four tokens; videos of 16 frames since 2.6."""
    items = {item.modality: item for item in read().towers[0].items}
    assert items["image"].tokens == 10 * 4
    assert (items["video"].tokens, items["video"].most_parts) == (4, 16)
    assert read(version=None).towers[0].modalities == ("image",)


def test_a_last_layer_may_be_left_out() -> None:
    """The layer of 532 elements."""
    fewer = read(drop_vision_last_layer=True)
    assert elements(read(), "vpm.") - elements(fewer, "vpm.") == 532


@pytest.mark.parametrize("version", ["2.0", "3.0", "4.5.1"])
def test_other_releases_are_named(version: str) -> None:
    """2.0 has a tower of another library."""
    with pytest.raises(UnknownArchitecture, match="version"):
        read(version=version)
