"""Gemma 4 with images and sounds, whose towers vLLM takes from Transformers.

Every rank holds them in full.

Source: vLLM 0.33.0 `models/gemma4_mm.py`; Transformers' Gemma4VisionModel and
Gemma4AudioModel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from planner.models.architecture import Frames, ModelArchitecture, Tower
from planner.models.families.assembly import Label, Reader
from planner.models.families.composite import (
    Composite,
    composed,
    quant_method,
    sub_config,
    text_facts,
    with_mm_prefix,
)
from planner.models.families.facts import Facts
from planner.models.families.gemma4 import read_gemma4_text
from planner.models.families.towers import blocks, items, sounds
from planner.models.families.towers.blocks import AUDIO, IMAGE_AND_VIDEO
from planner.models.layers import (
    Module,
    Part,
    Replicated,
    ReplicatedLinear,
    TokenBuffer,
)
from planner.models.passes import Moment, TowerPass, Turns

# A frame becomes 70 tokens, between two that mark it, with 6 for its time.
_LONGEST_VIDEO = Frames(count=32, tokens=70 + 2 + 6)
_TAKES_ANY_SIZE = ("bitsandbytes", "torchao", "compressed-tensors")


def vision_tower(facts: Facts, text_size: int, quant_method: str) -> Tower:
    """Return the vision tower with its projection."""
    item_tokens = facts.integer("default_output_length", default=280)
    parts = _Parts(facts, is_quantizable=_is_quantizable(facts, quant_method))
    return Tower(
        blocks.IMAGE_AND_VIDEO,
        tuple(_vision(facts, text_size, parts)),
        item_tokens=item_tokens,
        items=items.gemma4_items(facts, item_tokens),
        frames=_LONGEST_VIDEO,
        forward=_vision_pass(facts),
    )


def _vision(facts: Facts, text_size: int, parts: _Parts) -> Iterator[Module]:
    size, patch = facts.integers("hidden_size", "patch_size")
    positions = facts.integer("position_embedding_size", least=1)
    frequencies = (facts.integer("head_dim") // 4,)  # rows and columns share a head
    name, rotary = "vision_tower.patch_embedder", "vision_tower.encoder.rotary_emb"
    yield blocks.replicated(name, (2, positions, size))
    yield parts.linear(f"{name}.input_proj", 3 * patch**2, size)
    yield blocks.replicated(rotary, frequencies, frequencies, dtype="float32")
    yield from _embedder("embed_vision", size, text_size, parts)
    if facts.flag("standardize"):
        yield blocks.replicated("vision_tower.std", (size,), (size,))
    layer, count = _vision_layer(facts, parts), facts.integer("num_hidden_layers")
    yield from blocks.repeated("vision_tower.encoder.layers", count, *layer)


def _vision_pass(facts: Facts) -> TowerPass:
    """Return the widest point: the product of gate and up, each with a name.

    Beside them are the embeddings, the block's input, its residual and a norm's output,
    both rotary tables, and a mask of a byte for each pair of patches. Turns are limited
    by a table of one-hot positions, which this release's Transformers does not make.

    Source: Transformers' Gemma4VisionEncoderLayer, Gemma4VisionMLP; vLLM 0.33.0
    `models/gemma4_mm.py` _process_image_input, _process_video_input, _encoder_chunk.
    """
    size, mlp_size = facts.integers("hidden_size", "intermediate_size")
    tables = 2 * facts.integer("head_dim")
    return TowerPass(
        moments=(Moment("MLP", whole=4 * size + 3 * mlp_size + tables),),
        turns=Turns(
            bytes_per_row=4 * 8 * facts.integer("position_embedding_size"),
            kept=size,
            copied=("image",),
            since=items.ENCODES_IN_TURNS,
        ),
    )


def _vision_layer(facts: Facts, parts: _Parts) -> tuple[Module, ...]:
    size, mlp_size = facts.integers("hidden_size", "intermediate_size")
    head_size, heads = facts.integers("head_dim", "num_attention_heads")
    kv_heads = facts.integer("num_key_value_heads", default=heads)
    bias = facts.flag("attention_bias")
    if bias:
        raise facts.unsupported("attention_bias", "no tower of Gemma 4 has biases.")
    sizes = {
        "self_attn.q_proj": (size, heads * head_size),
        "self_attn.k_proj": (size, kv_heads * head_size),
        "self_attn.v_proj": (size, kv_heads * head_size),
        "self_attn.o_proj": (heads * head_size, size),
        "mlp.gate_proj": (size, mlp_size),
        "mlp.up_proj": (size, mlp_size),
        "mlp.down_proj": (mlp_size, size),
    }
    return (
        *(m for n, (i, o) in sizes.items() for m in parts.clipped(n, i, o)),
        blocks.norms("qk_norm", head_size, count=2, bias=False),
        blocks.norms("layernorm", size, count=4, bias=False),
    )


def audio_tower(facts: Facts, text_size: int, quant_method: str) -> Tower:
    """Return the audio tower with its projection."""
    parts = _Parts(facts, is_quantizable=_is_quantizable(facts, quant_method))
    return Tower(
        blocks.AUDIO,
        tuple(_audio(facts, text_size, parts)),
        items=sounds.gemma4_audio_items(),
    )


def _audio(facts: Facts, text_size: int, parts: _Parts) -> Iterator[Module]:
    size, output = facts.integers("hidden_size", "output_proj_dims")
    first, second = facts.value("subsampling_conv_channels")
    name, conv = "audio_tower", "audio_tower.subsample_conv_projection"
    yield blocks.replicated(f"{conv}.layer0", (first, 1, 3, 3), (first,))
    yield blocks.replicated(f"{conv}.layer1", (second, first, 3, 3), (second,))
    yield parts.linear(f"{conv}.input_proj_linear", first // 4 * second, size)
    yield blocks.replicated(f"{name}.rel_pos_enc", (size // 2,))
    yield parts.linear(f"{name}.output_proj", size, output, bias=True)
    yield from _embedder("embed_audio", output, text_size, parts)
    layer, count = _audio_layer(facts, parts), facts.integer("num_hidden_layers")
    yield from blocks.repeated(f"{name}.layers", count, *layer)


def _audio_layer(facts: Facts, parts: _Parts) -> tuple[Module, ...]:
    size = facts.integer("hidden_size")
    heads, kernel = facts.integers("num_attention_heads", "conv_kernel_size")
    width = size // heads * heads
    sizes = {
        "feed_forward1.ffw_layer_1": (size, 4 * size),
        "feed_forward1.ffw_layer_2": (4 * size, size),
        "feed_forward2.ffw_layer_1": (size, 4 * size),
        "feed_forward2.ffw_layer_2": (4 * size, size),
        "self_attn.q_proj": (size, width),
        "self_attn.k_proj": (size, width),
        "self_attn.v_proj": (size, width),
        "self_attn.post": (size, size),
        "lconv1d.linear_start": (size, 2 * size),
        "lconv1d.linear_end": (size, size),
    }
    return (
        *(m for n, (i, o) in sizes.items() for m in parts.clipped(n, i, o)),
        parts.linear("self_attn.relative_k_proj", size, width),
        blocks.replicated("self_attn.scales", (size // heads,), ()),
        blocks.replicated("lconv1d.depthwise_conv1d", (size, kernel)),
        blocks.norms("norms", size, count=9, bias=False),
    )


def _embedder(
    name: str, size: int, text_size: int, parts: _Parts
) -> tuple[Module, ...]:
    """Return the projection to the language model; its norm multiplies by ones."""
    return (
        blocks.norms(f"{name}.embedding_pre_projection_norm", size, bias=False),
        parts.linear(f"{name}.embedding_projection", size, text_size),
    )


def _is_quantizable(facts: Facts, quant_method: str) -> bool:
    """Whether a tower's linear layers take a method; most require multiples of 64.

    Source: vLLM 0.33.0 `models/gemma4_mm.py` _get_tower_quant_config.
    """
    mlp_size = facts.optional_integer("intermediate_size") or 0
    is_divisible = not (facts.integer("hidden_size") % 64 or mlp_size % 64)
    return is_divisible or quant_method in _TAKES_ANY_SIZE


class _Parts:
    """Linear layers as one tower has them."""

    def __init__(self, facts: Facts, *, is_quantizable: bool) -> None:
        self._is_clipped = facts.flag("use_clipped_linears")
        self._is_quantizable = is_quantizable

    def linear(
        self, name: str, input_size: int, output_size: int, *, bias: bool = False
    ) -> ReplicatedLinear:
        return ReplicatedLinear(
            name,
            Part.TOWERS,
            input_size,
            (output_size,),
            bias=bias,
            is_quantizable=self._is_quantizable,
        )

    def clipped(
        self, name: str, input_size: int, output_size: int
    ) -> tuple[Module, ...]:
        """Return a linear layer with its four bounds, where the tower has them."""
        layer = self.linear(f"{name}.linear", input_size, output_size)
        if not self._is_clipped:
            return (layer,)
        return (layer, blocks.replicated(f"{name}.bounds", (), (), (), ()))


RENAMES = (
    ("model.vision_tower", "vision_tower"),
    ("model.embed_vision", "embed_vision"),
    ("model.audio_tower.", "audio_tower."),
    ("model.embed_audio.", "embed_audio."),
    ("model.language_model.", "language_model.model."),
    ("lm_head.", "language_model.lm_head."),
    ("model", "language_model.model"),
)


def read_text(facts: Facts, label: Label, *, kind: str) -> ModelArchitecture:
    """Return Gemma 4's decoder, whose images attend in both directions if it says so.

    Source: vLLM 0.33.0 `transformers_utils/model_arch_config_convertor.py`
    Gemma4ModelArchConfigConvertor.
    """
    text = text_facts(facts, kind)
    model = read_gemma4_text(text, label)
    if text.value("use_bidirectional_attention") == "vision":
        return with_mm_prefix(model)
    return model


def step_buffer(facts: Facts, _text_size: int, *, kind: str) -> tuple[Module, ...]:
    """Return the buffer of a step's embeddings for each layer."""
    text = text_facts(facts, kind)
    inner = text.optional_integer("hidden_size_per_layer_input")
    if not inner:
        return ()
    columns = text.integer("num_hidden_layers") * inner
    return (TokenBuffer("per_layer_embeddings", columns),)


