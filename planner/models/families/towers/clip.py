"""The vision towers of CLIP and SigLIP, which differ in little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.layers import Module
from planner.models.passes import Attention, TowerPass, block_pass
from planner.values import frozen

QKV = ("q_proj", "k_proj", "v_proj")


@frozen
class Depth:
    """How far vLLM builds a tower."""

    num_layers: int | None = None
    """None: all layers."""
    has_post_norm: bool | None = None
    """None: only where all layers are built."""


ALL_LAYERS = Depth()


def selected_layers(facts: Facts, num_layers: int) -> int:
    """Return up to which layer features are used, the last counted as -1.

    Args:
        facts: the outer config.
        num_layers: layers of the tower as published.

    Source: vLLM 0.33.0 `models/llava.py` _get_num_hidden_layers,
    `models/utils.py` get_layer_index.
    """
    chosen = facts.value("vision_feature_layer")
    several = chosen if isinstance(chosen, Sequence) else (chosen,)
    if not several or not all(isinstance(layer, int) for layer in several):
        raise facts.unsupported("vision_feature_layer", "a layer or several are.")
    return max(int(at) + (num_layers + 1 if at < 0 else 0) for at in several)


def encoder_pass(facts: Facts, *, has_class_token: bool = False) -> TowerPass:
    """Return the widest points of CLIP's and SigLIP's encoder.

    Beside the MLP there are the input of the first layer and of this one, the
    residual, and the norm's output.

    Source: vLLM 0.33.0 `models/clip.py` CLIPEncoderLayer; `models/siglip.py`
    SiglipEncoderLayer, SiglipMLP.
    """
    size, heads = facts.integer("hidden_size"), facts.integer("num_attention_heads")
    patches = (facts.integer("image_size") // facts.integer("patch_size")) ** 2
    attention = Attention(
        num_heads=heads,
        head_size=size // heads,
        length=patches + int(has_class_token),
    )
    passed = block_pass(size, facts.integer("intermediate_size"), beside=4)
    return replace(passed, attention=attention)


def clip_vision(
    facts: Facts, name: str, depth: Depth = ALL_LAYERS
) -> tuple[Module, ...]:
    """Return CLIP's vision model. Source: vLLM 0.33.0 `models/clip.py`."""
    return clip_layers(facts, f"{name}.vision_model", depth)


def clip_layers(
    facts: Facts, name: str, depth: Depth = ALL_LAYERS
) -> tuple[Module, ...]:
    """Return the layers of CLIP's vision model, under a name of their own."""
    size = facts.integer("hidden_size")
    patches = (facts.integer("image_size") // facts.integer("patch_size")) ** 2
    return (
        blocks.replicated(f"{name}.embeddings.class_embedding", (size,)),
        _patch_embedding(facts, name, bias=False),
        *_positions(name, patches + 1, size),
        blocks.norms(f"{name}.pre_layrnorm", size, bias=True),
        *_encoder(facts, name, depth, is_mlp_quantizable=True),
    )


def siglip_vision(
    facts: Facts, name: str, depth: Depth = ALL_LAYERS, *, quant_method: object = None
) -> tuple[Module, ...]:
    """Return SigLIP's vision model, without the head that pools its output.

    Few quantisation methods take an MLP whose sizes 64 does not divide; `quant_method`
    is the checkpoint's.

    Source: vLLM 0.33.0 `models/siglip.py` SiglipVisionModel, SiglipMLP.
    """
    size = facts.integer("hidden_size")
    name = f"{name}.vision_model"
    patches = (facts.integer("image_size") // facts.integer("patch_size")) ** 2
    is_divisible = not (size % 64 or facts.integer("intermediate_size") % 64)
    return (
        _patch_embedding(facts, name, bias=True),
        *_positions(name, patches, size),
        *_encoder(
            facts,
            name,
            depth,
            is_mlp_quantizable=is_divisible
            or quant_method in ("bitsandbytes", "torchao"),
        ),
    )


def idefics_vision(
    facts: Facts, name: str, depth: Depth = ALL_LAYERS
) -> tuple[Module, ...]:
    """Return the vision model of Idefics 3, SigLIP's with positions of any image.

    Source: vLLM 0.33.0 `models/idefics2_vision_model.py` Idefics2VisionTransformer.
    """
    size = facts.integer("hidden_size")
    patches = (facts.integer("image_size") // facts.integer("patch_size")) ** 2
    return (
        _patch_embedding(facts, name, bias=True),
        blocks.replicated(f"{name}.embeddings.position_embedding", (patches, size)),
        *_encoder(facts, name, depth, is_mlp_quantizable=True),
    )


def _patch_embedding(facts: Facts, name: str, *, bias: bool) -> Module:
    patch = facts.integer("patch_size")
    return blocks.convolution(
        f"{name}.embeddings.patch_embedding",
        facts.integer("hidden_size"),
        facts.integer("num_channels"),
        patch,
        patch,
        bias=bias,
    )


def _positions(name: str, count: int, size: int) -> tuple[Module, ...]:
    """Return learned positions and the buffer of their numbers."""
    return (
        blocks.replicated(f"{name}.embeddings.position_embedding", (count, size)),
        blocks.replicated(f"{name}.embeddings.position_ids", (count,), dtype="int64"),
    )


def _encoder(
    facts: Facts, name: str, depth: Depth, *, is_mlp_quantizable: bool
) -> tuple[Module, ...]:
    size, mlp_size = facts.integer("hidden_size"), facts.integer("intermediate_size")
    published = facts.integer("num_hidden_layers")
    built = published if depth.num_layers is None else depth.num_layers
    if built > published:
        raise facts.unsupported(
            "num_hidden_layers", f"features of layer {built} are requested."
        )
    modules: list[Module] = []
    for index in range(built):
        layer = f"{name}.encoder.layers.{index}"
        mlp = blocks.plain_mlp(f"{layer}.mlp.fc1", f"{layer}.mlp.fc2", size, mlp_size)
        modules += [
            blocks.norms(f"{layer}.layer_norm", size, count=2, bias=True),
            blocks.qkv(
                f"{layer}.self_attn.qkv_proj",
                size,
                facts.integer("num_attention_heads"),
                bias=True,
                shards=QKV,
            ),
            blocks.row(f"{layer}.self_attn.out_proj", size, size, bias=True),
            *(replace(m, is_quantizable=is_mlp_quantizable) for m in mlp),
        ]
    is_whole = built == published
    if is_whole if depth.has_post_norm is None else depth.has_post_norm:
        modules.append(blocks.norms(f"{name}.post_layernorm", size, bias=True))
    return tuple(modules)
