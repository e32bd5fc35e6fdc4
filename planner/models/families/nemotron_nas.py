"""Llama-Nemotron: decoders whose layers a search has cut to different sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Frame, Label, assemble
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.rope import rope_cache
from planner.models.layers import Module


def ffn_intermediate_size(ffn_mult: float, hidden_size: int) -> int:
    """Return the width of a feed-forward block from its multiplier.

    Source: vLLM 0.33.0 `models/nemotron_nas.py` _ffn_mult_to_intermediate_size.
    """
    size = int(2 * ffn_mult * hidden_size / 3)
    return -(-size // 256) * 256


def read_deci(facts: Facts, label: Label) -> ModelArchitecture:
    """Return a NAS decoder: each entry of block_configs is a layer.

    Source: vLLM 0.33.0 `models/nemotron_nas.py` DeciLMDecoderLayer.
    """
    blocks = facts.value("block_configs")
    if not isinstance(blocks, list):
        raise facts.unsupported("block_configs", "a list of layers is needed.")
    layers = [_layer_kind(facts, block) for block in blocks]
    size = facts.integer("hidden_size")
    head_size = facts.optional_integer("head_dim") or size // facts.integer(
        "num_attention_heads"
    )
    rope = rope_cache(facts, head_size, default_positions=8192)
    return assemble(facts, label, Frame(size, rope), layers)


def _layer_kind(facts: Facts, block: Mapping[str, Any]) -> LayerKind:
    size = facts.integer("hidden_size")
    attn, ffn = block["attention"], block["ffn"]
    if attn.get("replace_with_linear") or ffn.get("replace_with_linear"):
        raise facts.unsupported("block_configs", "linear replacements are not known.")
    modules: tuple[Module, ...] = ()
    shape = None
    if not attn.get("no_op"):
        shape = _attention(facts, attn)
        modules = (*attention(shape), norms(size, count=1))
    if not ffn.get("no_op"):
        modules = (*modules, *_mlp(facts, ffn), norms(size, count=1))
    return LayerKind((kv_of(shape),) if shape else (), modules)


def _attention(facts: Facts, attn: Mapping[str, Any]) -> AttentionShape:
    size = facts.integer("hidden_size")
    num_heads = facts.integer("num_attention_heads")
    has_bias = facts.flag("attention_bias") or facts.flag("bias")
    return AttentionShape(
        hidden_size=size,
        num_heads=num_heads,
        num_kv_heads=num_heads // int(attn["n_heads_in_group"]),
        head_size=facts.optional_integer("head_dim") or size // num_heads,
        qkv_bias=facts.flag("qkv_bias", default=has_bias),
        output_bias=has_bias,
    )


def _mlp(facts: Facts, ffn: Mapping[str, Any]) -> tuple[Module, ...]:
    size = facts.integer("hidden_size")
    if ffn.get("ffn_mult") is not None:
        width = ffn_intermediate_size(float(ffn["ffn_mult"]), size)
    else:
        width = int(ffn["intermediate_size"])
    return gated_mlp(size, width, bias=facts.flag("mlp_bias"))


READERS = {"DeciLMForCausalLM": read_deci}
