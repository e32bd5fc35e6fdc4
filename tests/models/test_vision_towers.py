"""Towers of CLIP, SigLIP, Pixtral, MoonViT, Llama 4, Molmo and Muse Glimmer."""

from typing import Any

import pytest

from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.engine.settings import EngineSettings
from planner.errors import UnknownArchitecture
from planner.memory.media.towers import tower_layout
from planner.models.families.facts import Facts
from planner.models.families.llama4 import llama4_towers
from planner.models.families.llava import pixtral_vision
from planner.models.families.moonvit import moonvit_3d_tower
from planner.models.families.towers.clip import (
    Depth,
    clip_vision,
    selected_layers,
    siglip_vision,
)
from planner.models.layers import Module
from tests.configs import architecture

TINY: dict[str, Any] = {
    "hidden_size": 8,
    "intermediate_size": 6,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_channels": 3,
    "image_size": 4,
    "patch_size": 2,
}
BLOCK = 4 * 8 + (24 * 8 + 24) + (8 * 8 + 8) + (6 * 8 + 6) + (8 * 6 + 8)
"""Two norms, qkv, output and an MLP, all with biases, of width 8 and 6."""

LLAMA_TEXT: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 128,
}
LLAVA: dict[str, Any] = {
    "architectures": ["LlavaForConditionalGeneration"],
    "model_type": "llava",
    "dtype": "float16",
    "text_config": LLAMA_TEXT,
    "vision_config": {**TINY, "model_type": "clip_vision_model"},
}


def elements(modules: tuple[Module, ...], ranks: int = 1) -> int:
    """Elements of all tensors on one rank."""
    layout = ParallelLayout(tensor_parallel_size=ranks)
    return sum(t.elements for m in modules for t in m.tensors(layout))


def test_clip_counts_its_class_and_its_first_norm() -> None:
    """5 positions of 4 patches and a class; patches 8 x 12; norms of 16 before, after.

    With one of two layers built the last norm is left out.
    """
    facts = Facts(TINY, "clip_vision_model")
    outside = 8 + 96 + 5 * 8 + 5 + 16
    assert outside + 2 * BLOCK + 16 == elements(clip_vision(facts, "t"))
    one = Depth(num_layers=1)
    assert outside + BLOCK == elements(clip_vision(facts, "t", one))


def test_siglip_quantises_its_mlp_only_where_64_divides_its_sizes() -> None:
    """Not with 8 and 6, unless the method takes any size."""
    small = Facts(TINY, "siglip_vision_model")
    large = Facts(
        {**TINY, "hidden_size": 64, "intermediate_size": 128}, "siglip_vision_model"
    )

    def quantised(facts: Facts, method: str) -> bool:
        modules = siglip_vision(facts, "t", quant_method=method)
        (mlp,) = (m for m in modules if m.name.endswith("layers.0.mlp.fc1"))
        return bool(getattr(mlp, "is_quantizable", None))

    assert not quantised(small, "fp8")
    assert quantised(small, "bitsandbytes")
    assert quantised(large, "fp8")


@pytest.mark.parametrize(
    ("chosen", "layers"), [(-1, 24), (-2, 23), (7, 7), ([-2, 5], 23)]
)
def test_layers_behind_the_last_feature_are_not_built(
    chosen: object, layers: int
) -> None:
    """-1 is the last of 24, of several the deepest counts."""
    facts = Facts({"vision_feature_layer": chosen}, "llava")
    assert layers == selected_layers(facts, 24)


def test_features_of_a_layer_that_is_not_there_are_refused() -> None:
    """Layer 3 of 2, for both kinds of tower."""
    facts = Facts(TINY, "pixtral")
    with pytest.raises(UnknownArchitecture, match="num_hidden_layers"):
        tuple(pixtral_vision(facts, "t", 3))
    with pytest.raises(UnknownArchitecture, match="num_hidden_layers"):
        clip_vision(facts, "t", Depth(num_layers=3))


