"""IQuest's looped coder: each layer runs several times, with a cache for each."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Label, Placement
from planner.models.families.decoder import (
    attention,
    attention_scales,
    attention_shape,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.layered import Frame, decoder
from planner.models.families.rope import rope_cache
from planner.models.layers import ColumnParallelLinear, Part


def read_iquest_loop(facts: Facts, label: Label) -> ModelArchitecture:
    """Return IQuest's looped coder: each layer runs several times, later with a window.

    Source: vLLM 0.33.0 `models/iquest_loopcoder.py`.
    """
    plain = attention_shape(facts)
    shape = replace(plain, head_size=plain.hidden_size // plain.num_heads)
    size, loops = shape.hidden_size, facts.integer("loop_num", default=2)
    full = kv_of(shape)
    later = replace(full, sliding_window=facts.integer("loop_window_size", default=64))
    gate = ColumnParallelLinear(
        "gate_projections.gate_proj",
        Part.ATTENTION,
        shape.head_size,
        (shape.num_heads,),
        bias=True,
    )
    layer = LayerKind(
        (full, *(later,) * (loops - 1)),
        (
            *attention(shape),
            *(attention_scales(),) * (loops - 1),
            gate,
            *gated_mlp(size, facts.integer("intermediate_size")),
            norms(size),
        ),
    )
    rope = rope_cache(facts, shape.head_size)
    frame = Frame(size, rope, placement=Placement.EVERYWHERE)
    layers = [layer] * facts.integer("num_hidden_layers")
    return decoder(facts, label, frame, layers, supports_pp=False)


READERS = {
    "IQuestLoopCoderForCausalLM": read_iquest_loop,
}
