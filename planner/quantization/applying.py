"""Hands a quantisation method to every layer of a model that takes one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from planner.experts import FusedMoE
from planner.layers import Module, Part, VocabParallelEmbedding
from planner.model import LayerKind, ModelArchitecture
from planner.quantization.interface import Place, QuantizationConfig


def apply(model: ModelArchitecture, config: QuantizationConfig) -> ModelArchitecture:
    """Return the model with each layer held as `config` says.

    Layers that were alike may differ afterwards, as checkpoints name exceptions by
    layer; those that still are alike share their kind.
    """
    kinds: dict[LayerKind, int] = {}
    layers = []
    for index, kind_index in enumerate(model.layers):
        kind = model.layer_kinds[kind_index]
        prefix = f"{model.layer_prefix}.{index}."
        modules = _quantised(kind.modules, prefix, config)
        layers.append(kinds.setdefault(replace(kind, modules=modules), len(kinds)))
    return replace(
        model,
        layer_kinds=tuple(kinds),
        layers=tuple(layers),
        first_stage=_quantised(model.first_stage, "", config),
        last_stage=_quantised(model.last_stage, "", config),
        every_stage=_quantised(model.every_stage, "", config),
        tied_embeddings=_quantised(model.tied_embeddings, "", config),
        towers=tuple(
            replace(tower, modules=_quantised(tower.modules, "", config))
            for tower in model.towers
        ),
    )


def _quantised(
    modules: Iterable[Module], prefix: str, config: QuantizationConfig
) -> tuple[Module, ...]:
    return tuple(_with_method(module, prefix, config) for module in modules)


def _with_method(module: Module, prefix: str, config: QuantizationConfig) -> Module:
    if not getattr(module, "is_quantizable", True):
        return module
    if isinstance(module, FusedMoE):
        block = Place(prefix=prefix + module.name, projections=module.shards)
        return replace(module, method=config.experts(block))
    place = Place(prefix=prefix + module.name, shards=getattr(module, "shards", ()))
    if isinstance(module, VocabParallelEmbedding):
        ask = config.head if module.part is Part.LM_HEAD else config.embedding
        return replace(module, method=ask(place))
    if hasattr(module, "method"):
        linear: Any = module
        if config.name in getattr(module, "replicated_under", ()):
            linear = replace(linear, is_replicated=True)
        changed: Module = replace(linear, method=config.linear(place))
        return changed
    return module
