"""Nemotron Parse: an image read by mBART's decoder."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.caches import CrossAttentionLayer
from planner.models.families.assembly import Label, Placement
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    kv_of,
    norms,
    plain_mlp,
)
from planner.models.families.facts import Facts
from planner.models.families.layered import Frame, decoder
from planner.models.families.multimodal import composed, model_dtype, sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.radio import radio
from planner.models.layers import Module

_ATTENDING = "NemotronParseForConditionalGeneration"

_SPATIAL, _SUMMARY = 1280, 3840
"""Widths of what Nemotron Parse's tower gives, where the config does not say."""


def read_nemotron_parse(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Nemotron Parse: an image read by mBART's decoder, in one pipeline stage.

    That of 3.5 continues the image, that of earlier ones attends to it. Its class says
    that it has an encoder, unless the config says otherwise: then no prompt is split.

    Source: vLLM 0.33.0 `models/nemotron_parse.py`, `models/nemotron_parse3_5.py`;
    `transformers_utils/config.py` is_encoder_decoder; Transformers' MBartConfig.
    """
    attends = label.architecture == _ATTENDING
    text = sub_config(facts, "decoder", "mbart")
    tied = facts.flag("tie_word_embeddings") or text.flag("tie_word_embeddings")
    layers = text.integer("decoder_layers")
    model = decoder(
        Facts({**text.config, "dtype": model_dtype(facts, text.config)}, "mbart"),
        label,
        Frame(
            hidden_size=text.integer("d_model"),
            placement=Placement.EVERYWHERE,
            is_tied=tied,
            norm_bias=True,
            extra_final=(norms(text.integer("d_model"), count=1, bias=True),),
        ),
        (_mbart_layer(text, attends=attends),) * layers,
        is_encoder_decoder=facts.flag("is_encoder_decoder")
        or text.flag("is_encoder_decoder", default=True),
    )
    width = text.integer("d_model")
    spatial = facts.integer("vision_spatial_dim", default=_SPATIAL)
    summary = facts.integer("vision_summary_dim", default=_SUMMARY)
    tower = Tower(
        modalities=("image",),
        modules=(*_parse_tower(facts), *_neck(width, spatial, summary)),
    )
    whole = composed(facts, label, model, tower, prefix="decoder.")
    return replace(whole, supports_pp=False)


def _parse_tower(facts: Facts) -> tuple[Module, ...]:
    """Return RADIO, all of whose settings are in args."""
    args = dict(facts.mapping("encoder").get("args") or {})
    given = {"args": args, "patch_size": args.get("patch_size", 16)}
    return radio(Facts({"vision_config": given}, facts.model_type))


def _neck(width: int, spatial: int, summary: int) -> tuple[Module, ...]:
    name = "encoder"
    return (
        blocks.convolution(f"{name}.conv1", width, spatial, 1, bias=True),
        blocks.convolution(f"{name}.conv2", width, width, 1, 4, bias=False),
        blocks.norms(f"{name}.layer_norm", width, count=3, bias=True),
        blocks.column(f"{name}.sum_proj", summary, width, bias=True),
    )


def _mbart_layer(facts: Facts, *, attends: bool) -> LayerKind:
    size, heads = facts.integer("d_model"), facts.integer("decoder_attention_heads")
    shape = AttentionShape(
        hidden_size=size,
        num_heads=heads,
        num_kv_heads=heads
        if attends
        else facts.integer("self_attention_kv_heads", default=heads),
        head_size=size // heads,
        qkv_bias=True,
        output_bias=True,
    )
    wide = facts.integer("encoder_ffn_dim" if attends else "decoder_ffn_dim")
    modules = (*attention(shape), *plain_mlp(size, wide), norms(size, bias=True))
    if not attends:
        return LayerKind(caches=(kv_of(shape),), modules=modules)
    crossed = CrossAttentionLayer(
        num_heads=heads, num_kv_heads=heads, head_size=size // heads
    )
    own = (*attention(shape), norms(size, count=1, bias=True))
    return LayerKind(caches=(kv_of(shape), crossed), modules=(*modules, *own))


READERS = {
    "RadioMBartPrefixForCausalLM": read_nemotron_parse,
    "NemotronParseForConditionalGeneration": read_nemotron_parse,
}
