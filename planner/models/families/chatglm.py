"""ChatGLM2, ChatGLM3 and GLM-4, and GLM-4V with EVA's tower.

Source: vLLM 0.33.0 `models/chatglm.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import ModelArchitecture
from planner.models.families import llama
from planner.models.families.assembly import Label, Placement, Reader
from planner.models.families.composite import Composite
from planner.models.families.decoder import AttentionShape, norms
from planner.models.families.decoders import even_heads
from planner.models.families.facts import Facts
from planner.models.families.styles import Style
from planner.models.families.towers import blocks
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
    heads=even_heads,
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


# GLM-4V: EVA's tower beside ChatGLM.
def _text(facts: Facts, label: Label) -> ModelArchitecture:
    return label.readers["ChatGLMModel"](facts, label)


def _modules(facts: Facts, size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/glm4v.py` GLM4VForCausalLM, EVA2CLIPModel."""
    vision = Facts(facts.mapping("vision_config"), "eva2_clip")
    name = "transformer.vision"
    seen, patch = vision.integers("hidden_size", "patch_size")
    wide, channels = facts.integer("ffn_hidden_size"), vision.integer("in_channels")
    embedding, linear = f"{name}.patch_embedding", f"{name}.linear_proj"
    positions = vision.integer("num_positions")
    gates = "gate_proj", "dense_h_to_4h"
    yield blocks.convolution(
        f"{embedding}.proj", seen, channels, patch, patch, bias=True
    )
    yield blocks.replicated(f"{embedding}.positions", (1, seen), (positions, seen))
    yield blocks.whole(f"{linear}.linear_proj", size, size, bias=False)
    yield blocks.norms(f"{linear}.norm1", size, bias=True)
    merged = f"{linear}.merged_proj"
    yield blocks.column(merged, size, wide, wide, bias=False, shards=gates)
    yield blocks.row(f"{linear}.dense_4h_to_h", wide, size, bias=False)
    yield blocks.convolution(f"{name}.conv", size, seen, 2, 2, bias=True)
    yield blocks.replicated(f"{name}.marks", (size,), (size,))
    sizes = blocks.Sizes(
        seen,
        vision.integer("num_heads"),
        vision.integer("intermediate_size"),
        vision.integer("num_hidden_layers"),
    )
    parts = blocks.Parts(
        norms="layernorm", qkv="attention.query_key_value", out="attention.dense"
    )
    yield from blocks.layers(f"{name}.transformer.layers", sizes, parts)


READERS: dict[str, Reader] = {
    **dict.fromkeys(("ChatGLMModel", "ChatGLMForConditionalGeneration"), read_chatglm),
    "GLM4VForCausalLM": Composite(_modules, text=_text, prefix=""),
}
