"""The vision towers of CLIP and SigLIP, which differ in little."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.layers import Module
from planner.models.passes import Attention, TowerPass, block_pass
from planner.values import frozen


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
    size, heads = facts.integers("hidden_size", "num_attention_heads")
    length = _patches(facts) + int(has_class_token)
    attention = Attention(num_heads=heads, head_size=size // heads, length=length)
    is_clip = facts.model_type.startswith("clip")
    activation = facts.value("hidden_act") or ("quick_gelu" if is_clip else "")
    wide = facts.integer("intermediate_size")
    passed = block_pass(size, wide, beside=4)
    mlp, *others = passed.moments
    mlp = replace(mlp, native=wide if activation == "quick_gelu" else 0)
    return replace(passed, moments=(mlp, *others), attention=attention)


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
    return (
        blocks.replicated(f"{name}.embeddings.class_embedding", (size,)),
        _patch_embedding(facts, name, bias=False),
        *_positions(name, _patches(facts) + 1, size),
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
    size, wide = facts.integers("hidden_size", "intermediate_size")
    name = f"{name}.vision_model"
    takes_any = quant_method in ("bitsandbytes", "torchao")
    is_quantizable = takes_any or not (size % 64 or wide % 64)
    return (
        _patch_embedding(facts, name, bias=True),
        *_positions(name, _patches(facts), size),
        *_encoder(facts, name, depth, is_mlp_quantizable=is_quantizable),
    )


def idefics_vision(
    facts: Facts, name: str, depth: Depth = ALL_LAYERS
) -> tuple[Module, ...]:
    """Return the vision model of Idefics 3, SigLIP's with positions of any image.

    Source: vLLM 0.33.0 `models/idefics2_vision_model.py` Idefics2VisionTransformer.
    """
    positions = (_patches(facts), facts.integer("hidden_size"))
    return (
        _patch_embedding(facts, name, bias=True),
        blocks.replicated(f"{name}.embeddings.position_embedding", positions),
        *_encoder(facts, name, depth, is_mlp_quantizable=True),
    )


def _patches(facts: Facts) -> int:
    return (facts.integer("image_size") // facts.integer("patch_size")) ** 2


def _patch_embedding(facts: Facts, name: str, *, bias: bool) -> Module:
    size, channels, patch = facts.integers("hidden_size", "num_channels", "patch_size")
    name = f"{name}.embeddings.patch_embedding"
    return blocks.convolution(name, size, channels, patch, patch, bias=bias)


def _positions(name: str, count: int, size: int) -> tuple[Module, ...]:
    """Return learned positions and the buffer of their numbers."""
    return (
        blocks.replicated(f"{name}.embeddings.position_embedding", (count, size)),
        blocks.replicated(f"{name}.embeddings.position_ids", (count,), dtype="int64"),
    )


def _encoder(
    facts: Facts, name: str, depth: Depth, *, is_mlp_quantizable: bool
) -> Iterator[Module]:
    sizes = blocks.Sizes.of(facts)
    built = sizes.depth if depth.num_layers is None else depth.num_layers
    if built > sizes.depth:
        raise facts.unsupported(
            "num_hidden_layers", f"features of layer {built} are requested."
        )
    layer = list(blocks.layer(sizes))
    if not is_mlp_quantizable:
        layer[-2:] = blocks.unquantised(*layer[-2:])
    yield from blocks.repeated(f"{name}.encoder.layers", built, *layer)
    is_whole = built == sizes.depth
    if is_whole if depth.has_post_norm is None else depth.has_post_norm:
        yield blocks.norms(f"{name}.post_layernorm", sizes.width, bias=True)
