"""Nemotron's models with RADIO: Nemotron-H that sees and hears, Nemotron Parse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.caches import CacheLayer, CrossAttentionLayer
from planner.models.families.assembly import (
    Frame,
    Label,
    Placement,
    Reader,
    assemble,
    with_caches,
)
from planner.models.families.composite import Composite, Text, model_dtype, sub_config
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    kv_of,
    norms,
    plain_mlp,
)
from planner.models.families.facts import Facts
from planner.models.families.internvl import InternShape, intern_layer
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import AUDIO, IMAGE_AND_VIDEO
from planner.models.layers import Module
from planner.models.states import Mamba2State

_SIZES = {
    "vit_small_patch16_224": blocks.Sizes(384, 6, 1536, 12),
    "vit_base_patch16_224": blocks.Sizes(768, 12, 3072, 12),
    "vit_large_patch16_224": blocks.Sizes(1024, 16, 4096, 24),
    "vit_huge_patch16_224": blocks.Sizes(1280, 16, 5120, 32),
    "vit_so400m_patch16_224": blocks.Sizes(1152, 16, 4304, 27),
}
"""Source: vLLM 0.33.0 `transformers_utils/configs/radio.py` VIT_TIMM_DIM_BY_NAME."""
_POSITIONS_UP_TO = 2048


def radio(facts: Facts) -> Iterator[Module]:
    """Yield the tower that args of this vision config name.

    Source: vLLM 0.33.0 `models/radio.py` RadioModel.
    """
    args = Facts(facts.mapping("args"), "radio")
    if args.value("model") not in _SIZES:
        raise args.unsupported("model", f"{', '.join(_SIZES)} are.")
    sizes = _SIZES[str(args.value("model"))]
    size, patch = sizes.width, facts.integer("patch_size", default=16)
    side = round(args.integer("cpe_max_size", default=_POSITIONS_UP_TO) / patch)
    name, pixels = "vision_model.model.patch_generator", 3 * patch * patch
    tokens = ((side * side, size), (_class_tokens(args), size))
    yield blocks.replicated(name, (size, pixels), *tokens)
    frames = facts.integer("video_temporal_patch_size", default=1)
    if frames > 1:
        yield blocks.replicated(f"{name}.video_embedder", (size, frames * pixels))
    shape = InternShape(sizes=sizes)
    for index in range(sizes.depth):
        layer = f"vision_model.model.encoder.layers.{index}"
        yield from blocks.unquantised(*intern_layer(layer, shape))


def _class_tokens(args: Facts) -> int:
    """Return class tokens and the registers that fill them up."""
    teachers = args.value("teachers") or ()
    count = 1
    if args.flag("cls_token_per_teacher"):
        count = len({teacher["name"] for teacher in teachers})
    multiple = args.optional_integer("register_multiple")
    return count + (multiple - count % multiple if multiple else 0)


def _parakeet(facts: Facts, name: str) -> Iterator[Module]:
    """Yield Parakeet's encoder, Transformers' own modules, in full on every rank.

    Source: vLLM 0.33.0 `models/parakeet.py` ProjectedParakeet, which switches biases of
    attention off; Transformers' ParakeetEncoder.
    """
    size, channels = facts.integers("hidden_size", "subsampling_conv_channels")
    stride, kernel = facts.integers(
        "subsampling_conv_stride", "subsampling_conv_kernel_size"
    )
    halvings = facts.integer("subsampling_factor").bit_length() - 1
    bins = facts.integer("num_mel_bins") // stride**halvings
    square, before = (kernel, kernel), f"{name}.subsampling"
    yield blocks.replicated(f"{name}.encode_positions", (size // 2,))
    yield blocks.convolution(f"{before}.layers.0", channels, 1, *square, bias=True)
    yield blocks.linear(f"{before}.linear", channels * bins, size, bias=True)
    for index in range(halvings - 1):
        layer = f"{before}.layers.{index + 1}"
        yield blocks.convolution(f"{layer}.depth", channels, 1, *square, bias=True)
        yield blocks.convolution(f"{layer}.point", channels, channels, 1, 1, bias=True)
    count = facts.integer("num_hidden_layers")
    yield from blocks.repeated(f"{name}.layers", count, *_parakeet_layer(facts))


def _parakeet_layer(facts: Facts) -> Iterator[Module]:
    size, wide, heads = facts.integers(
        "hidden_size", "intermediate_size", "num_attention_heads"
    )
    head_size = facts.integer("head_dim", default=size // heads)
    keys = facts.integer("num_key_value_heads", default=heads) * head_size
    queries, kernel = heads * head_size, facts.integer("conv_kernel_size")
    has_bias = facts.flag("convolution_bias", default=True)
    biases = ((2 * size,), (size,), (size,)) if has_bias else ()
    attention = ((queries, size), (keys, size), (keys, size), (size, queries))
    positions = ((queries, size), (queries,), (queries,))
    convolutions = ((2 * size, size), (size, kernel), (size, size))
    yield blocks.replicated("feed_forward", *((wide, size), (size, wide)) * 2)
    yield blocks.replicated("self_attn", *attention, *positions)
    yield blocks.replicated("conv", *convolutions, *biases)
    yield blocks.replicated("conv.norm", *((size,),) * 4)
    yield blocks.replicated("conv.norm.count", (), dtype="int64")
    yield blocks.norms("norms", size, count=5, bias=True)


# Nemotron-H with images, and sounds where configured.
_TEXT = Text("nemotron_h", "NemotronHForCausalLM", other_name="llm_config")


def _without_state_dtype(facts: Facts, label: Label) -> ModelArchitecture:
    """Return the language model, whose states have the dtype of its weights.

    Only for one name vLLM takes that from the config.

    Source: vLLM 0.33.0 `models/config.py` MODELS_CONFIG_MAP.
    """

    def changed(cache: CacheLayer) -> CacheLayer:
        if not isinstance(cache, Mamba2State):
            return cache
        return replace(cache, recurrent_dtype=None, has_default_dtype=False)

    return with_caches(_TEXT(facts, label), changed)


def _tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/nano_nemotron_vl.py` NemotronH_Nano_VL_V2."""
    size = facts.integer("vit_hidden_size")
    merged = size * round(1 / facts.number("downsample_ratio")) ** 2
    wide = facts.integer("projector_hidden_size")
    modules = [
        *radio(sub_config(facts, "vision_config", "radio")),
        blocks.norms("mlp1.0", merged, bias=False),
        blocks.replicated("mlp1", (wide, merged), (text_size, wide)),
    ]
    if _TEXT.facts(facts).optional_integer("num_nextn_predict_layers"):
        modules.append(blocks.norms("vision_final_layernorm", size, bias=True))
    if not facts.mapping("sound_config"):
        return Tower(IMAGE_AND_VIDEO, tuple(modules))
    modules += _sounds(facts, text_size)
    return Tower((*IMAGE_AND_VIDEO, *AUDIO), tuple(modules))


