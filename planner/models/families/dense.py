"""Dense decoders with something of their own: norms, windows by layer.

HyperCLOVA X, PLaMo 3, Rnj-1, Domyn Edge, Step 1, TeleChat 2, Granite with
windows, and openPangu's dense models.
"""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Label, Placement
from planner.models.families.decoder import (
    AttentionShape,
    ExpertsShape,
    attention,
    attention_shape,
    experts,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.latent import read_pangu_sinks
from planner.models.families.layered import (
    FULL,
    SLIDING,
    Frame,
    decoder,
    sinks,
    typed_ropes,
)
from planner.models.families.llama import read_llama_attention
from planner.models.families.rope import rope_cache
from planner.models.layers import Module, Part, Replicated


def _layer(shape: AttentionShape, window: int | None, *modules: Module) -> LayerKind:
    kept = replace(kv_of(shape), sliding_window=window)
    return LayerKind(caches=(kept,), modules=(*attention(shape), *modules))


def _windows(facts: Facts) -> list[int | None]:
    """Return each layer's window, by layer_types."""
    num_layers = facts.integer("num_hidden_layers")
    types = facts.value("layer_types")
    if not types:
        return [None] * num_layers
    if not set(types) <= {FULL, SLIDING}:
        raise facts.unsupported("layer_types", "full and sliding attention are.")
    window = facts.optional_integer("sliding_window")
    return [window if kind == SLIDING else None for kind in types[:num_layers]]


def read_hyperclovax(facts: Facts, label: Label) -> ModelArchitecture:
    """Return HyperCLOVA X. Source: vLLM 0.33.0 `models/hyperclovax.py`."""
    has_bias = facts.flag("attention_bias")
    shape = attention_shape(facts, qkv_bias=has_bias, output_bias=has_bias)
    size = shape.hidden_size
    layer = _layer(
        shape,
        None,
        *_mlp(facts),
        norms(size, count=4 if facts.flag("use_post_norm") else 2),
    )
    rope = rope_cache(
        facts,
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings", default=8192),
    )
    frame = Frame(hidden_size=size, rope=rope)
    return decoder(facts, label, frame, [layer] * facts.integer("num_hidden_layers"))


def read_plamo3(facts: Facts, label: Label) -> ModelArchitecture:
    """Return PLaMo 3: four norms a layer, rotary tables that end with max_model_len.

    Source: vLLM 0.33.0 `models/plamo3.py`.
    """
    shape = attention_shape(facts, has_qk_norm=True)
    size = shape.hidden_size
    own = (
        *gated_mlp(size, facts.integer("intermediate_size")),
        norms(size, count=4),
    )
    windows = facts.value("interleaved_sliding_window") or _windows(facts)
    num_layers = facts.integer("num_hidden_layers")
    types = [FULL if window is None else SLIDING for window in windows]
    theta = {"rope_type": "default", "rope_theta": facts.value("rope_local_theta")}
    rope = typed_ropes(
        facts,
        types,
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings"),
        local=Facts({**facts.config, "rope_parameters": theta}, facts.model_type),
    )
    frame = Frame(
        hidden_size=size,
        rope=tuple(replace(table, ends_with_length=True) for table in rope),
        placement=Placement.EVERYWHERE,
    )
    layers = (_layer(shape, window, *own) for window in windows[:num_layers])
    return decoder(facts, label, frame, layers)


def read_rnj1(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Rnj-1: Gemma 3's layers, whose chunks keep all tokens.

    Source: vLLM 0.33.0 `models/rnj1.py`.
    """
    has_bias = facts.flag("attention_bias")
    shape = attention_shape(
        facts, qkv_bias=has_bias, output_bias=has_bias, has_qk_norm=True
    )
    size = shape.hidden_size
    layer = _layer(
        shape,
        None,
        *gated_mlp(size, facts.integer("intermediate_size")),
        norms(size, count=4),
    )
    num_layers = facts.integer("num_hidden_layers")
    rope = typed_ropes(
        facts,
        facts.value("layer_types") or [FULL] * num_layers,
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings"),
    )
    normalizer = Replicated(
        name="model.normalizer", part=Part.BUFFERS, shapes=((),), dtype="float32"
    )
    frame = Frame(
        hidden_size=size, rope=(*rope, normalizer), placement=Placement.EVERYWHERE
    )
    return decoder(facts, label, frame, [layer] * num_layers)


def read_domyn_edge(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Domyn Edge, whose heads' size and window differ by layer.

    Source: vLLM 0.33.0 `models/domyn_edge.py`.
    """
    plain = attention_shape(facts)
    size, by_layer = plain.hidden_size, facts.mapping("per_layer_config")
    own = (*gated_mlp(size, facts.integer("intermediate_size")), norms(size, count=4))
    windows, positions = facts.value("window_sizes"), facts.value("position_layers")
    layers, rotated = [], []
    for index in range(facts.integer("num_hidden_layers")):
        head_size = by_layer.get(str(index), {}).get("head_dim") or plain.head_size
        shape = replace(plain, head_size=head_size, qk_norm_sizes=(head_size,))
        reach = windows[index][0]
        layers.append(_layer(shape, reach + 1 if reach > 0 else None, *own))
        if positions[index] == "rope":
            rotated.append(head_size)
    tables = tuple(
        Replicated(
            name="rotary_emb.cos_sin_cache",
            part=Part.BUFFERS,
            shapes=((facts.integer("max_position_embeddings"), head_size),),
            dtype="float32",
        )
        for head_size in dict.fromkeys(rotated)
    )
    frame = Frame(hidden_size=size, rope=tables)
    return decoder(facts, label, frame, layers, supports_pp=False)


def read_step1(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Step 1, whose positions are ALiBi's and no table.

    Source: vLLM 0.33.0 `models/step1.py`.
    """
    has_bias = facts.flag("attention_bias")
    plain = attention_shape(facts, qkv_bias=has_bias, output_bias=has_bias)
    groups = facts.integer("num_attention_groups", "num_key_value_heads", default=1)
    shape = replace(
        plain,
        num_kv_heads=groups,
        head_size=plain.hidden_size // plain.num_heads,
    )
    size = shape.hidden_size
    layer = LayerKind(
        caches=(replace(kv_of(shape), uses_alibi_sqrt=True),),
        modules=(*attention(shape), *_mlp(facts), norms(size)),
    )
    frame = Frame(
        hidden_size=size, is_tied=facts.flag("tie_word_embeddings", default=True)
    )
    return decoder(facts, label, frame, [layer] * facts.integer("num_hidden_layers"))


def read_telechat2(facts: Facts, label: Label) -> ModelArchitecture:
    """Return TeleChat 2: Llama, with biases on outputs only.

    Source: vLLM 0.33.0 `models/telechat2.py`.
    """
    renamed = {
        "num_hidden_layers": facts.integer("n_layer", "num_hidden_layers"),
        "num_attention_heads": facts.integer("n_head", "num_attention_heads"),
        "intermediate_size": facts.integer("ffn_hidden_size", "intermediate_size"),
    }
    facts = Facts({**facts.config, **renamed}, facts.model_type)
    shape = replace(read_llama_attention(facts), qkv_bias=False, output_bias=True)
    size = shape.hidden_size
    up, down = gated_mlp(size, renamed["intermediate_size"])
    down = gated_mlp(size, renamed["intermediate_size"], bias=True)[1]
    layer = _layer(shape, None, up, down, norms(size))
    rope = rope_cache(
        facts,
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings", default=8192),
    )
    frame = Frame(hidden_size=size, rope=rope)
    return decoder(facts, label, frame, [layer] * renamed["num_hidden_layers"])


def read_granite_swa(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Granite with windows and sinks, with plain MLPs or with experts.

    Source: vLLM 0.33.0 `models/granite.py` granite_layer_attn_params,
    `models/granitemoeshared.py`.
    """
    is_sparse = label.architecture.startswith("GraniteMoe")
    shape = attention_shape(facts) if is_sparse else read_llama_attention(facts)
    size, has_types = shape.hidden_size, bool(facts.value("layer_types"))
    has_sinks = facts.flag("attention_sinks", default=has_types)
    own: tuple[Module, ...] = (
        *(_granite_experts(facts) if is_sparse else _mlp(facts)),
        norms(size),
        *((sinks(shape.num_heads),) if has_sinks else ()),
    )
    plain = replace(kv_of(shape), has_sinks=has_sinks)
    layers = (
        LayerKind(
            caches=(replace(plain, sliding_window=window),),
            modules=(*attention(shape), *own),
        )
        for window in _windows(facts)
    )
    thetas = facts.value("layer_rope_theta") or [1]
    tables = rope_cache(
        facts,
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings", default=8192),
    )
    frame = Frame(
        hidden_size=size,
        # One for each base; a base of 0 stands for no positions.
        rope=tables * len({theta for theta in thetas if theta}),
        placement=Placement.EVERYWHERE if is_sparse else Placement.BY_STAGE,
    )
    return decoder(facts, label, frame, layers)


def _mlp(facts: Facts) -> tuple[Module, ...]:
    return gated_mlp(
        facts.integer("hidden_size"),
        facts.integer("intermediate_size"),
        bias=facts.flag("mlp_bias"),
    )


def _granite_experts(facts: Facts) -> tuple[Module, ...]:
    size = facts.integer("hidden_size")
    sparse = experts(
        ExpertsShape(
            hidden_size=size,
            num_experts=facts.integer("num_local_experts"),
            top_k=facts.integer("num_experts_per_tok"),
            intermediate_size=facts.integer("intermediate_size"),
            name="block_sparse_moe",
        )
    )
    shared = facts.optional_integer("shared_intermediate_size") or 0
    if not shared:
        return sparse
    return (
        *sparse,
        *gated_mlp(size, shared, part=Part.SHARED_EXPERTS, name="shared_mlp"),
    )


def read_pangu_embedded(facts: Facts, label: Label) -> ModelArchitecture:
    """Return openPangu's dense models. Source: vLLM 0.33.0 `models/openpangu.py`."""
    if facts.value("param_sink_number"):
        return read_pangu_sinks(facts, label)
    has_bias = facts.flag("attention_bias") or facts.flag("bias")
    own = facts.value("qkv_bias")
    shape = attention_shape(
        facts,
        qkv_bias=has_bias if own is None else bool(own),
        output_bias=has_bias,
    )
    size, windows = shape.hidden_size, facts.value("interleaved_sliding_window")
    num_layers = facts.integer("num_hidden_layers")
    pattern = windows if isinstance(windows, list) else [windows]
    modules = (
        *_mlp(facts),
        norms(size, count=4 if facts.flag("sandwich_norm") else 2),
    )
    rope = rope_cache(
        facts,
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings", default=8192),
    )
    layers = (
        _layer(shape, pattern[i % len(pattern)], *modules) for i in range(num_layers)
    )
    return decoder(facts, label, Frame(hidden_size=size, rope=rope), layers)


READERS = {
    "HyperCLOVAXForCausalLM": read_hyperclovax,
    "Plamo3ForCausalLM": read_plamo3,
    "Rnj1ForCausalLM": read_rnj1,
    "DomynEdgeForCausalLM": read_domyn_edge,
    "Step1ForCausalLM": read_step1,
    "TeleChat2ForCausalLM": read_telechat2,
    "GraniteSWAForCausalLM": read_granite_swa,
    "GraniteMoeSWAForCausalLM": read_granite_swa,
    "PanguEmbeddedForCausalLM": read_pangu_embedded,
}
