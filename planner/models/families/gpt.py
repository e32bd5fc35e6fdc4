"""GPT-2 and the older decoders with biases, learned positions or an ungated MLP."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Body, Label, Placement, Skeleton, assemble
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    attention_scales,
    gated_mlp,
    kv_of,
    learned_positions,
    norms,
    plain_mlp,
)
from planner.models.families.facts import Facts
from planner.models.families.rope import inverse_frequencies, rope_cache
from planner.models.layers import Module, Part, Replicated, ReplicatedLinear


def _shape(
    facts: Facts, *, kv_heads: int, qkv_bias: bool, output_bias: bool
) -> AttentionShape:
    hidden_size = facts.integer("hidden_size", "n_embd")
    num_heads = facts.integer("num_attention_heads", "n_head")
    return AttentionShape(
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_kv_heads=kv_heads or num_heads,
        head_size=facts.optional_integer("head_dim") or hidden_size // num_heads,
        qkv_bias=qkv_bias,
        output_bias=output_bias,
    )


def _body(facts: Facts, shape: AttentionShape, modules: tuple[Module, ...]) -> Body:
    kind = LayerKind(caches=(kv_of(shape),), modules=modules)
    return Body.alike(kind, facts.integer("num_hidden_layers", "n_layer"))


def _intermediate_size(facts: Facts, hidden_size: int) -> int:
    return facts.optional_integer("n_inner") or 4 * hidden_size


def read_gpt2(facts: Facts, label: Label) -> ModelArchitecture:
    """Return GPT-2. Source: vLLM 0.33.0 `models/gpt2.py`."""
    shape = _shape(facts, kv_heads=0, qkv_bias=True, output_bias=True)
    size = shape.hidden_size
    modules = (
        *attention(shape),
        *plain_mlp(size, _intermediate_size(facts, size)),
        norms(size, bias=True),
    )
    skeleton = Skeleton(
        hidden_size=size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(norms(size, count=1, bias=True),),
        embeddings_on=Placement.EVERYWHERE,
        norm_on=Placement.EVERYWHERE,
        head_on=Placement.EVERYWHERE,
        tie_word_embeddings=facts.flag("tie_word_embeddings"),
        extra_embeddings=(
            learned_positions(
                facts.integer("max_position_embeddings", "n_positions"), size, "wpe"
            ),
        ),
    )
    return assemble(facts, label, skeleton, _body(facts, shape, modules))


def read_gpt_bigcode(
    facts: Facts, label: Label, *, is_divided: bool = True
) -> ModelArchitecture:
    """Return GPT-BigCode, which vLLM leaves to Transformers.

    It has no tensor-parallel plan there: every rank holds the MLP in full, and a
    boolean causal mask besides. `is_divided`: whether vLLM finds its attention and
    divides it.

    Source: vLLM 0.33.0 `models/transformers/base.py`; Transformers' GPTBigCodeModel.
    """
    kv_heads = 1 if facts.flag("multi_query") else 0
    shape = _shape(facts, kv_heads=kv_heads, qkv_bias=True, output_bias=True)
    size = shape.hidden_size
    inner = _intermediate_size(facts, size)
    positions = facts.integer("max_position_embeddings", "n_positions")
    mlp = (
        _in_full("mlp.c_fc", size, inner, Part.MLP),
        _in_full("mlp.c_proj", inner, size, Part.MLP),
    )
    mask = Replicated(
        name="bias", part=Part.BUFFERS, shapes=((positions, positions),), dtype="uint8"
    )
    skeleton = Skeleton(
        hidden_size=size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(norms(size, count=1, bias=True),),
        embeddings_on=Placement.EVERYWHERE,
        norm_on=Placement.EVERYWHERE,
        head_on=Placement.EVERYWHERE,
        tie_word_embeddings=facts.flag("tie_word_embeddings"),
        extra_embeddings=(learned_positions(positions, size, "wpe"),),
        every_stage=(mask,),
    )
    mixer = attention(shape) if is_divided else _attention_in_full(shape)
    modules = (*mixer, *mlp, norms(size, bias=True))
    return assemble(facts, label, skeleton, _body(facts, shape, modules))


def _attention_in_full(shape: AttentionShape) -> tuple[Module, ...]:
    """Return the projections of attention, all of them on every rank."""
    size = shape.hidden_size
    rows = (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_size
    return (
        _in_full("attn.c_attn", size, rows, Part.ATTENTION),
        _in_full("attn.c_proj", size, size, Part.ATTENTION),
        attention_scales(),
    )


def _in_full(name: str, columns: int, rows: int, part: Part) -> ReplicatedLinear:
    return ReplicatedLinear(
        name=name, part=part, input_size=columns, output_sizes=(rows,), bias=True
    )


def read_gptj(facts: Facts, label: Label) -> ModelArchitecture:
    """Return GPT-J. Source: vLLM 0.33.0 `models/gpt_j.py`."""
    shape = _shape(facts, kv_heads=0, qkv_bias=False, output_bias=False)
    size = shape.hidden_size
    modules = (
        *attention(shape),
        *plain_mlp(size, _intermediate_size(facts, size)),
        norms(size, count=1, bias=True),
    )
    skeleton = Skeleton(
        hidden_size=size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(norms(size, count=1, bias=True),),
        embeddings_on=Placement.EVERYWHERE,
        norm_on=Placement.EVERYWHERE,
        head_on=Placement.EVERYWHERE,
        lm_head_bias=True,
        every_stage=rope_cache(
            facts,
            head_size=shape.head_size,
            max_position=facts.integer("max_position_embeddings", "n_positions"),
            dim=facts.integer("rotary_dim"),
        ),
    )
    return assemble(facts, label, skeleton, _body(facts, shape, modules))


def read_gpt_neox(facts: Facts, label: Label) -> ModelArchitecture:
    """Return GPT-NeoX, which vLLM leaves to Transformers."""
    has_bias = facts.flag("attention_bias", default=True)
    shape = _shape(facts, kv_heads=0, qkv_bias=has_bias, output_bias=has_bias)
    size = shape.hidden_size
    modules = (
        *attention(shape),
        *plain_mlp(size, facts.integer("intermediate_size")),
        norms(size, bias=True),
    )
    skeleton = Skeleton(
        hidden_size=size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(norms(size, count=1, bias=True),),
        tie_word_embeddings=facts.flag("tie_word_embeddings"),
        every_stage=inverse_frequencies(facts, shape.head_size),
    )
    return assemble(facts, label, skeleton, _body(facts, shape, modules))


def read_phi(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Phi-1 and Phi-2, which vLLM leaves to Transformers."""
    if facts.flag("qk_layernorm"):
        raise facts.unsupported("qk_layernorm", "no published model has it.")
    shape = _shape(
        facts,
        kv_heads=facts.optional_integer("num_key_value_heads") or 0,
        qkv_bias=True,
        output_bias=True,
    )
    size = shape.hidden_size
    modules = (
        *attention(shape),
        *plain_mlp(size, facts.integer("intermediate_size")),
        norms(size, count=1, bias=True),
    )
    skeleton = Skeleton(
        hidden_size=size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(norms(size, count=1, bias=True),),
        tie_word_embeddings=facts.flag("tie_word_embeddings"),
        every_stage=inverse_frequencies(facts, shape.head_size),
    )
    return assemble(facts, label, skeleton, _body(facts, shape, modules))


