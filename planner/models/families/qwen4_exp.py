"""Qwen4-Exp: gated delta nets and attention on several residual streams."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Frame, Label, Placement, assemble
from planner.models.families.composite import Tie, composed, sub_config, text_facts
from planner.models.families.decoder import attention, kv_of
from planner.models.families.facts import Facts
from planner.models.families.qwen3_next import (
    gated_delta_net,
    gated_delta_net_state,
    gated_shape,
    sparse_block,
)
from planner.models.families.qwen_vl import QWEN3_RENAMES
from planner.models.families.rope import rope_cache
from planner.models.families.towers.qwen_vl import qwen3_vl_tower
from planner.models.layers import Module, Part, Replicated

_LINEAR = "linear_attention"
_FULL_EVERY = 4
_ROWS = 16
"""The widths of a mixing layer's outputs are filled up to a multiple of this."""


def read_qwen4_exp(facts: Facts, label: Label) -> ModelArchitecture:
    """Return the language model.

    Source: vLLM 0.33.0 `models/qwen4_exp/nvidia/model.py` Qwen4ExpForCausalLM.

    Raises:
        UnknownArchitecture: with an indexer, or embeddings of n-grams in some layers.
    """
    facts = (
        text_facts(facts, "qwen4_exp_text", tie=Tie.INNER) if _outer(facts) else facts
    )
    if facts.value("indexer_n_heads") is not None:
        raise facts.unsupported("indexer_n_heads", "attention to all tokens is.")
    if facts.value("ple_layer_ids"):
        raise facts.unsupported("ple_layer_ids", "layers without n-grams are.")
    size, num_layers = facts.integers("hidden_size", "num_hidden_layers")
    types = facts.value("layer_types") or [
        "" if (layer + 1) % _FULL_EVERY == 0 else _LINEAR for layer in range(num_layers)
    ]
    rest = (
        *sparse_block(facts),
        *_mixing(facts, "attn_hyper_connection"),
        *_mixing(facts, "mlp_hyper_connection"),
    )
    dtype = facts.value("mamba_ssm_dtype")
    state = replace(
        gated_delta_net_state(facts),
        recurrent_dtype=None if dtype is None else str(dtype),
    )
    mixer = gated_delta_net(state, size, is_interleaved=False)
    linear = LayerKind((state,), (*mixer, *rest))
    shape = gated_shape(facts)
    full = LayerKind((kv_of(shape),), (*attention(shape), *rest))
    rope = rope_cache(facts, shape.head_size, mrope_positions_factor=1)
    frame = Frame(
        size,
        rope,
        embeddings_on=Placement.EVERYWHERE,
        head_on=Placement.EVERYWHERE,
        is_tied=False,
        is_head_quantizable=False,
        final_norm=_mixing(facts, "model.hyper_connection_mixer", is_last=True),
    )
    layers = [linear if kind == _LINEAR else full for kind in types[:num_layers]]
    return assemble(
        facts, label, frame, layers, residual_streams=facts.integer("hc_count")
    )


def _outer(facts: Facts) -> bool:
    return bool(facts.mapping("text_config"))


def _mixing(facts: Facts, name: str, *, is_last: bool = False) -> tuple[Module, ...]:
    """Return what joins the streams before a half of a layer, and parts them again.

    Source: vLLM 0.33.0 `models/qwen4_exp/nvidia/hyperconnection.py` GatedResidual.
    """
    streams, rank = facts.integers("hc_count", "hc_lowrank")
    width = streams * facts.integer("hidden_size")
    rows = rank if is_last else -(-(rank + streams) // _ROWS) * _ROWS
    return (
        Replicated(
            name,
            Part.HYPER_CONNECTIONS,
            ((width,), (rows, width), (width, rank)),
            dtype="bfloat16",
        ),
    )


def read_qwen4_exp_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return the model with the tower of Qwen3-VL.

    Source: vLLM 0.33.0 `models/qwen4_exp/nvidia/model.py`
    Qwen4ExpForConditionalGeneration.
    """
    own = label.of("Qwen4ExpForCausalLM")
    model = read_qwen4_exp(facts, own)
    vision = sub_config(facts, "vision_config", "qwen4_exp_vision")
    tower = qwen3_vl_tower(vision, deepstack_columns=model.hidden_size)
    levels = len(vision.value("deepstack_visual_indexes") or ())
    language = replace(model, deepstack_layers=levels)
    return composed(facts, label, language, tower, renames=QWEN3_RENAMES)


READERS = {
    "Qwen4ExpForCausalLM": read_qwen4_exp,
    "Qwen4ExpForConditionalGeneration": read_qwen4_exp_vl,
}
