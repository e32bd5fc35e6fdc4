"""Gemma 3n: several hidden states at once, embeddings for each layer, shared caches.

Its towers vLLM takes from Transformers and timm: every rank holds them in full, and
nothing in them is quantised; their projections to the language model are vLLM's.

Source: vLLM 0.33.0 `models/gemma3n_mm.py`; Transformers' Gemma3nAudioEncoder; timm's
mobilenetv5_300m_enc.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.families.assembly import Frame, Label, Placement, Reader, assemble
from planner.models.families.composite import composed, sub_config, text_facts
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    attention_shape,
    gated_mlp,
    kv_of,
    norms,
    query_attention,
)
from planner.models.families.facts import Facts
from planner.models.families.rope import typed_ropes
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import AUDIO
from planner.models.families.windows import FULL, SLIDING
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

_ENCODER = "mobilenetv5_300m_enc"
_EDGES = ((64, 256, 128), (128, 512, 128), (128, 512, 128))
"""Channels of the first stage's blocks: before, within, behind."""
_INVERTED = (
    (
        (3, 128, 768, 5, 256),
        *((size, 256, 1024, 0, 256) for size in (5, 3, 5, 3)),
    ),
    ((5, 256, 1536, 5, 640), *((5, 640, 2560, 0, 640),) * 7, (0, 640, 640, 0, 640)),
    ((5, 640, 3840, 5, 1280),),
)
"""Of the other stages: sides of both kernels (0: none) between the channels."""
_ATTENDING = ((0, 0, 0, 0), (14, 640, 768, 64), (19, 1280, 1536, 96))
"""And then so many times attention and an MLP: channels, queries, keys."""
_FUSED = (1920, 3840, 2048)
_STEM = 64


def vision_tower(facts: Facts, text_size: int) -> Tower:
    """Return MobileNet V5 with its projection.

    What convolutions need while they run is not known.

    Raises:
        UnknownArchitecture: for another encoder.
    """
    if facts.value("architecture") not in (None, _ENCODER):
        raise facts.unsupported("architecture", f"{_ENCODER} is.")
    name = "vision_tower.timm_model"
    modules = (*_mobilenet(name), *_embedder(facts, "embed_vision", text_size))
    return Tower(("image",), modules)


def _mobilenet(name: str) -> Iterator[Module]:
    yield blocks.convolution(f"{name}.conv_stem", _STEM, 3, 3, 3, bias=True)
    yield blocks.norms(f"{name}.conv_stem.bn", _STEM, bias=False)
    for before, middle, behind in _EDGES:
        yield blocks.replicated(
            f"{name}.blocks.0",
            *((middle, before, 3, 3), (middle,), (behind, middle), (behind,)),
        )
    for stage, rows in enumerate(_INVERTED):
        part = f"{name}.blocks.{stage + 1}"
        for row in rows:
            yield blocks.replicated(part, *_inverted(*row))
        count, size, queries, keys = _ATTENDING[stage]
        for _index in range(count):
            yield blocks.replicated(part, *_attention(size, queries, keys))
            yield blocks.replicated(part, *_inverted(0, size, 2 * size, 0, size))
    before, middle, behind = _FUSED
    yield blocks.replicated(
        f"{name}.msfa", *_inverted(0, before, middle, 0, behind)[:-1], (behind,)
    )


def _inverted(
    first: int, before: int, middle: int, second: int, behind: int
) -> tuple[tuple[int, ...], ...]:
    """Return an inverted bottleneck: depthwise convolutions, and two others between."""
    depthwise = ((before, first, first), (before,)) if first else ()
    between = ((middle, second, second), (middle,)) if second else ()
    return (
        *depthwise,
        *((middle, before), (middle,)),
        *between,
        *((behind, middle), (behind,), (behind,)),
    )


def _attention(size: int, queries: int, keys: int) -> tuple[tuple[int, ...], ...]:
    """Return attention whose heads share keys, halved by convolutions at first."""
    halving = ((size, 3, 3), (size,)) * 2 if size == _INVERTED[1][-1][-1] else ()
    projections = ((queries, size), (keys, size), (keys, size), (size, queries))
    return ((size,), *projections, *halving, (size,))


