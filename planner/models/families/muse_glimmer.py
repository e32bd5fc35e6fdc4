"""Muse Glimmer: gated attention in windows, with a tower for images and videos."""

from __future__ import annotations

from collections.abc import Iterable

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families import llama
from planner.models.families.assembly import Label, Placement
from planner.models.families.composite import (
    Tie,
    composed,
    sub_config,
    text_facts,
)
from planner.models.families.decoder import AttentionShape, attention
from planner.models.families.facts import Facts
from planner.models.families.styles import Style
from planner.models.families.towers import blocks, items
from planner.models.families.towers.blocks import IMAGE_AND_VIDEO
from planner.models.layers import ColumnParallelLinear, Module, Part
from planner.models.passes import Moment, TowerPass

RENAMES = (
    ("model.language_model.", "model."),
    ("language_model.", "model."),
    ("model.vision_tower.", "vision_encoder."),
    ("vision_tower.", "vision_encoder."),
    ("model.vision_encoder.", "vision_encoder."),
    ("model.vision_adapter.", "vision_adapter."),
    ("model.vision_projection.", "vision_projection."),
)


def _gated_attention(_facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    wide = shape.num_heads * shape.head_size
    name, size = "self_attn.output_gate_proj", shape.hidden_size
    gate = ColumnParallelLinear(name, Part.ATTENTION, size, (wide,))
    return (*attention(shape), gate)


_TEXT = Style(
    fields={"tie_word_embeddings": False},
    attention=_gated_attention,
    norm_count=4,
    has_layer_windows=True,
    placement=Placement.EVERYWHERE,
)


def read_muse_glimmer_text(facts: Facts, label: Label) -> ModelArchitecture:
    """Return the language model of Muse Glimmer.

    Source: vLLM 0.33.0 `models/muse_glimmer.py` MuseGlimmerModel.
    """
    return llama.read(facts, label, style=_TEXT)


def read_muse_glimmer(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Muse Glimmer with its tower, which a config of the text alone lacks.

    Source: vLLM 0.33.0 `models/muse_glimmer.py` MuseGlimmerForCausalLM.
    """
    if facts.model_type == "muse_glimmer_text":
        return read_muse_glimmer_text(facts, label)
    text = text_facts(facts, "muse_glimmer_text", tie=Tie.INNER)
    model = read_muse_glimmer_text(text, label)
    towers = _towers(facts, model)
    return composed(facts, label, model, *towers, prefix="", renames=RENAMES)


def _towers(facts: Facts, model: ModelArchitecture) -> tuple[Tower, ...]:
    """Return attention, which ranks cut where they divide its heads, and the rest.

    Nothing of either is quantised.
    """
    vision = sub_config(facts, "vision_config", "muse_glimmer_vision")
    size, heads = vision.integers("hidden_size", "num_attention_heads")
    attention = blocks.repeated(
        "vision_encoder.transformer",
        vision.integer("num_hidden_layers"),
        blocks.qkv("attn.qkv_proj", size, heads, bias=True),
        blocks.row("attn.o_proj", size, size, bias=True),
    )
    return (
        Tower(
            IMAGE_AND_VIDEO,
            blocks.unquantised(*attention),
            items=items.muse_glimmer_items(vision),
            forward=_vision_pass(size, size // heads),
            whole_unless_heads_divide=heads,
        ),
        Tower(
            IMAGE_AND_VIDEO,
            tuple(_whole_parts(facts, vision, model)),
            forward=_mlp_pass(size, size // heads, vision.integer("intermediate_size")),
        ),
    )


def _vision_pass(size: int, head_size: int) -> TowerPass:
    """Return the widest point: queries and keys side by side, rotated in fp32.

    They are there as joined, in fp32 before and after, and cast back. The frames' own
    hidden states and rotary tables stay in lists beside all of them.

    Source: vLLM 0.33.0 `models/muse_glimmer.py` MuseGlimmerVisionEncoder,
    MuseGlimmerVisionAttention; `layers/rotary_embedding/common.py` ApplyRotaryEmb.
    """
    rotating = Moment(
        "rotating", whole=3 * size + 4 * head_size, cut=(3 + 2 * (1 + 2 + 2 + 1)) * size
    )
    return TowerPass(moments=(rotating,))


def _mlp_pass(size: int, head_size: int, mlp_size: int) -> TowerPass:
    """Return the MLP, which every rank computes in full, before and after its GELU.

    Beside them are the frames' hidden states and rotary tables, joined and in lists.

    Source: vLLM 0.33.0 `models/muse_glimmer.py` MuseGlimmerVisionMLP.forward; a traced
    dry run of Muse-Glimmer-30B on four ranks.
    """
    held = 4 * size + 4 * head_size
    return TowerPass(moments=(Moment("MLP", whole=held + 2 * mlp_size),))


def _whole_parts(
    facts: Facts, vision: Facts, model: ModelArchitecture
) -> Iterable[Module]:
    """Return what every rank holds in full, the MLPs among it."""
    name, size = "vision_encoder", vision.integer("hidden_size")
    mlp_size, patch = vision.integers("intermediate_size", "patch_size")
    pixels = vision.integer("patch_temporal") * 3 * patch**2
    positions = vision.integer("pos_emb_height") * vision.integer("pos_emb_width")
    yield blocks.replicated(f"{name}.positional_embedding_vlm", (positions, size))
    yield blocks.replicated(f"{name}.conv1_linear", (size, pixels))
    yield blocks.norms(f"{name}.ln", size, count=2, bias=True)
    yield from blocks.repeated(
        f"{name}.transformer",
        vision.integer("num_hidden_layers"),
        blocks.norms("ln", size, count=2, bias=True),
        blocks.two_layers("mlp", size, size, between=mlp_size),
    )
    merged = facts.integer("out_hidden_size")
    inner = facts.integer("projector_hidden_size")
    yield blocks.replicated("vision_adapter", (inner, merged), (inner, inner))
    yield blocks.replicated("vision_projection", (model.hidden_size, inner))


READERS = {
    "MuseGlimmerForCausalLM": read_muse_glimmer,
    "MuseGlimmerForConditionalGeneration": read_muse_glimmer,
}
