"""SigLIP's towers beside a language model, and SigLIP with both its halves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial

from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.families.assembly import (
    Label,
    Reader,
    classification_head,
    num_labels,
)
from planner.models.families.bert import encoder, encoder_shape, plain_layer
from planner.models.families.blip2 import qformer
from planner.models.families.composite import (
    MODEL_RENAMES,
    Composite,
    Text,
    Tie,
    quant_method,
    siglip_of,
    sub_config,
    text_facts,
)
from planner.models.families.decoder import encoder_only, kv_of, norms
from planner.models.families.facts import Facts
from planner.models.families.heads import pooled
from planner.models.families.llava import PROJECTOR, RENAMES, TOWER, read_text
from planner.models.families.qwen_vl import FLAT_KEYS, QWEN2_RENAMES
from planner.models.families.towers import blocks, items, tiles
from planner.models.families.towers.blocks import IMAGE, IMAGE_AND_VIDEO
from planner.models.families.towers.clip import (
    Depth,
    clip_layers,
    encoder_pass,
    siglip_vision,
)
from planner.models.families.towers.tiles import granite4_vision_items
from planner.models.layers import (
    Linear,
    Module,
    Part,
    Replicated,
    TokenBuffer,
    VocabParallelEmbedding,
)


# CLIP with both its halves, for embeddings.
def _clip_text(facts: Facts, label: Label) -> ModelArchitecture:
    text = text_facts(facts, "clip_text_model")
    columns = facts.integer("projection_dim")
    head = Replicated(
        "text_projection", Part.CLASSIFIER, ((columns, text.integer("hidden_size")),)
    )
    return text_encoder(text, label, is_causal=True, head=(head,))


def _clip_modules(facts: Facts, _text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/clip.py` CLIPEmbeddingModel."""
    vision = sub_config(facts, "vision_config", "clip_vision_model")
    shape = (facts.integer("projection_dim"), vision.integer("hidden_size"))
    yield from clip_layers(vision, "vision_model")
    yield blocks.replicated("visual_projection", shape)


def text_encoder(
    facts: Facts, label: Label, *, is_causal: bool, head: tuple[Module, ...]
) -> ModelArchitecture:
    """Return the text half of CLIP, which has a KV cache, or of SigLIP."""
    shape = replace(encoder_shape(facts), heeds_kv_cache_dtype=False)
    size, positions = shape.hidden_size, facts.integer("max_position_embeddings")
    kind = LayerKind(
        (kv_of(shape) if is_causal else encoder_only(shape),), plain_layer(facts, shape)
    )
    table = VocabParallelEmbedding("position_embedding", positions, size)
    numbers = Replicated(
        "embeddings.position_ids", Part.BUFFERS, ((positions,),), dtype="int64"
    )
    model = encoder(
        facts,
        label,
        [kind] * facts.integer("num_hidden_layers"),
        (table,) if is_causal else (table, numbers),
        head,
    )
    last = (norms(size, count=1, bias=True),)
    return replace(model, last_stage=last, is_encoder_only=not is_causal)


def _siglip_text(facts: Facts, label: Label) -> ModelArchitecture:
    text = text_facts(facts, "siglip_text_model")
    size = text.integer("hidden_size")
    columns = text.integer("projection_size", default=size)
    head = Replicated("head", Part.CLASSIFIER, ((columns, size), (columns,)))
    return text_encoder(text, label, is_causal=False, head=(head,))