def read_opt(facts: Facts, label: Label) -> ModelArchitecture:
    """Return OPT. Source: vLLM 0.33.0 `models/opt.py`."""
    if facts.optional_integer("word_embed_proj_dim") not in (
        None,  # OPTConfig takes hidden_size then
        facts.integer("hidden_size"),
    ):
        raise facts.unsupported(
            "word_embed_proj_dim", "only hidden_size is (all sizes but 350m)."
        )
    has_bias = facts.flag("enable_bias", default=True)
    shape = _shape(facts, kv_heads=0, qkv_bias=has_bias, output_bias=has_bias)
    size = shape.hidden_size
    has_final_norm = facts.flag(
        "do_layer_norm_before", default=True
    ) and not facts.flag("_remove_final_layer_norm")
    modules = (
        *attention(shape),
        *plain_mlp(size, facts.integer("ffn_dim"), bias=has_bias),
        norms(size, bias=True),
    )
    skeleton = Skeleton(
        hidden_size=size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(norms(size, count=1, bias=True),) if has_final_norm else (),
        embeddings_on=Placement.EVERYWHERE,
        norm_on=Placement.EVERYWHERE,
        head_on=Placement.EVERYWHERE,
        tie_word_embeddings=facts.flag("tie_word_embeddings"),
        extra_embeddings=(
            # OPT's positions start at 2.
            learned_positions(
                facts.integer("max_position_embeddings") + 2, size, "embed_positions"
            ),
        ),
    )
    return assemble(facts, label, skeleton, _body(facts, shape, modules))


