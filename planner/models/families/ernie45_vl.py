"""ERNIE 4.5 VL: experts for words and others for images, a rotary table in each layer.

Source: vLLM 0.33.0 `models/ernie45_vl.py`, `models/ernie45_vl_moe.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.engine.layout import ParallelLayout
from planner.errors import Refused
from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.experts import FusedMoE
from planner.models.families.assembly import Frame, Label, assemble
from planner.models.families.composite import composed
from planner.models.families.decoder import (
    attention,
    attention_shape,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.rope import rope_cache
from planner.models.families.towers import blocks, items
from planner.models.families.towers.blocks import IMAGE_AND_VIDEO
from planner.models.layers import Condition, Module, Part, Replicated, ReplicatedLinear

_RENAMES = (
    ("lm_head.", "language_model.lm_head."),
    ("model.resampler_model.", "resampler_model."),
    ("model.", "language_model.model."),
)
_MARKS = ("image_start", "image_end", "video_start", "video_end")


def read_ernie_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return ERNIE 4.5 VL by the configuration class that its checkpoints bring along.

    Source: vLLM 0.33.0 `models/ernie45_vl.py` Ernie4_5_VLMoeForConditionalGeneration.
    """
    tied = facts.flag("tie_word_embeddings", default=True)
    frame = Frame(facts.integer("hidden_size"), is_tied=tied)
    numbers = range(facts.integer("num_hidden_layers"))
    layers = [_layer(facts, index) for index in numbers]
    experts = _experts_of(facts)[0]
    model = assemble(facts, label, frame, layers, num_experts=experts)
    whole = composed(facts, label, model, _tower(facts), renames=_RENAMES)
    if tied:
        name, part = "language_model.lm_head", Part.LM_HEAD
        head = Condition(name=name, part=part, check=_check_head)
        whole = replace(whole, every_stage=(*whole.every_stage, head))
    return _with_marks(whole, facts)


def _with_marks(model: ModelArchitecture, facts: Facts) -> ModelArchitecture:
    """Return the model with the numbers of the words that stand for images."""
    if not facts.value("im_patch_id"):
        return model
    count = 1 + sum(facts.value(f"{mark}_token_id") is not None for mark in _MARKS)
    cache = Replicated("visual_token_ids", Part.BUFFERS, ((count,),), dtype="int64")
    return replace(model, every_stage=(*model.every_stage, cache))


def _check_head(layout: ParallelLayout) -> None:
    """Refuse several stages: the class ties the head on each, also where none is.

    Source: vLLM 0.33.0 `models/ernie45_vl_moe.py` Ernie4_5_VLMoeForCausalLM.
    """
    if layout.pipeline_parallel_size > 1:
        raise Refused(
            "AttributeError: 'PPMissingLayer' object has no attribute 'tie_weights'"
        )


def _pair(facts: Facts, name: str, default: int | None = None) -> tuple[int, int]:
    """Return a field's numbers for words and for images.

    Raises:
        UnknownArchitecture: when it does not hold both.
    """
    value = facts.value(name)
    if value is None and default is not None:
        return default, default
    if not isinstance(value, list | tuple) or len(value) < len(("text", "vision")):
        raise facts.unsupported(name, "one number for words and one for images is.")
    return int(value[0]), int(value[1])


def _experts_of(facts: Facts) -> tuple[int, int]:
    of_words, of_images = _pair(facts, "moe_num_experts")
    if of_words != of_images:
        raise facts.unsupported("moe_num_experts", "vLLM's class takes equal ones.")
    return of_words, of_images


def _layer(facts: Facts, index: int) -> LayerKind:
    """Source: vLLM 0.33.0 `models/ernie45_vl_moe.py` Ernie4_5_VLMoeDecoderLayer."""
    shape = attention_shape(facts, qkv_bias=facts.flag("use_bias"))
    # Each layer makes a table of its own, which get_rope would have shared.
    rope = {"rope_theta": 1.0, "mrope_section": (), "rope_type": "default"}
    tables = rope_cache(
        Facts({"rope_parameters": rope}, ""),
        shape.head_size,
        max_position=facts.integer("max_position_embeddings", default=131_072),
    )
    own = tuple(replace(t, name="self_attn.rotary_emb.cos_sin_cache") for t in tables)
    mlp = tuple(_experts(facts, index)) if _is_sparse(facts, index) else _mlp(facts)
    modules = (*attention(shape), *own, *mlp, norms(shape.hidden_size))
    return LayerKind((kv_of(shape),), modules)


