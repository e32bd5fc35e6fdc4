"""Dory: layers of attention or an MLP, some of which run several times."""

from __future__ import annotations

from dataclasses import replace

from planner.engine.layout import ParallelLayout
from planner.errors import Refused
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Label
from planner.models.families.decoder import (
    attention,
    attention_scales,
    attention_shape,
    gated_mlp,
    kv_of,
)
from planner.models.families.facts import Facts
from planner.models.families.layered import SLIDING, Frame, decoder, typed_ropes
from planner.models.layers import ColumnParallelLinear, Part, Replicated
from planner.models.tensors import Tensors
from planner.values import frozen


@frozen
class OneRankOnly:
    """What refuses to be divided."""

    name: str
    refusal: str
    part: Part = Part.BUFFERS

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return nothing.

        Raises:
            Refused: on more than one rank.
        """
        if layout.tensor_parallel_size > 1:
            raise Refused(self.refusal)
        return ()


def read_dory(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Dory, whose layers are either attention or an MLP, without norms.

    Source: vLLM 0.33.0 `models/dory.py`.
    """
    shape = attention_shape(facts)
    size, width = shape.hidden_size, facts.integer("intermediate_size")
    wide = shape.num_heads * shape.head_size
    gate = ColumnParallelLinear("mixer.g_proj", Part.ATTENTION, size, (wide,))
    scales = Replicated("mixer.sqk", Part.ATTENTION, ((wide,), (wide,), (size,)))
    dense = LayerKind(
        (),
        (
            *gated_mlp(size, width),
            Replicated("mixer.suv", Part.MLP, ((width,), (width,), (size,))),
        ),
    )
    types = facts.value("layer_types")
    first = facts.integer("n_input_layers")
    last = first + facts.integer("n_recurrent_layers")
    loops = facts.integer("n_recurrent_loops")
    if facts.value("recurrent_kv_cache_mode") not in (None, "per_loop"):
        loops = 1

    def attending(index: int) -> LayerKind:
        is_sliding = types[index] == SLIDING
        window = facts.integer("sliding_window") if is_sliding else None
        times = loops if first <= index < last else 1
        kept = replace(kv_of(shape), sliding_window=window)
        again = (attention_scales(),) * (times - 1)
        return LayerKind((kept,) * times, (*attention(shape), *again, gate, scales))

    rope = typed_ropes(
        facts,
        (kind for kind in types if kind != "mlp"),
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings"),
    )
    alone = OneRankOnly(
        name="backbone", refusal="Dory currently supports tensor_parallel_size=1 only"
    )
    logit_scale = Replicated(
        "lm_head.logit_scale", Part.LM_HEAD, ((facts.integer("vocab_size"),),)
    )
    frame = Frame(
        size,
        (*rope, alone),
        is_tied=False,
        has_final_norm=False,
        extra_final=(logit_scale,),
    )
    layers = (
        dense if kind == "mlp" else attending(index) for index, kind in enumerate(types)
    )
    return decoder(facts, label, frame, layers, supports_pp=False)


READERS = {
    "DoryForCausalLM": read_dory,
}
