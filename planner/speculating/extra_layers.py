"""Layers that guess and are of another kind than their target's, and their tables."""

from __future__ import annotations

from dataclasses import replace

from planner.architectures.decoder import gated_mlp, norms
from planner.architectures.facts import Facts
from planner.architectures.mla import latent_attention, latent_shape, mla_layer
from planner.layers import Module
from planner.model import LayerKind, ModelArchitecture
from planner.model_files import ModelFiles
from planner.speculating.head_shapes import HeadShape

REPLACED = ("longcat_flash_mtp",)


def replaced_layers(
    kind: str, target: ModelArchitecture, files: ModelFiles
) -> ModelArchitecture:
    """Return the target with one layer behind its own that is of another kind.

    LongCat-Flash's is one of DeepSeek's without experts, where its own have two
    attentions each.

    Source: vLLM 0.33.0 `models/longcat_flash_mtp.py` LongCatMultiTokenPredictorLayer.
    """
    assert kind in REPLACED
    facts = Facts(files.config, str(files.config.get("model_type", "")))
    shape = latent_shape(facts)
    columns = facts.integer("ffn_hidden_size", "intermediate_size")
    layer = LayerKind(
        caches=(mla_layer(shape),),
        modules=(
            *latent_attention(shape, name="self_attn"),
            *gated_mlp(shape.hidden_size, columns),
            norms(shape.hidden_size),
        ),
    )
    kinds = (*target.layer_kinds, layer)
    return replace(target, layer_kinds=kinds, layers=(*target.layers, len(kinds) - 1))


def tables(
    shape: HeadShape, model: ModelArchitecture, num_own: int
) -> tuple[Module, ...]:
    """Return tables and the like that the target's own layers do not hold as well.

    `num_own` are the target's layers; those that guess follow them.
    """
    kinds = [model.layer_kinds[kind] for kind in model.layers]
    held = {module for kind in kinds[:num_own] for module in kind.shared}
    found = {
        module: None
        for kind in kinds[num_own:]
        for module in kind.shared
        if module not in held
    }
    more = shape.tables(model) if shape.tables is not None else ()
    return (*found, *more)