def _mlp(facts: Facts) -> tuple[Module, ...]:
    return gated_mlp(
        facts.integer("hidden_size"),
        facts.integer("intermediate_size"),
        bias=facts.flag("use_bias"),
    )


def _span(facts: Facts) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the first layers with experts, and the last, for words and for images."""
    last = facts.integer("num_hidden_layers") - 1
    return (
        _pair(facts, "moe_layer_start_index"),
        _pair(facts, "moe_layer_end_index", default=last),
    )


def _is_sparse(facts: Facts, index: int) -> bool:
    starts, ends = _span(facts)
    interval = facts.integer("moe_layer_interval", default=1)
    is_used = facts.flag("use_moe", default=max(_experts_of(facts)) > 0)
    is_within = min(starts) <= index <= max(ends)
    return is_used and is_within and (index + 1) % interval == 0


def _experts(facts: Facts, index: int) -> Iterator[Module]:
    """Yield both kinds of experts, beside those that both share.

    Source: vLLM 0.33.0 `models/ernie45_vl_moe.py` Ernie4_5_VLMoeMoE.
    """
    counts, sizes = _experts_of(facts), _pair(facts, "moe_intermediate_size")
    starts, ends = _span(facts)
    yield Replicated(
        "mlp.e_score_correction_bias", Part.ROUTER, ((2, counts[0]),), dtype="float32"
    )
    shared = facts.optional_integer("moe_num_shared_experts") or 0
    if shared:
        yield from gated_mlp(
            facts.integer("hidden_size"),
            sizes[0] * shared,
            part=Part.SHARED_EXPERTS,
            name="mlp.shared_experts",
        )
    for which, kind in enumerate(("text", "vision")):
        if starts[which] <= index <= ends[which]:
            yield from _routed(facts, f"mlp.{kind}_experts", counts[0], sizes[which])
        else:
            yield from _mlp(facts)


def _routed(facts: Facts, name: str, count: int, size: int) -> tuple[Module, ...]:
    hidden_size = facts.integer("hidden_size")
    return (
        ReplicatedLinear(
            f"{name}_gate", Part.ROUTER, hidden_size, (count,), dtype="float32"
        ),
        FusedMoE(
            name=name,
            num_experts=count,
            top_k=facts.integer("moe_k"),
            hidden_size=hidden_size,
            intermediate_size=size,
            is_renormalized=False,  # softmax with a bias has no kernel of its own
        ),
    )


def _tower(facts: Facts) -> Tower:
    vision = Facts(facts.mapping("vision_config"), "")
    return Tower(
        IMAGE_AND_VIDEO,
        (*_encoder(vision, "vision_model"), *_resampler(facts)),
        items=items.ernie_vl_items(vision, facts.integer("temporal_conv_size")),
        gathers_attention=True,
    )


def _encoder(vision: Facts, name: str) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/ernie45_vl.py` Ernie4_5_VisionTransformer."""
    size, heads, depth = vision.integers("embed_dim", "num_heads", "depth")
    patch = vision.integer("in_channels") * vision.integer("patch_size") ** 2
    frequencies = -(-(size // heads // 2) // 2)
    wide = int(size * vision.number("mlp_ratio"))
    yield blocks.replicated(f"{name}.patch_embed.proj", (size, patch))
    yield blocks.replicated(f"{name}.rotary_pos_emb", (frequencies,), dtype="float32")
    sizes = blocks.Sizes(size, heads, wide, depth)
    yield from blocks.layers(f"{name}.blocks", sizes, blocks.VIT)
    yield blocks.norms(f"{name}.ln", size, bias=True)


def _resampler(facts: Facts) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/ernie45_vl.py` VariableResolutionResamplerModel."""
    name, out = "resampler_model", facts.integer("hidden_size")
    wide = facts.integer("pixel_hidden_size") * facts.integer("spatial_conv_size") ** 2
    in_time = facts.integer("temporal_conv_size") * wide
    layers = [("spatial_linear1", wide, wide), ("spatial_linear2", wide, wide)]
    if facts.flag("use_temporal_conv"):
        layers += [
            ("temporal_linear1", in_time, wide),
            ("temporal_linear2", wide, wide),
        ]
    linear = [blocks.column(f"{name}.{n}", i, o, bias=True) for n, i, o in layers]
    return (
        *blocks.unquantised(
            *linear, blocks.column(f"{name}.mlp", wide, out, bias=True)
        ),
        blocks.norms(f"{name}.norm", wide, count=len(layers) // 2, bias=True),
        blocks.norms(f"{name}.after_norm", out, bias=False),
    )


READERS = {"Ernie4_5_VLMoeForConditionalGeneration": read_ernie_vl}
