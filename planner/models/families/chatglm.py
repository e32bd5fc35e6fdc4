"""ChatGLM2, ChatGLM3 and GLM-4.

Source: vLLM 0.33.0 `models/chatglm.py`.
"""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import ModelArchitecture
from planner.models.families import llama
from planner.models.families.assembly import Label, Placement
from planner.models.families.decoder import AttentionShape, norms
from planner.models.families.facts import Facts
from planner.models.families.styles import Style
from planner.models.families.windows import no_windows
from planner.models.layers import Module


def _kv_heads(facts: Facts) -> int | None:
    if not facts.flag("multi_query_attention"):
        return None
    return facts.integer("multi_query_group_num")


def _biases_of_norms(facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    is_rms = facts.flag("rmsnorm", default=True)
    return () if is_rms else (norms(shape.hidden_size),)


_STYLE = Style(
    fields={
        "vocab_size": ("padded_vocab_size", "vocab_size"),
        "num_hidden_layers": ("num_layers", "num_hidden_layers"),
        "num_key_value_heads": _kv_heads,
        "max_position_embeddings": "seq_length",
        "intermediate_size": "ffn_hidden_size",
    },
    heads=lambda _facts, shape: replace(
        shape, head_size=shape.hidden_size // shape.num_heads
    ),
    qkv_bias=("add_bias_linear", "add_qkv_bias"),
    output_bias="add_bias_linear",
    mlp_bias="add_bias_linear",
    windows=no_windows,
    own=_biases_of_norms,
    has_final_norm=lambda facts: facts.flag("post_layer_norm", default=True),
    placement=Placement.EVERYWHERE,
    rotary_dim=lambda _facts, head_size: head_size // 2,
)


def read_chatglm(facts: Facts, label: Label) -> ModelArchitecture:
    """Return a ChatGLM; vLLM calls its seq_length max_position_embeddings as well."""
    model = llama.read(facts, label, style=_STYLE)
    return replace(
        model,
        max_position_embeddings=facts.integer("seq_length", default=8192),
        max_len_key="max_position_embeddings",
    )


READERS = dict.fromkeys(
    ("ChatGLMModel", "ChatGLMForConditionalGeneration"), read_chatglm
)
