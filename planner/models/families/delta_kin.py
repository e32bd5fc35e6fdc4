"""Delta nets in other company: Alice AI's attention over layers, Clef's joint head."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Label, Placement, Reader
from planner.models.families.decoder import norms
from planner.models.families.facts import Facts
from planner.models.families.kimi_linear import delta_attention, delta_state
from planner.models.families.layered import Frame, decoder
from planner.models.families.qwen3_5 import read_qwen3_5
from planner.models.families.qwen3_next import (
    gated_attention,
    gated_attention_layer,
    sparse_block,
)
from planner.models.families.qwen3_omni_moe_thinker import read_qwen3_omni
from planner.models.families.rope import rope_cache
from planner.models.layers import Module, Part, Replicated

_LINEAR = "linear_attention"
_QUESTIONS = 3


def read_alice_ai(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Alice AI: Kimi's delta nets, Qwen3-Next's attention and experts.

    Source: vLLM 0.33.0 `models/alice_ai.py`.
    """
    size, num_layers = facts.integer("hidden_size"), facts.integer("num_hidden_layers")
    linear = {
        "num_heads": facts.integer("linear_num_key_heads"),
        "head_dim": facts.integer("linear_key_head_dim"),
        "short_conv_kernel_size": facts.integer("linear_conv_kernel_dim"),
    }
    mixer = delta_attention(linear, size, name="linear_attn")
    gated = Facts(
        {**facts.config, "attn_output_gate": True, "qkv_bias": False}, facts.model_type
    )
    kept = gated_attention_layer(facts)
    bias = Replicated(
        name="mlp.gate.e_score_correction_bias",
        part=Part.ROUTER,
        shapes=((facts.integer("num_experts"),),),
        dtype="float32",
    )
    rest = (*sparse_block(facts, size), bias, norms(size))
    layers = [
        LayerKind(
            caches=(delta_state(linear) if kind == _LINEAR else kept,),
            modules=(
                *(mixer if kind == _LINEAR else gated_attention(gated)),
                *rest,
                _over_layers(size, count=4 if index else 2),
            ),
        )
        for index, kind in enumerate(facts.value("layer_types")[:num_layers])
    ]
    rope = rope_cache(
        facts,
        head_size=kept.head_size,
        max_position=facts.integer("max_position_embeddings"),
    )
    frame = Frame(
        hidden_size=size,
        rope=rope,
        placement=Placement.EVERYWHERE,
        is_tied=False,
        is_head_quantizable=False,
        extra_final=(_over_layers(size, count=2),),
    )
    return decoder(facts, label, frame, layers, supports_pp=False)


def _over_layers(size: int, *, count: int) -> Replicated:
    """Return the vectors by which a layer chooses among earlier layers' outputs."""
    return Replicated(name="attn_res", part=Part.NORMS, shapes=((size,),) * count)


def read_clef(facts: Facts, label: Label, *, base: Reader) -> ModelArchitecture:
    """Return a model whose head answers all questions of a prompt together.

    Source: vLLM 0.33.0 `models/clef_flash.py`, `clef_omni.py` and
    `clef_joint_schema.py` JointSchemaHead.
    """
    model = base(facts, label)
    head = Facts(facts.mapping("joint_head_config"), facts.model_type)
    modules = tuple(_joint_head(head))
    return replace(model, every_stage=(*model.every_stage, *modules), is_pooling=True)


def _joint_head(facts: Facts) -> Iterator[Module]:
    hidden, width = facts.integer("hidden_size"), facts.integer("width")
    wide = facts.integer("feedforward")
    norm = ((width,),) * 2
    attention = ((3 * width, width), (3 * width,), (width, width), (width,))
    mlp = ((wide, width), (wide,), (width, wide), (width,))
    head = partial(Replicated, part=Part.CLASSIFIER)
    yield head(
        name="pooler.head",
        shapes=(
            *((hidden,),) * 2,
            *((width, hidden),) * 6,
            (_QUESTIONS, width),
            *norm * 3,
            *((width, 4 * width), (width,), (1, width), (1,), (), (), ()),
        ),
    )
    for index in range(facts.integer("routing_layers")):
        name = f"pooler.head.evidence_layers.{index}"
        yield head(name=name, shapes=(*norm * 3, *attention, *mlp))
    for index in range(facts.integer("layers")):
        name = f"pooler.head.layers.{index}"
        yield head(name=name, shapes=(*norm * 3, *attention * 2, *mlp))


READERS = {
    "AliceAIForCausalLM": read_alice_ai,
    "ClefFlashForJointSchema": partial(read_clef, base=read_qwen3_5),
    "ClefOmniForJointSchema": partial(read_clef, base=read_qwen3_omni),
}