def _siglip_modules(facts: Facts, _text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/siglip.py` SiglipEmbeddingModel."""
    vision, encoder = siglip_of(facts, "vision")
    yield from encoder
    if vision.flag("vision_use_head", default=True):
        yield from _pooling_head(vision)


def _pooling_head(facts: Facts) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/siglip.py` SiglipMultiheadAttentionPoolingHead."""
    size, name = facts.integer("hidden_size"), "vision_model.head"
    wide, mlp = facts.integer("intermediate_size"), f"{name}.mlp"
    attention = ((3 * size, size), (3 * size,), (size, size), (size,))
    yield blocks.replicated(name, (size,), *attention)
    yield blocks.norms(f"{name}.layernorm", size, bias=True)
    yield from blocks.plain_mlp(f"{mlp}.fc1", f"{mlp}.fc2", size, wide)


def _gemma3_tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/gemma3_mm.py` Gemma3ForConditionalGeneration."""
    vision, encoder = siglip_of(facts, TOWER)
    size = vision.integer("hidden_size")
    weight = f"{PROJECTOR}.mm_input_projection_weight"
    return Tower(
        IMAGE,
        (
            *encoder,
            blocks.replicated(weight, (size, text_size)),
            blocks.norms(f"{PROJECTOR}.mm_soft_emb_norm", size, bias=False),
        ),
        items=tiles.gemma3_items(vision),
        forward=encoder_pass(vision),
    )


def _paligemma_tower(facts: Facts, _text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/paligemma.py` PaliGemmaForConditionalGeneration."""
    vision, encoder = siglip_of(facts, TOWER)
    size, output = vision.integer("hidden_size"), facts.integer("projection_dim")
    linear = blocks.linear(f"{PROJECTOR}.linear", size, output, bias=True)
    return Tower(
        IMAGE,
        (*encoder, linear),
        items=tiles.paligemma_items(vision),
        forward=encoder_pass(vision),
    )


read_paligemma = Composite(
    _paligemma_tower,
    text=partial(read_text, default="gemma"),
    renames=RENAMES,
    has_mm_prefix=True,
)


def _cohere2_modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/cohere2_vision.py`."""
    vision, encoder = siglip_of(facts, TOWER)
    merged = vision.integer("hidden_size") * facts.integer("downsample_factor") ** 2
    half = facts.integer("alignment_intermediate_size") // 2
    yield from encoder
    yield blocks.column(f"{PROJECTOR}.linear_1", merged, half, half, bias=True)
    yield blocks.row(f"{PROJECTOR}.linear_2", half, text_size, bias=True)


# Eagle 2.5: SigLIP, and InternVL's projector.
def _eagle_modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/eagle2_5_vl.py`."""
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    chosen = facts.value("select_layer")
    layer = -1 if chosen is None else int(chosen)
    count = layer + 1 + (vision.integer("num_hidden_layers") if layer < 0 else 0)
    yield from siglip_of(facts, "vision_model", Depth(num_layers=count))[1]
    yield from shuffled_mlp(facts, vision, text_size)


def shuffled_mlp(facts: Facts, vision: Facts, text_size: int) -> tuple[Module, ...]:
    """Return InternVL's projector: patches joined by four, a norm, two layers."""
    ratio = facts.number("downsample_ratio", default=0.5)
    merged = vision.integer("hidden_size") * int(1 / ratio) ** 2
    return (
        blocks.norms("mlp1.0", merged, bias=True),
        blocks.linear("mlp1.1", merged, text_size, bias=True),
        blocks.linear("mlp1.3", text_size, text_size, bias=True),
    )


# Nemotron's embeddings of images: SigLIP and Llama in both directions.
def _nemotron_text(
    facts: Facts, label: Label, *, is_classifier: bool = False
) -> ModelArchitecture:
    text = Text("llama", "LlamaForCausalLM", other_name="llm_config").facts(facts)
    inner = label.of("LlamaForCausalLM")
    both_ways = Facts({**text.config, "is_causal": False}, "llama")
    model = label.readers[inner.architecture](both_ways, inner)
    score = classification_head(model.hidden_size, num_labels(text))
    return pooled(model, inner, score if is_classifier else (), is_whole=True)


def _nemotron_modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/nemotron_vl.py` LlamaNemotronVLForEmbedding."""
    vision, encoder = siglip_of(facts, "vision_model")
    yield from encoder
    yield from shuffled_mlp(facts, vision, text_size)


_MODEL = Composite(
    _nemotron_modules,
    text=_nemotron_text,
    beside=lambda _facts, _size: (blocks.input_norm("input_norm"),),
)


# Bagel's half that understands images: SigLIP and Qwen2.
_KEPT = {27: 26}  # Bagel's checkpoint lacks the last of SigLIP's layers


def _bagel_modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Yield the tower, whose table of positions stays on the CPU.

    Source: vLLM 0.33.0 `models/bagel.py`.
    """
    if not facts.flag("visual_und", default=True):
        raise facts.unsupported("visual_und", "a model that sees is.")
    vision = sub_config(facts, "vit_config", "siglip_vision_model")
    layers = vision.integer("num_hidden_layers")
    kept = {**vision.config, "num_hidden_layers": _KEPT.get(layers, layers)}
    seen, size = Facts(kept, vision.model_type), vision.integer("hidden_size")
    yield from siglip_vision(seen, "vit_model", quant_method=quant_method(facts))
    yield blocks.column("connector.fc1", size, text_size, bias=True)
    yield blocks.row("connector.fc2", text_size, text_size, bias=True)


# Keye and Keye 1.5: SigLIP's tower, and Qwen3.
def _keye_modules(
    facts: Facts, text_size: int, *, norms_merged: bool = False
) -> Iterator[Module]:
    """Yield the tower, and a projector that norms patches, or merged ones (1.5).

    The class passes the quantisation on to the tower's MLPs.

    Source: vLLM 0.33.0 `models/keye.py`, `models/keye_vl1_5.py`.
    """
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    size = vision.integer("hidden_size")
    half_head = size // vision.integer("num_attention_heads") // 2
    merged, name = 4 * size, "visual.vision_model"
    for module in siglip_vision(vision, "visual"):
        if isinstance(module, Linear) and ".mlp." in module.name:
            yield replace(module, is_quantizable=True)
        else:
            yield module
    yield blocks.replicated(f"{name}.embeddings.packing_position", (32768, size))
    frequencies = f"{name}.encoder.rotary_pos_emb"
    yield blocks.replicated(frequencies, (half_head // 2,), dtype="float32")
    yield blocks.norms("mlp_AR.pre_norm", merged if norms_merged else size, bias=True)
    yield blocks.column("mlp_AR.linear_1", merged, merged, bias=True)
    yield blocks.row("mlp_AR.linear_2", merged, text_size, bias=True)


_KEYE = Composite(
    _keye_modules,
    text=Text("qwen3", "Qwen3ForCausalLM", name=""),
    modalities=IMAGE_AND_VIDEO,
    renames=QWEN2_RENAMES,
)


# PaddleOCR-VL: SigLIP with rotary positions, and ERNIE 4.5.
def _paddle_tower(facts: Facts, text_size: int) -> Tower:
    vision = sub_config(facts, "vision_config", "paddleocr_vl_vision")
    return Tower(
        IMAGE,
        tuple(_paddle_modules(vision, text_size)),
        items=items.paddle_ocr_items(vision),
        rotates_in_fp32=True,
    )


def _paddle_modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Yield the tower and its projector over 2 x 2 patches.

    Source: vLLM 0.33.0 `models/paddleocr_vl.py` SiglipVisionModel and Projector;
    `models/siglip.py` SiglipMLP.
    """
    size, heads = facts.integers("hidden_size", "num_attention_heads")
    name = "visual.vision_model.encoder.rotary_pos_emb"
    rotary = blocks.inverse_frequencies(name, size // heads)
    *layers, last = siglip_vision(facts, "visual")
    yield from (*layers, rotary, last)
    merged = 4 * size
    yield blocks.norms("mlp_AR.pre_norm", size, bias=True)
    yield blocks.linear("mlp_AR.linear_1", merged, merged, bias=True)
    yield blocks.linear("mlp_AR.linear_2", merged, text_size, bias=True)


# Granite 4 Vision: SigLIP, and a Q-Former for each layer that takes its features.
_SPATIAL_PROJECTORS = 4
_QFORMER = {
    "cross_attention_frequency": 1,
    "intermediate_size": 3072,
    "num_hidden_layers": 1,
}


def _levels(facts: Facts) -> int:
    levels = facts.value("deepstack_layer_map")
    if not isinstance(levels, list) or not facts.value("downsample_rate"):
        raise facts.unsupported("deepstack_layer_map", "a list of layers is.")
    return len(levels)


def _granite_tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/granite4_vision.py`."""
    vision, encoder = siglip_of(facts, "vision_tower", Depth(has_post_norm=False))
    levels, rate = _levels(facts), str(facts.value("downsample_rate"))
    projector = tuple(_projector(vision, text_size, rate))
    return Tower(
        IMAGE,
        (
            *encoder,
            blocks.replicated("image_newline", (text_size,)),
            *blocks.repeated("layerwise_projectors", levels, *projector),
            *blocks.repeated("spatial_projectors", _SPATIAL_PROJECTORS, *projector),
        ),
        items=granite4_vision_items(facts, vision, Fraction(rate)),
    )


def _buffers(facts: Facts, text_size: int) -> tuple[Module, ...]:
    count = _levels(facts) + len(facts.value("spatial_target_layers") or ())
    return (TokenBuffer("deepstack_buffers", text_size, count=count),)


def _projector(vision: Facts, text_size: int, rate: str) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/granite4_vision.py` WindowQFormerDownsampler."""
    size = vision.integer("hidden_size")
    queries, window = (int(side) ** 2 for side in rate.split("/"))
    layers = {**_QFORMER, "hidden_size": size, "encoder_hidden_size": size}
    yield from qformer(Facts(layers, ""), "qformer")
    yield blocks.norms("norm", size, bias=True)
    yield blocks.replicated("", (queries, size), (window, size))
    yield blocks.linear("out_linear", size, text_size, bias=True)


READERS: dict[str, Reader] = {
    "CLIPModel": Composite(_clip_modules, text=_clip_text, prefix="text_model."),
    "SiglipModel": Composite(_siglip_modules, text=_siglip_text, prefix="text_model."),
    "Gemma3ForConditionalGeneration": Composite(
        _gemma3_tower,
        text=Text("gemma3_text", "Gemma3ForCausalLM"),
        renames=RENAMES,
        has_mm_prefix=True,
    ),
    "PaliGemmaForConditionalGeneration": read_paligemma,
    "Cohere2VisionForConditionalGeneration": Composite(
        _cohere2_modules, renames=RENAMES
    ),
    "Eagle2_5_VLForConditionalGeneration": Composite(_eagle_modules),
    "LlamaNemotronVLModel": _MODEL,
    "LlamaNemotronVLForSequenceClassification": replace(
        _MODEL, text=partial(_nemotron_text, is_classifier=True)
    ),
    "BagelForConditionalGeneration": Composite(
        _bagel_modules,
        text=Text("qwen2", "Qwen2ForCausalLM", name="llm_config"),
        has_mm_prefix=True,
    ),
    "KeyeForConditionalGeneration": _KEYE,
    "KeyeVL1_5ForConditionalGeneration": replace(
        _KEYE, tower=partial(_keye_modules, norms_merged=True)
    ),
    "PaddleOCRVLForConditionalGeneration": Composite(
        _paddle_tower,
        text=Text(
            "paddleocr_vl_text",
            "Ernie4_5ForCausalLM",
            tie=Tie.EITHER,
            flat_keys=(*FLAT_KEYS, "head_dim", "use_bias"),
        ),
        renames=MODEL_RENAMES,
        supports_pp=False,
    ),
    "Granite4VisionForConditionalGeneration": Composite(
        _granite_tower, text=Text("granite", "GraniteForCausalLM"), beside=_buffers
    ),
}
