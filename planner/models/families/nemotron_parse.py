"""Nemotron Parse: an image read by mBART's decoder, in one pipeline stage.

That of 3.5 continues the image, that of earlier ones attends to it.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import CrossAttentionLayer
from planner.models.families.assembly import Label, Placement
from planner.models.families.composite import Composite
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    kv_of,
    norms,
    plain_mlp,
)
from planner.models.families.facts import Facts
from planner.models.families.layered import Frame, decoder
from planner.models.families.multimodal import model_dtype, sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.radio import radio
from planner.models.layers import Module

_ATTENDING = "NemotronParseForConditionalGeneration"
_SPATIAL, _SUMMARY = 1280, 3840
"""Widths of what the tower gives, where the config does not say."""


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    """Return mBART's decoder.

    Its class says that it has an encoder, unless the config says otherwise: then no
    prompt is split.

    Source: vLLM 0.33.0 `models/nemotron_parse.py`, `models/nemotron_parse3_5.py`;
    `transformers_utils/config.py` is_encoder_decoder; Transformers' MBartConfig.
    """
    text = sub_config(facts, "decoder", "mbart")
    tied = facts.flag("tie_word_embeddings") or text.flag("tie_word_embeddings")
    size = text.integer("d_model")
    layer = _layer(text, attends=label.architecture == _ATTENDING)
    return decoder(
        Facts({**text.config, "dtype": model_dtype(facts, text.config)}, "mbart"),
        label,
        Frame(
            size,
            placement=Placement.EVERYWHERE,
            is_tied=tied,
            norm_bias=True,
            extra_final=(norms(size, count=1, bias=True),),
        ),
        (layer,) * text.integer("decoder_layers"),
        is_encoder_decoder=facts.flag("is_encoder_decoder")
        or text.flag("is_encoder_decoder", default=True),
    )


def _layer(facts: Facts, *, attends: bool) -> LayerKind:
    size, heads = facts.integers("d_model", "decoder_attention_heads")
    kv_heads = facts.integer("self_attention_kv_heads", default=heads)
    shape = AttentionShape(
        hidden_size=size,
        num_heads=heads,
        num_kv_heads=heads if attends else kv_heads,
        head_size=size // heads,
        qkv_bias=True,
        output_bias=True,
    )
    wide = facts.integer("encoder_ffn_dim" if attends else "decoder_ffn_dim")
    modules = (*attention(shape), *plain_mlp(size, wide), norms(size, bias=True))
    if not attends:
        return LayerKind((kv_of(shape),), modules)
    crossed = CrossAttentionLayer(
        num_heads=heads, num_kv_heads=heads, head_size=size // heads
    )
    own = (*attention(shape), norms(size, count=1, bias=True))
    return LayerKind((kv_of(shape), crossed), (*modules, *own))


def _modules(facts: Facts, width: int) -> Iterator[Module]:
    """Yield RADIO, all of whose settings are in args, and a neck of convolutions."""
    args, name = dict(facts.mapping("encoder").get("args") or {}), "encoder"
    given = {"args": args, "patch_size": args.get("patch_size", 16)}
    spatial = facts.integer("vision_spatial_dim", default=_SPATIAL)
    summary = facts.integer("vision_summary_dim", default=_SUMMARY)
    yield from radio(Facts(given, "radio"))
    yield blocks.convolution(f"{name}.conv1", width, spatial, 1, bias=True)
    yield blocks.convolution(f"{name}.conv2", width, width, 1, 4, bias=False)
    yield blocks.norms(f"{name}.layer_norm", width, count=3, bias=True)
    yield blocks.column(f"{name}.sum_proj", summary, width, bias=True)


READERS = dict.fromkeys(
    ("RadioMBartPrefixForCausalLM", _ATTENDING),
    Composite(_modules, text=_text, prefix="decoder.", supports_pp=False),
)
