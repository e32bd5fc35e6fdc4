"""Decoders that run the same layers several times: IQuest's coder, Dory, HRM-Text.

Each of these times has a KV cache of its own.
"""

from __future__ import annotations

from dataclasses import replace

from planner.engine.layout import ParallelLayout
from planner.errors import Refused
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import AttentionLayer
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
from planner.models.families.layered import SLIDING, Frame, decoder, typed_ropes
from planner.models.families.rope import rope_cache
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    RowParallelLinear,
)
from planner.models.tensors import Tensor
from planner.values import frozen


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
        name="gate_projections.gate_proj",
        part=Part.ATTENTION,
        input_size=shape.head_size,
        output_sizes=(shape.num_heads,),
        bias=True,
    )
    layer = LayerKind(
        caches=(full, *(later,) * (loops - 1)),
        modules=(
            *attention(shape),
            *(attention_scales(),) * (loops - 1),
            gate,
            *gated_mlp(size, facts.integer("intermediate_size")),
            norms(size),
        ),
    )
    rope = rope_cache(
        facts,
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings"),
    )
    frame = Frame(hidden_size=size, rope=rope, placement=Placement.EVERYWHERE)
    layers = [layer] * facts.integer("num_hidden_layers")
    return decoder(facts, label, frame, layers, supports_pp=False)


@frozen
class OneRankOnly:
    """What refuses to be divided."""

    name: str
    refusal: str
    part: Part = Part.BUFFERS

    def tensors(self, layout: ParallelLayout) -> tuple[Tensor, ...]:
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
    gate = ColumnParallelLinear(
        name="mixer.g_proj",
        part=Part.ATTENTION,
        input_size=size,
        output_sizes=(wide,),
    )
    scales = Replicated(
        name="mixer.sqk", part=Part.ATTENTION, shapes=((wide,), (wide,), (size,))
    )
    dense = LayerKind(
        caches=(),
        modules=(
            *gated_mlp(size, width),
            Replicated(
                name="mixer.suv", part=Part.MLP, shapes=((width,), (width,), (size,))
            ),
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
        return LayerKind(
            caches=(kept,) * times, modules=(*attention(shape), *again, gate, scales)
        )

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
        name="lm_head.logit_scale",
        part=Part.LM_HEAD,
        shapes=((facts.integer("vocab_size"),),),
    )
    frame = Frame(
        hidden_size=size,
        rope=(*rope, alone),
        is_tied=False,
        has_final_norm=False,
        extra_final=(logit_scale,),
    )
    layers = (
        dense if kind == "mlp" else attending(index) for index, kind in enumerate(types)
    )
    return decoder(facts, label, frame, layers, supports_pp=False)


def read_hrm_text(facts: Facts, label: Label) -> ModelArchitecture:
    """Return HRM-Text: a fast stack and a slow one, which take turns.

    Source: vLLM 0.33.0 `models/hrm_text.py`.
    """
    size, heads = facts.integer("hidden_size"), facts.integer("num_attention_heads")
    head_size = facts.optional_integer("head_dim") or size // heads
    has_bias, wide = facts.flag("attention_bias"), heads * head_size
    kept = AttentionLayer(num_heads=heads, num_kv_heads=heads, head_size=head_size)
    modules: tuple[Module, ...] = (
        ColumnParallelLinear(
            name="self_attn.gqkv_proj",
            part=Part.ATTENTION,
            input_size=size,
            output_sizes=(wide,) * 4,
            bias=has_bias,
        ),
        RowParallelLinear(
            name="self_attn.o_proj",
            part=Part.ATTENTION,
            input_size=wide,
            output_size=size,
            bias=has_bias,
        ),
        *gated_mlp(
            size, facts.integer("intermediate_size"), bias=facts.flag("mlp_bias")
        ),
    )
    slow = facts.integer("H_cycles")
    fast = slow * facts.integer("L_cycles")
    stacks = [
        LayerKind(
            caches=(kept,) * times, modules=(*modules, *(attention_scales(),) * times)
        )
        for times in (fast, slow)
        for _layer in range(facts.integer("num_layers_per_stack"))
    ]
    state = Replicated(name="model.z_L_init", part=Part.BUFFERS, shapes=((size,),))
    rope = rope_cache(
        facts,
        head_size=head_size,
        max_position=facts.integer("max_position_embeddings"),
    )
    frame = Frame(hidden_size=size, rope=(*rope, state), has_final_norm=False)
    return decoder(facts, label, frame, stacks, supports_pp=False)


READERS = {
    "IQuestLoopCoderForCausalLM": read_iquest_loop,
    "DoryForCausalLM": read_dory,
    "HrmTextForCausalLM": read_hrm_text,
}