def _towers(facts: Facts, text_size: int) -> Iterator[Tower]:
    """Source: vLLM 0.33.0 `models/gemma4_mm.py` Gemma4ForConditionalGeneration."""
    method = quant_method(facts)
    vision = sub_config(facts, "vision_config", "gemma4_vision")
    yield vision_tower(vision, text_size, method)
    if facts.value("audio_config") is not None:
        audio = sub_config(facts, "audio_config", "gemma4_audio")
        yield audio_tower(audio, text_size, method)


# Gemma 4 that takes patches and sounds as they are, without encoders.
_KIND = "gemma4_unified_text"


def _tower(facts: Facts, _text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/gemma4_unified.py`."""
    if facts.value("vision_config") is None:
        raise facts.unsupported("vision_config", "vLLM requires one.")
    sounds = AUDIO if facts.value("audio_config") is not None else ()
    return Tower((*IMAGE_AND_VIDEO, *sounds), ())


def _beside(facts: Facts, text_size: int) -> Iterator[Module]:
    """Yield what embeds patches and sounds, on every stage.

    Source: vLLM 0.33.0 `models/gemma4_unified.py` Gemma4UnifiedVisionEmbedder,
    `models/gemma4_mm.py` Gemma4MultimodalEmbedder.
    """
    yield from step_buffer(facts, text_size, kind=_KIND)
    vision = sub_config(facts, "vision_config", "gemma4_unified_vision")
    side = vision.integer("patch_size") * vision.integer("pooling_kernel_size")
    pixels, size = 3 * side**2, vision.integer("mm_embed_dim")
    places, name = vision.integer("mm_posemb_size"), "vision_embedder"
    shapes = ((pixels,),) * 2 + ((size,),) * 4 + ((places, 2, size),)
    yield blocks.column(f"{name}.patch_dense", pixels, size, bias=True)
    yield blocks.replicated(name, *shapes)
    widths = [vision.integer("output_proj_dims")]
    if facts.value("audio_config") is not None:
        audio = sub_config(facts, "audio_config", "gemma4_unified_audio")
        widths.append(audio.integer("audio_embed_dim", "hidden_size"))
    for width in widths:
        yield blocks.replicated("embed", (text_size, width), (width,))


# DiffusionGemma: Gemma 4, and an MLP that reads its own guesses.
def _read(facts: Facts, label: Label) -> ModelArchitecture:
    """Source: vLLM 0.33.0 `models/diffusion_gemma.py`."""
    text = text_facts(facts, "diffusion_gemma_text")
    model = read_gemma4_text(text, label)
    size = model.hidden_size
    width = facts.optional_integer("self_conditioning_size")
    width = width or text.integer("intermediate_size")
    guesses = Replicated(
        "self_conditioning", Part.MLP, ((size,),) * 2 + ((width, size),) * 3
    )
    towers: tuple[Tower, ...] = ()
    if facts.value("vision_config") is not None:
        vision = sub_config(facts, "vision_config", "gemma4_vision")
        towers = (vision_tower(vision, size, quant_method(facts)),)
    every = (*model.every_stage, guesses)
    own = replace(model, every_stage=every, supports_pp=False)
    return composed(facts, label, own, *towers, prefix="")


READERS: dict[str, Reader] = {
    "Gemma4ForConditionalGeneration": Composite(
        _towers,
        text=partial(read_text, kind="gemma4_text"),
        beside=partial(step_buffer, kind="gemma4_text"),
        renames=RENAMES,
    ),
    "Gemma4UnifiedForConditionalGeneration": Composite(
        _tower, text=partial(read_text, kind=_KIND), beside=_beside, renames=RENAMES
    ),
    "DiffusionGemmaForBlockDiffusion": _read,
}