def test_pixtral_has_gated_blocks_without_biases() -> None:
    """Patches 96, norm 8, frequencies 2 + 2; block: norms 16, 4 x 64, 3 x 48."""
    modules = tuple(pixtral_vision(Facts(TINY, "pixtral"), "t", 1))
    assert 96 + 8 + 4 + 16 + 256 + 144 == elements(modules)


def test_llava_builds_a_layer_less_and_two_linear_layers() -> None:
    """CLIP's first of two layers without the last norm; 8 to 16 to 16 with biases."""
    (tower,) = architecture(LLAVA).towers
    clip = 8 + 96 + 40 + 5 + 16 + BLOCK
    assert clip + (128 + 16) + (256 + 16) == elements(tower.modules)


def test_llava_next_holds_a_line_break_and_projects_several_features_at_once() -> None:
    """16 numbers for the break, and 2 x 8 inputs for two layers' features."""
    config = {
        **LLAVA,
        "architectures": ["LlavaNextForConditionalGeneration"],
        "vision_feature_layer": [-2, 1],
    }
    (tower,) = architecture(config).towers
    clip = 8 + 96 + 40 + 5 + 16 + BLOCK
    assert clip + 16 + (256 + 16) + (256 + 16) == elements(tower.modules)


def test_mistral3_merges_four_patches_before_its_projector() -> None:
    """Norm 8 and 8 x 32, then 8 to 16 to 16 without biases."""
    config = {
        **LLAVA,
        "architectures": ["Mistral3ForConditionalGeneration"],
        "model_type": "mistral3",
        "text_config": {**LLAMA_TEXT, "model_type": "mistral"},
        "vision_config": {**TINY, "model_type": "pixtral"},
        "tie_word_embeddings": False,
    }
    (tower,) = architecture(config).towers
    pixtral = 96 + 8 + 4 + 2 * (16 + 256 + 144)
    assert pixtral + 8 + 256 + 128 + 256 == elements(tower.modules)


def test_mistrals_own_format_was_not_cut_before_0_20() -> None:
    """Where params.json comes first, since 0.12.0; who quantises publishes none."""
    config = {
        "architectures": ["Mistral3ForConditionalGeneration"],
        "model_type": "mistral3",
        "text_config": {**LLAMA_TEXT, "model_type": "mistral"},
        "vision_config": {**TINY, "model_type": "pixtral"},
        "tie_word_embeddings": False,
    }
    quantised = {"quant_method": "fp8", "activation_scheme": "dynamic"}

    def ranks(version: tuple[int, int, int], **changes: object) -> int:
        (tower,) = architecture({**config, **changes}).towers
        layout = ParallelLayout(tensor_parallel_size=2, release=Release(version))
        return tower_layout(tower, layout, EngineSettings()).tensor_parallel_size

    assert [2, 1, 1, 2] == [
        ranks(version) for version in ((0, 11, 2), (0, 12, 0), (0, 19, 1), (0, 20, 0))
    ]
    assert 2 == ranks((0, 19, 1), quantization_config=quantised)


def test_moonvit_is_whole_where_the_ranks_do_not_divide_its_heads() -> None:
    """Two heads over three ranks; over two it is cut."""
    facts = Facts({**TINY, "pos_emb_height": 2, "pos_emb_width": 2}, "kimi_k25_vision")
    tower = moonvit_3d_tower(facts, 16)
    settings = EngineSettings()
    three, two = (
        tower_layout(tower, ParallelLayout(tensor_parallel_size=ranks), settings)
        for ranks in (3, 2)
    )
    assert (1, 2) == (three.tensor_parallel_size, two.tensor_parallel_size)


def test_moonvit_counts_positions_in_space_and_time() -> None:
    """Patches 8 x 12 + 8, positions (2 x 2 + 4) x 8, last norm 16, two blocks.

    Projector: norm 16, 32 x 32 + 32, 16 x 32 + 16.
    """
    facts = Facts({**TINY, "pos_emb_height": 2, "pos_emb_width": 2}, "kimi_k25_vision")
    modules = moonvit_3d_tower(facts, 16).modules
    projector = 16 + 1056 + 528
    assert 104 + 64 + 16 + 2 * BLOCK + projector == elements(modules)


