"""Domyn Edge: heads' size and window differ by layer.

Source: vLLM 0.33.0 `models/domyn_edge.py`.
"""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Frame, Label, assemble
from planner.models.families.decoder import (
    attention,
    attention_shape,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.layers import Part, Replicated


def read_domyn_edge(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Domyn Edge."""
    plain = attention_shape(facts)
    size, by_layer = plain.hidden_size, facts.mapping("per_layer_config")
    own = (*gated_mlp(size, facts.integer("intermediate_size")), norms(size, count=4))
    windows, positions = facts.value("window_sizes"), facts.value("position_layers")
    layers, rotated = [], []
    for index in range(facts.integer("num_hidden_layers")):
        head_size = by_layer.get(str(index), {}).get("head_dim") or plain.head_size
        shape = replace(plain, head_size=head_size, qk_norm_sizes=(head_size,))
        reach = windows[index][0]
        window = reach + 1 if reach > 0 else None
        layers.append(
            LayerKind(
                (replace(kv_of(shape), sliding_window=window),),
                (*attention(shape), *own),
            )
        )
        if positions[index] == "rope":
            rotated.append(head_size)
    tables = tuple(
        Replicated(
            "rotary_emb.cos_sin_cache",
            Part.BUFFERS,
            ((facts.integer("max_position_embeddings"), head_size),),
            dtype="float32",
        )
        for head_size in dict.fromkeys(rotated)
    )
    frame = Frame(size, tables)
    return assemble(facts, label, frame, layers, supports_pp=False)


READERS = {"DomynEdgeForCausalLM": read_domyn_edge}