def _sounds(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/parakeet.py` ProjectedParakeet."""
    sound, name = sub_config(facts, "sound_config", "parakeet_encoder"), "sound_encoder"
    size, wide = sound.integers("hidden_size", "projection_hidden_size")
    layers = ((wide, size), (text_size, wide))
    biases = ((wide,), (text_size,)) if sound.flag("projection_bias") else ()
    yield from _parakeet(sound, f"{name}.encoder")
    yield blocks.norms(f"{name}.projection.norm", size, bias=False)
    yield blocks.replicated(f"{name}.projection", *layers, *biases)


_OMNI = Composite(_tower, text=_without_state_dtype, supports_pp=False)


# Nemotron Parse: an image read by mBART's decoder, in one pipeline stage. That of 3.5
# continues the image, that of earlier ones attends to it.
_ATTENDING = "NemotronParseForConditionalGeneration"
_SPATIAL, _SUMMARY = 1280, 3840
"""Widths of what the tower gives, where the config does not say."""


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    """Return mBART's decoder.

    Its class says that it has an encoder, unless the config says otherwise: then no
    prompt is split.

    Source: vLLM 0.33.0 `models/nemotron_parse.py`, `models/nemotron_parse3_5.py`;
    `transformers_utils/config.py` is_encoder_decoder; Transformers' MBartConfig.
    """
    text = sub_config(facts, "decoder", "mbart")
    tied = facts.flag("tie_word_embeddings") or text.flag("tie_word_embeddings")
    size = text.integer("d_model")
    layer = _layer(text, attends=label.architecture == _ATTENDING)
    return assemble(
        Facts({**text.config, "dtype": model_dtype(facts, text.config)}, "mbart"),
        label,
        Frame(
            size,
            placement=Placement.EVERYWHERE,
            is_tied=tied,
            final_norm=(norms(size, count=1, bias=True),) * 2,
        ),
        (layer,) * text.integer("decoder_layers"),
        is_encoder_decoder=facts.flag("is_encoder_decoder")
        or text.flag("is_encoder_decoder", default=True),
    )


def _layer(facts: Facts, *, attends: bool) -> LayerKind:
    size, heads = facts.integers("d_model", "decoder_attention_heads")
    kv_heads = facts.integer("self_attention_kv_heads", default=heads)
    shape = AttentionShape(
        hidden_size=size,
        num_heads=heads,
        num_kv_heads=heads if attends else kv_heads,
        head_size=size // heads,
        qkv_bias=True,
        output_bias=True,
    )
    wide = facts.integer("encoder_ffn_dim" if attends else "decoder_ffn_dim")
    modules = (*attention(shape), *plain_mlp(size, wide), norms(size, bias=True))
    if not attends:
        return LayerKind((kv_of(shape),), modules)
    crossed = CrossAttentionLayer(
        num_heads=heads, num_kv_heads=heads, head_size=size // heads
    )
    own = (*attention(shape), norms(size, count=1, bias=True))
    return LayerKind((kv_of(shape), crossed), (*modules, *own))


def _modules(facts: Facts, width: int) -> Iterator[Module]:
    """Yield RADIO, all of whose settings are in args, and a neck of convolutions."""
    args, name = dict(facts.mapping("encoder").get("args") or {}), "encoder"
    given = {"args": args, "patch_size": args.get("patch_size", 16)}
    spatial = facts.integer("vision_spatial_dim", default=_SPATIAL)
    summary = facts.integer("vision_summary_dim", default=_SUMMARY)
    yield from radio(Facts(given, "radio"))
    yield blocks.convolution(f"{name}.conv1", width, spatial, 1, bias=True)
    yield blocks.convolution(f"{name}.conv2", width, width, 1, 4, bias=False)
    yield blocks.norms(f"{name}.layer_norm", width, count=3, bias=True)
    yield blocks.column(f"{name}.sum_proj", summary, width, bias=True)


READERS: dict[str, Reader] = {
    "NemotronH_Nano_VL_V2": replace(_OMNI, text=_TEXT),
    "NemotronH_Nano_Omni_Reasoning_V3": _OMNI,
    "NemotronH_Super_Omni_Reasoning_V3": _OMNI,
    "NemotronH_Omni_Reasoning_V3": _OMNI,
    **dict.fromkeys(
        ("RadioMBartPrefixForCausalLM", _ATTENDING),
        Composite(_modules, text=_text, prefix="decoder.", supports_pp=False),
    ),
}