def test_llama4_cuts_its_projector_even_where_the_tower_is_whole() -> None:
    """Class 8, 5 positions of 8, patches 96, norms 32, rotary 5 x 2 x 2.

    Adapter 6 to 4 to 4, projector 12 to 16.
    """
    facts = Facts(
        {
            **TINY,
            "vision_output_dim": 12,
            "projector_input_dim": 4,
            "projector_output_dim": 4,
        },
        "llama4_vision_model",
    )
    tower, projector = llama4_towers(facts, 16)
    outside = 8 + 40 + 96 + 32 + 20
    assert outside + 2 * BLOCK + 24 + 16 == elements(tower.modules)
    assert 12 * 16 == elements(projector.modules)
    settings = EngineSettings(mm_encoder_tp_mode="data")
    layout = ParallelLayout(tensor_parallel_size=2)
    assert tower_layout(tower, layout, settings).tensor_parallel_size == 1
    assert tower_layout(projector, layout, settings).tensor_parallel_size == 2


def test_molmo_keeps_words_for_images_in_its_embeddings_alone() -> None:
    """192 rows of 16 for 64 words and 128 more, 64 in the head."""
    config = {
        "architectures": ["MolmoForCausalLM"],
        "model_type": "molmo",
        "torch_dtype": "float32",
        "hidden_size": 16,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "vocab_size": 64,
        "embedding_size": 64,
        "max_position_embeddings": 128,
        "qkv_bias": True,
    }
    sizes = {m.name: elements((m,)) for m in architecture(config).every_stage}
    assert 192 * 16 == sizes["model.embed_tokens"]
    assert 64 * 16 == sizes["lm_head"]


def test_muse_glimmer_cuts_the_attention_of_its_tower_alone() -> None:
    """Attention of BLOCK's kind over two ranks; MLPs, patches and projector whole.

    Positions 2 x 2 x 8, patches 8 x 24, norms 32; block: norms 32, MLP 54 + 56;
    adapter 4 x 32 + 4 x 4, projection 16 x 4.
    """
    config = {
        "architectures": ["MuseGlimmerForConditionalGeneration"],
        "model_type": "muse_glimmer",
        "out_hidden_size": 32,
        "projector_hidden_size": 4,
        "text_config": {**LLAMA_TEXT, "model_type": "muse_glimmer_text"},
        "vision_config": {**TINY, "pos_emb_height": 2, "pos_emb_width": 2},
    }
    attention, rest = architecture(config).towers
    cut = (24 * 8 + 24) // 2 + 8 * 8 // 2 + 8
    assert 2 * cut == elements(attention.modules, ranks=2)
    whole = 32 + 192 + 32 + 2 * (32 + 54 + 56) + 128 + 16 + 64
    assert whole == elements(rest.modules, ranks=2)


def test_paligemma_projects_siglip_with_a_bias() -> None:
    """One block: patches 104, 4 positions and numbers, norm 16; 16 x 8 + 16."""
    config = {
        "architectures": ["PaliGemmaForConditionalGeneration"],
        "model_type": "paligemma",
        "projection_dim": 16,
        "text_config": {**LLAMA_TEXT, "model_type": "gemma", "head_dim": 8},
        "vision_config": {**TINY, "num_hidden_layers": 1},
    }
    model = architecture(config)
    (tower,) = model.towers
    assert 104 + 36 + BLOCK + 16 + 144 == elements(tower.modules)
    assert all(layer.is_mm_prefix for layer in model.attention_layers)


def test_idefics3_shuffles_pixels_into_one_linear_layer_and_has_no_stages() -> None:
    """Patches 104, 4 positions of 8, two blocks, norm 16; 16 x (8 x 4)."""
    config = {
        "architectures": ["Idefics3ForConditionalGeneration"],
        "model_type": "idefics3",
        "scale_factor": 2,
        "text_config": LLAMA_TEXT,
        "vision_config": TINY,
    }
    model = architecture(config)
    (tower,) = model.towers
    assert 104 + 32 + 2 * BLOCK + 16 + 512 == elements(tower.modules)
    assert not model.supports_pp