def read_falcon(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Falcon. Source: vLLM 0.33.0 `models/falcon.py`."""
    is_new = facts.flag("new_decoder_architecture")
    if is_new:
        kv_heads = facts.integer("num_kv_heads")
    else:
        kv_heads = 1 if facts.flag("multi_query") else 0
    has_bias = facts.flag("bias")
    shape = replace(
        _shape(facts, kv_heads=kv_heads, qkv_bias=has_bias, output_bias=has_bias),
        heeds_kv_cache_dtype=facts.flag("alibi"),
    )
    size = shape.hidden_size
    norms_in_parallel = facts.optional_integer("num_ln_in_parallel_attn")
    two_norms = not facts.flag("parallel_attn", default=True) or (
        is_new and norms_in_parallel in (None, 2)
    )
    modules = (
        *attention(shape),
        *plain_mlp(
            size,
            facts.optional_integer("ffn_hidden_size") or 4 * size,
            bias=has_bias,
        ),
        norms(size, count=2 if two_norms else 1, bias=True),
    )
    skeleton = Skeleton(
        hidden_size=size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(norms(size, count=1, bias=True),),
        embeddings_on=Placement.EVERYWHERE,
        norm_on=Placement.EVERYWHERE,
        head_on=Placement.EVERYWHERE,
        tie_word_embeddings=facts.flag("tie_word_embeddings", default=True),
        every_stage=()
        if facts.flag("alibi")
        else rope_cache(
            facts,
            head_size=shape.head_size,
            max_position=facts.integer("max_position_embeddings", default=8192),
        ),
    )
    return assemble(facts, label, skeleton, _body(facts, shape, modules))


def read_bloom(facts: Facts, label: Label) -> ModelArchitecture:
    """Return BLOOM. Source: vLLM 0.33.0 `models/bloom.py`."""
    shape = _shape(facts, kv_heads=0, qkv_bias=True, output_bias=True)
    size = shape.hidden_size
    modules = (
        *attention(shape),
        *plain_mlp(size, 4 * size),
        norms(size, bias=True),
    )
    skeleton = Skeleton(
        hidden_size=size,
        vocab_size=facts.integer("vocab_size"),
        final_norm=(norms(size, count=1, bias=True),),
        embeddings_on=Placement.EVERYWHERE,
        norm_on=Placement.EVERYWHERE,
        head_on=Placement.EVERYWHERE,
        tie_word_embeddings=facts.flag("tie_word_embeddings", default=True),
        extra_embeddings=(norms(size, count=1, bias=True),),
    )
    return assemble(facts, label, skeleton, _body(facts, shape, modules))


def read_chatglm(facts: Facts, label: Label) -> ModelArchitecture:
    """Return ChatGLM2, ChatGLM3 and GLM-4. Source: vLLM 0.33.0 `models/chatglm.py`."""
    size = facts.integer("hidden_size")
    num_heads = facts.integer("num_attention_heads")
    has_groups = facts.flag("multi_query_attention")
    kv_heads = facts.integer("multi_query_group_num") if has_groups else num_heads
    has_bias = facts.flag("add_bias_linear")
    shape = AttentionShape(
        hidden_size=size,
        num_heads=num_heads,
        num_kv_heads=kv_heads,
        head_size=size // num_heads,
        qkv_bias=has_bias or facts.flag("add_qkv_bias"),
        output_bias=has_bias,
    )
    seq_length = facts.integer("seq_length", default=8192)
    modules = (
        *attention(shape),
        *gated_mlp(size, facts.integer("ffn_hidden_size"), bias=has_bias),
        norms(size, bias=not facts.flag("rmsnorm", default=True)),
    )
    skeleton = Skeleton(
        hidden_size=size,
        vocab_size=facts.integer("padded_vocab_size", "vocab_size"),
        final_norm=(norms(size, count=1),)
        if facts.flag("post_layer_norm", default=True)
        else (),
        embeddings_on=Placement.EVERYWHERE,
        norm_on=Placement.EVERYWHERE,
        head_on=Placement.EVERYWHERE,
        tie_word_embeddings=facts.flag("tie_word_embeddings"),
        every_stage=rope_cache(
            facts,
            head_size=shape.head_size,
            max_position=seq_length,
            dim=shape.head_size // 2,
        ),
    )
    kind = LayerKind(caches=(kv_of(shape),), modules=modules)
    body = Body.alike(kind, facts.integer("num_layers", "num_hidden_layers"))
    return assemble(
        facts,
        label,
        skeleton,
        body,
        # vLLM's ChatGLMConfig calls seq_length max_position_embeddings as well.
        max_position_embeddings=seq_length,
        max_len_key="max_position_embeddings",
    )


READERS = {
    "GPT2LMHeadModel": read_gpt2,
    "GPTBigCodeForCausalLM": read_gpt_bigcode,
    "GPTJForCausalLM": read_gptj,
    "GPTNeoXForCausalLM": read_gpt_neox,
    "PhiForCausalLM": read_phi,
    "OPTForCausalLM": read_opt,
    "FalconForCausalLM": read_falcon,
    "BloomForCausalLM": read_bloom,
    "ChatGLMModel": read_chatglm,
    "ChatGLMForConditionalGeneration": read_chatglm,
}
