"""GPT-2 and others with biases, learned positions or an MLP without a gate.

Source: vLLM 0.33.0 `models/gpt2.py`, `gpt_j.py`, `opt.py`, `falcon.py`, `bloom.py`.
"""

from __future__ import annotations

from dataclasses import replace

from planner.models.families.assembly import Placement
from planner.models.families.decoder import AttentionShape, learned_positions, norms
from planner.models.families.facts import Facts
from planner.models.families.rope import rope_cache
from planner.models.families.styles import Style, no_rope, unless_off
from planner.models.families.windows import no_windows
from planner.models.layers import Module


def inner_width(facts: Facts) -> int:
    """Return the width of GPT-2's MLP."""
    size = facts.integer("hidden_size", "n_embd")
    return facts.optional_integer("n_inner") or 4 * size


GPT2_NAMES = {
    "hidden_size": ("hidden_size", "n_embd"),
    "num_attention_heads": ("num_attention_heads", "n_head"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer"),
    "max_position_embeddings": ("max_position_embeddings", "n_positions"),
    "intermediate_size": inner_width,
}
GPT2 = Style(
    fields=GPT2_NAMES,
    qkv_bias=True,
    output_bias=True,
    mlp_bias=True,
    is_gated=False,
    norm_bias=True,
    placement=Placement.EVERYWHERE,
    windows=no_windows,
    rope=no_rope,
    extra_embeddings=lambda facts, shape: (
        learned_positions(
            facts.integer("max_position_embeddings"), shape.hidden_size, "wpe"
        ),
    ),
)


def _opt_positions(facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    """Return OPT's positions, which start at 2."""
    rows = facts.integer("max_position_embeddings") + 2
    return (learned_positions(rows, shape.hidden_size, "embed_positions"),)


def _opt_heads(facts: Facts, shape: AttentionShape) -> AttentionShape:
    """Refuse the one size whose embeddings are narrower; without it they are not."""
    if facts.optional_integer("word_embed_proj_dim") not in (None, shape.hidden_size):
        raise facts.unsupported(
            "word_embed_proj_dim", "only hidden_size is (all sizes but 350m)."
        )
    return shape


def _opt_final_norm(facts: Facts) -> bool:
    return facts.flag("do_layer_norm_before", default=True) and not facts.flag(
        "_remove_final_layer_norm"
    )


def _falcon_kv_heads(facts: Facts) -> int | None:
    if facts.flag("new_decoder_architecture"):
        return facts.integer("num_kv_heads")
    return 1 if facts.flag("multi_query") else None


def _falcon_norms(facts: Facts) -> int:
    count = facts.optional_integer("num_ln_in_parallel_attn")
    is_new = facts.flag("new_decoder_architecture")
    has_two = not facts.flag("parallel_attn", default=True) or (
        is_new and count in (None, 2)
    )
    return 2 if has_two else 1


def _falcon_rope(facts: Facts, shape: AttentionShape) -> tuple[Module, ...]:
    if facts.flag("alibi"):
        return ()
    length = facts.integer("max_position_embeddings", default=8192)
    return rope_cache(facts, shape.head_size, max_position=length)


ROWS = {
    "GPT2LMHeadModel": GPT2,
    "GPTJForCausalLM": replace(
        GPT2,
        fields={**GPT2_NAMES, "tie_word_embeddings": False},
        qkv_bias=False,
        output_bias=False,
        norm_count=1,
        lm_head_bias=True,
        extra_embeddings=None,
        rope=None,
        rotary_dim=lambda facts, _size: facts.integer("rotary_dim"),
    ),
    "OPTForCausalLM": replace(
        GPT2,
        fields={
            "intermediate_size": "ffn_dim",
            "enable_bias": unless_off("enable_bias"),
        },
        heads=_opt_heads,
        qkv_bias="enable_bias",
        output_bias="enable_bias",
        mlp_bias="enable_bias",
        has_final_norm=_opt_final_norm,
        extra_embeddings=_opt_positions,
    ),
    "FalconForCausalLM": replace(
        GPT2,
        fields={
            **GPT2_NAMES,
            "num_key_value_heads": _falcon_kv_heads,
            "intermediate_size": lambda facts: (
                facts.optional_integer("ffn_hidden_size")
                or 4 * facts.integer("hidden_size", "n_embd")
            ),
            "tie_word_embeddings": unless_off("tie_word_embeddings"),
        },
        heads=lambda facts, shape: replace(
            shape, heeds_kv_cache_dtype=facts.flag("alibi")
        ),
        qkv_bias="bias",
        output_bias="bias",
        mlp_bias="bias",
        norm_count=_falcon_norms,
        extra_embeddings=None,
        rope=_falcon_rope,
    ),
    "BloomForCausalLM": replace(
        GPT2,
        fields={
            **GPT2_NAMES,
            "intermediate_size": lambda facts: (
                4 * facts.integer("hidden_size", "n_embd")
            ),
            "tie_word_embeddings": unless_off("tie_word_embeddings"),
        },
        extra_embeddings=lambda _facts, shape: (
            norms(shape.hidden_size, count=1, bias=True),
        ),
    ),
}
"""By architecture."""