def audio_tower(facts: Facts, text_size: int) -> Tower:
    """Return the conformer with its projection."""
    first, second = facts.value("sscp_conv_channel_size")
    sizes = facts.value("sscp_conv_kernel_size")
    strides = facts.value("sscp_conv_stride_size")
    bins = facts.integer("input_feat_size")
    for (_high, wide), (_down, step) in zip(sizes, strides, strict=True):
        bins = (bins + 2 - wide) // step + 1
    size, name = facts.integer("hidden_size"), "audio_tower"
    before = f"{name}.subsample_conv_projection"
    modules = [
        blocks.replicated(f"{before}.conv_0", (first, 1, *sizes[0]), (first,)),
        blocks.replicated(f"{before}.conv_1", (second, first, *sizes[1]), (second,)),
        blocks.replicated(f"{before}.input_proj_linear", (size, second * bins)),
        *_embedder(facts, "embed_audio", text_size),
    ]
    count = facts.integer("conf_num_hidden_layers")
    modules += blocks.repeated(f"{name}.conformer", count, *_conformer(facts))
    return Tower(AUDIO, tuple(modules))


def _conformer(facts: Facts) -> tuple[Module, ...]:
    size = facts.integer("hidden_size")
    head_size = size // facts.integer("conf_num_attention_heads")
    chunk = facts.integer("conf_attention_chunk_size", default=12)
    left = facts.integer("conf_attention_context_left", default=13)
    right = facts.integer("conf_attention_context_right", default=0)
    seen = chunk + max(0, left - 1) + right
    kernel = facts.integer("conf_conv_kernel_size")
    square = (size, size)
    return (
        blocks.replicated("ffw", *((4 * size, size), (size, 4 * size)) * 2),
        blocks.replicated("attention", *(square,) * 5, (head_size,)),
        blocks.replicated("lconv1d", (2 * size, size), (size, kernel), (size, size)),
        blocks.norms("norms", size, count=9, bias=False),
        blocks.replicated("clipping", *((),) * 6),
        blocks.replicated("times", (size // 2,), (), dtype="float32"),
        blocks.replicated("mask", (chunk, seen), dtype="uint8"),
    )


def _embedder(facts: Facts, name: str, text_size: int) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/gemma3n_mm.py` Gemma3nMultimodalEmbedder."""
    size = facts.integer("hidden_size")
    words = VocabParallelEmbedding(
        f"{name}.embedding",
        facts.integer("vocab_size"),
        size,
        part=Part.TOWERS,
        is_quantizable=False,
    )
    projection = blocks.row(f"{name}.embedding_projection", size, text_size, bias=False)
    return (
        words,
        *blocks.unquantised(projection),
        blocks.norms(f"{name}.norms", size, count=2, bias=False),
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
    ropes = typed_ropes(facts, types, shape.head_size)
    frame = Frame(
        shape.hidden_size,
        (*ropes, *_around(facts)),
        placement=Placement.EVERYWHERE,
        is_tied=True,
    )
    return assemble(
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
            ReplicatedLinear("per_layer_input_gate", Part.MLP, size, (narrow,)),
            ReplicatedLinear("per_layer_projection", Part.MLP, narrow, (size,)),
            norms(size, count=6),
        ),
    )


def _queries(shape: AttentionShape) -> tuple[Module, ...]:
    """Return the attention of a layer that reads another's keys and values."""
    wide, bias = shape.num_heads * shape.head_size, shape.qkv_bias
    queries = ColumnParallelLinear(
        "self_attn.q_proj", Part.ATTENTION, shape.hidden_size, (wide,), bias=bias
    )
    output, scales, norm = query_attention(shape)
    return (queries, output, norm, scales)


def _altup(facts: Facts) -> tuple[Module, ...]:
    """Return what mixes the hidden states, of which one layer changes one.

    Source: vLLM 0.33.0 `models/gemma3n.py` Gemma3nAltUp.
    """
    size, count = facts.integers("hidden_size", "altup_num_inputs")
    return (
        ReplicatedLinear("altup.correction_coefs", Part.MLP, count, (count,)),
        ReplicatedLinear("altup.prediction_coefs", Part.MLP, count, (count * count,)),
        ReplicatedLinear("altup.modality_router", Part.MLP, size, (count,)),
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
        vision_tower(vision, model.hidden_size),
        audio_tower(audio, model.hidden_size),
        renames=_RENAMES,
    )
    return replace(whole, every_stage=(*whole.every_stage, kept))


READERS: dict[str, Reader] = {
    "Gemma3nForCausalLM": read_gemma3n,
    "Gemma3nForConditionalGeneration": read_gemma3n_mm,
}
