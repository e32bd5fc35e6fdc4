"""Decoders some of whose layers run several times, with a cache for each."""

from __future__ import annotations

from dataclasses import replace

from planner.engine.layout import ParallelLayout
from planner.errors import Refused
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.caches import AttentionLayer
from planner.models.families.assembly import Frame, Label, Placement, Reader, assemble
from planner.models.families.decoder import (
    attention,
    attention_scales,
    attention_shape,
    even_shape,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.rope import rope_cache, typed_ropes
from planner.models.families.windows import SLIDING
from planner.models.layers import (
    ColumnParallelLinear,
    Condition,
    Module,
    Part,
    Replicated,
    RowParallelLinear,
)


# Dory: layers of attention or an MLP, some of which run several times.
def _check_alone(layout: ParallelLayout) -> None:
    if layout.tensor_parallel_size > 1:
        raise Refused("Dory currently supports tensor_parallel_size=1 only")


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
        facts, (kind for kind in types if kind != "mlp"), shape.head_size
    )
    alone = Condition(name="backbone", part=Part.BUFFERS, check=_check_alone)
    logit_scale = Replicated(
        "lm_head.logit_scale", Part.LM_HEAD, ((facts.integer("vocab_size"),),)
    )
    frame = Frame(
        size,
        (*rope, alone),
        is_tied=False,
        final_norm=(logit_scale,),
    )
    layers = (
        dense if kind == "mlp" else attending(index) for index, kind in enumerate(types)
    )
    return assemble(facts, label, frame, layers, supports_pp=False)


def read_iquest_loop(facts: Facts, label: Label) -> ModelArchitecture:
    """Return IQuest's looped coder: each layer runs several times, later with a window.

    Source: vLLM 0.33.0 `models/iquest_loopcoder.py`.
    """
    shape = even_shape(facts)
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
    return assemble(facts, label, frame, layers, supports_pp=False)


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
            "self_attn.gqkv_proj", Part.ATTENTION, size, (wide,) * 4, bias=has_bias
        ),
        RowParallelLinear(
            "self_attn.o_proj", Part.ATTENTION, wide, size, bias=has_bias
        ),
        *gated_mlp(
            size, facts.integer("intermediate_size"), bias=facts.flag("mlp_bias")
        ),
    )
    slow = facts.integer("H_cycles")
    fast = slow * facts.integer("L_cycles")
    stacks = [
        LayerKind((kept,) * times, (*modules, *(attention_scales(),) * times))
        for times in (fast, slow)
        for _layer in range(facts.integer("num_layers_per_stack"))
    ]
    state = Replicated("model.z_L_init", Part.BUFFERS, ((size,),))
    rope = rope_cache(facts, head_size)
    frame = Frame(size, (*rope, state), final_norm=())
    return assemble(facts, label, frame, stacks, supports_pp=False)


READERS: dict[str, Reader] = {
    "DoryForCausalLM": read_dory,
    "IQuestLoopCoderForCausalLM": read_iquest_loop,
    "HrmTextForCausalLM": read_hrm_text,
}
