"""Gemma 3n: several hidden states at once, embeddings for each layer, shared caches."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Label, Placement
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    attention_scales,
    attention_shape,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.layered import FULL, SLIDING, Frame, decoder, typed_ropes
from planner.models.families.multimodal import composed, sub_config, text_facts
from planner.models.families.towers import gemma3n
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    ReplicatedLinear,
    RowParallelLinear,
    TokenBuffer,
    VocabParallelEmbedding,
)

_RENAMES = (
    ("model.embed_audio.", "embed_audio."),
    ("model.embed_vision.", "embed_vision."),
    ("model.language_model.", "language_model.model."),
    ("model.vision_tower.", "vision_tower."),
    ("model.audio_tower.", "audio_tower."),
    ("model.", "language_model.model."),
)


def read_gemma3n(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Gemma 3n's language model.

    Source: vLLM 0.33.0 `models/gemma3n.py` Gemma3nForCausalLM.
    """
    num_layers = facts.integer("num_hidden_layers")
    types = list(facts.value("layer_types"))[:num_layers]
    if not set(types) <= {FULL, SLIDING}:
        raise facts.unsupported("layer_types", "full and sliding attention are.")
    has_bias = facts.flag("attention_bias")
    shape = attention_shape(
        facts, qkv_bias=has_bias, output_bias=has_bias, has_qk_norm=True
    )
    widths = facts.value("intermediate_size")
    widths = widths if isinstance(widths, list) else [widths] * num_layers
    first_shared = num_layers - (facts.optional_integer("num_kv_shared_layers") or 0)
    sources = _sources(types, first_shared)
    layers = [
        _layer(facts, shape, types[i], int(widths[i]), is_shared=sources[i] != i)
        for i in range(num_layers)
    ]
    ropes = typed_ropes(
        facts,
        types,
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings"),
    )
    frame = Frame(
        shape.hidden_size,
        (*ropes, *_around(facts)),
        placement=Placement.EVERYWHERE,
        is_tied=True,
    )
    return decoder(
        facts,
        label,
        frame,
        layers,
        kv_sources=sources if first_shared < num_layers else (),
        supports_pp=False,
    )


def _sources(types: list[str], first_shared: int) -> tuple[int, ...]:
    """Return the layer whose keys each layer reads: the last of its kind that has any.

    Source: vLLM 0.33.0 `models/gemma3n.py` Gemma3nAttention.
    """
    offsets = {SLIDING: 2, FULL: 1}
    return tuple(
        index if index < first_shared else first_shared - offsets[kind]
        for index, kind in enumerate(types)
    )


def _layer(
    facts: Facts,
    shape: AttentionShape,
    kind: str,
    width: int,
    *,
    is_shared: bool,
) -> LayerKind:
    size, narrow = shape.hidden_size, facts.integer("hidden_size_per_layer_input")
    window = facts.integer("sliding_window") if kind == SLIDING else None
    own = _queries(shape) if is_shared else attention(shape)
    rank = facts.integer("laurel_rank")
    laurel = (
        ColumnParallelLinear("laurel.linear_left", Part.MLP, size, (rank,)),
        RowParallelLinear("laurel.linear_right", Part.MLP, rank, size),
    )
    return LayerKind(
        () if is_shared else (replace(kv_of(shape), sliding_window=window),),
        (
            *own,
            *gated_mlp(size, width),
            *laurel,
            *_altup(facts),
            _whole("per_layer_input_gate", size, narrow),
            _whole("per_layer_projection", narrow, size),
            norms(size, count=6),
        ),
    )


def _queries(shape: AttentionShape) -> tuple[Module, ...]:
    """Return the attention of a layer that reads another's keys and values."""
    wide = shape.num_heads * shape.head_size
    return (
        ColumnParallelLinear(
            "self_attn.q_proj",
            Part.ATTENTION,
            shape.hidden_size,
            (wide,),
            bias=shape.qkv_bias,
        ),
        RowParallelLinear(
            "self_attn.o_proj",
            Part.ATTENTION,
            wide,
            shape.hidden_size,
            bias=shape.output_bias,
        ),
        Replicated("self_attn.q_norm", Part.NORMS, ((shape.head_size,),)),
        attention_scales(),
    )


def _whole(name: str, input_size: int, output_size: int) -> ReplicatedLinear:
    return ReplicatedLinear(name, Part.MLP, input_size, (output_size,))


def _altup(facts: Facts) -> tuple[Module, ...]:
    """Return what mixes the hidden states, of which one layer changes one.

    Source: vLLM 0.33.0 `models/gemma3n.py` Gemma3nAltUp.
    """
    size, count = facts.integers("hidden_size", "altup_num_inputs")
    return (
        _whole("altup.correction_coefs", count, count),
        _whole("altup.prediction_coefs", count, count * count),
        _whole("altup.modality_router", size, count),
        Replicated("altup.router_norm", Part.NORMS, ((size,), ())),
        Replicated("altup.correct_output_scale", Part.MLP, ((size,),), dtype="float32"),
    )


def _around(facts: Facts) -> tuple[Module, ...]:
    """Return what is beside the layers: embeddings of each, and projections."""
    size = facts.integer("hidden_size")
    narrow = facts.integer("hidden_size_per_layer_input")
    wide = facts.integer("num_hidden_layers") * narrow
    projections = tuple(
        ColumnParallelLinear(f"model.{name}.{index}", Part.MLP, size, (size,))
        for name in ("altup_projections", "altup_unembed_projections")
        for index in range(facts.integer("altup_num_inputs") - 1)
    )
    return (
        VocabParallelEmbedding(
            "model.embed_tokens_per_layer",
            facts.integer("vocab_size_per_layer_input"),
            wide,
        ),
        ColumnParallelLinear(
            "model.per_layer_model_projection", Part.MLP, size, (wide,)
        ),
        Replicated("model.per_layer_projection_norm", Part.NORMS, ((narrow,),)),
        Replicated("model.scales", Part.BUFFERS, ((), (), (), ())),
        *projections,
    )


def read_gemma3n_mm(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Gemma 3n that sees and hears.

    The embeddings of each layer are kept for the tokens of a step.

    Source: vLLM 0.33.0 `models/gemma3n_mm.py` Gemma3nForConditionalGeneration.
    """
    text = text_facts(facts, "gemma3n_text")
    inner = label.of("Gemma3nForCausalLM")
    model = read_gemma3n(text, inner)
    narrow = text.integer("hidden_size_per_layer_input")
    kept = TokenBuffer(
        "per_layer_embeddings", text.integer("num_hidden_layers") * narrow
    )
    vision = sub_config(facts, "vision_config", "gemma3n_vision")
    audio = sub_config(facts, "audio_config", "gemma3n_audio")
    whole = composed(
        facts,
        label,
        model,
        gemma3n.vision_tower(vision, model.hidden_size),
        gemma3n.audio_tower(audio, model.hidden_size),
        renames=_RENAMES,
    )
    return replace(whole, every_stage=(*whole.every_stage, kept))


READERS = {
    "Gemma3nForCausalLM": read_gemma3n,
    "Gemma3nForConditionalGeneration": read_gemma3n_mm,
}
