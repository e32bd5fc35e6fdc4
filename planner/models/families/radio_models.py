"""Nemotron's models with the RADIO tower, Step 3 to 3.7 with towers of their own."""

from __future__ import annotations

from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.caches import CrossAttentionLayer
from planner.models.families.assembly import Label, Placement
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    kv_of,
    norms,
    plain_mlp,
)
from planner.models.families.facts import Facts
from planner.models.families.internvl import InternShape, intern_layer
from planner.models.families.layered import Frame, decoder
from planner.models.families.multimodal import (
    composed,
    model_dtype,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.audio import parakeet
from planner.models.layers import Module
from planner.models.states import Mamba2State

_DIMENSIONS = {
    "vit_small_patch16_224": (384, 12, 6, 1536),
    "vit_base_patch16_224": (768, 12, 12, 3072),
    "vit_large_patch16_224": (1024, 24, 16, 4096),
    "vit_huge_patch16_224": (1280, 32, 16, 5120),
    "vit_so400m_patch16_224": (1152, 27, 16, 4304),
}
"""Width, layers, heads and MLP of each tower.

Source: vLLM 0.33.0 `transformers_utils/configs/radio.py` VIT_TIMM_DIM_BY_NAME.
"""
_POSITIONS_UP_TO = 2048
_PERCEPTION = "vision_model"
_STEP_TEXT = {"step3p5": "Step3p5ForCausalLM"}
_WITH_DTYPE = ("NemotronH_Nano_VL_V2",)
"""Names for which vLLM takes the states' dtype from the config.

Source: vLLM 0.33.0 `models/config.py` MODELS_CONFIG_MAP.
"""


def read_nemotron_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Nemotron-H with images, and sounds where configured, on one stage only.

    Source: vLLM 0.33.0 `models/nano_nemotron_vl.py` NemotronH_Nano_VL_V2.
    """
    name = "llm_config" if facts.mapping("llm_config") else "text_config"
    text = text_facts(facts, "nemotron_h", name=name)
    inner = {**text.config, "architectures": ["NemotronHForCausalLM"]}
    model = read_language_model(Facts(inner, "nemotron_h"), label)
    size = facts.integer("vit_hidden_size")
    ratio = facts.number("downsample_ratio")
    merged = size * round(1 / ratio) ** 2
    wide = facts.integer("projector_hidden_size")
    modules: tuple[Module, ...] = (
        *_radio(facts),
        blocks.norms("mlp1.0", merged, bias=False),
        blocks.replicated("mlp1", (wide, merged), (model.hidden_size, wide)),
    )
    if text.optional_integer("num_nextn_predict_layers"):
        modules = (*modules, blocks.norms("vision_final_layernorm", size, bias=True))
    if label.architecture not in _WITH_DTYPE:
        model = _without_state_dtype(model)
    modalities: tuple[str, ...] = ("image", "video")
    if facts.mapping("sound_config"):
        modules = (*modules, *_sounds(facts, model.hidden_size))
        modalities = (*modalities, "audio")
    tower = Tower(modalities=modalities, modules=modules)
    whole = composed(facts, label, model, tower)
    return replace(whole, supports_pp=False)


def _sounds(facts: Facts, text_size: int) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/parakeet.py` ProjectedParakeet."""
    sound, name = sub_config(facts, "sound_config", "parakeet_encoder"), "sound_encoder"
    size, wide = sound.integer("hidden_size"), sound.integer("projection_hidden_size")
    layers = ((wide, size), (text_size, wide))
    biases = ((wide,), (text_size,)) if sound.flag("projection_bias") else ()
    return (
        *parakeet(sound, f"{name}.encoder"),
        blocks.norms(f"{name}.projection.norm", size, bias=False),
        blocks.replicated(f"{name}.projection", *layers, *biases),
    )


def _without_state_dtype(model: ModelArchitecture) -> ModelArchitecture:
    """Return the model whose states have the dtype of its weights."""
    kinds = tuple(
        replace(
            kind,
            caches=tuple(
                replace(cache, recurrent_dtype=None, has_default_dtype=False)
                if isinstance(cache, Mamba2State)
                else cache
                for cache in kind.caches
            ),
        )
        for kind in model.layer_kinds
    )
    return replace(model, layer_kinds=kinds)


def _radio(facts: Facts) -> tuple[Module, ...]:
    """Return the tower that args of the vision config name.

    Source: vLLM 0.33.0 `models/radio.py` RadioModel.
    """
    inner = sub_config(facts, "vision_config", "radio")
    args = Facts(inner.mapping("args"), "radio")
    if args.value("model") not in _DIMENSIONS:
        raise args.unsupported("model", f"{', '.join(_DIMENSIONS)} are.")
    size, num_layers, heads, wide = _DIMENSIONS[str(args.value("model"))]
    patch = inner.integer("patch_size", default=16)
    side = round(args.integer("cpe_max_size", default=_POSITIONS_UP_TO) / patch)
    name = "vision_model.model"
    modules: list[Module] = [
        blocks.replicated(
            f"{name}.patch_generator",
            (size, 3 * patch * patch),
            (side * side, size),
            (_class_tokens(args), size),
        )
    ]
    frames = inner.integer("video_temporal_patch_size", default=1)
    if frames > 1:
        modules.append(
            blocks.replicated(
                f"{name}.patch_generator.video_embedder",
                (size, 3 * frames * patch * patch),
            )
        )
    shape = InternShape(
        hidden_size=size,
        num_heads=heads,
        num_dummy_heads=0,
        intermediate_size=wide,
        qkv_bias=True,
        has_qk_norm=False,
        norm_bias=True,
    )
    for index in range(num_layers):
        modules += blocks.unquantised(
            *intern_layer(f"{name}.encoder.layers.{index}", shape)
        )
    return tuple(modules)


def _class_tokens(args: Facts) -> int:
    """Return class tokens and the registers that fill them up."""
    teachers = args.value("teachers") or ()
    count = 1
    if args.flag("cls_token_per_teacher"):
        count = len({teacher["name"] for teacher in teachers})
    multiple = args.optional_integer("register_multiple")
    return count + (multiple - count % multiple if multiple else 0)


def read_step3_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Step 3 with images. Source: vLLM 0.33.0 `models/step3_vl.py`."""
    text = text_facts(facts, "step3_text")
    inner = Facts(
        {**text.config, "architectures": ["Step3TextForCausalLM"]}, "step3_text"
    )
    model = read_language_model(inner, label)
    vision = sub_config(facts, "vision_config", "step3_vision_encoder")
    size, out = vision.integer("hidden_size"), vision.integer("output_hidden_size")
    projector = (
        (facts.integer("hidden_size"), 2 * out),
        (facts.integer("hidden_size"),),
    )
    modules = (
        *_step3_vision(vision),
        blocks.convolution("vit_downsampler", out, size, 2, 2, bias=True),
        blocks.convolution("vit_downsampler2", 2 * out, out, 3, 3, bias=True),
        blocks.replicated(
            "vit_large_projector",
            *projector[: 2 if facts.flag("projector_bias") else 1],
        ),
    )
    tower = Tower(modalities=("image",), modules=modules, supports_data_parallel=True)
    return composed(facts, label, model, tower)


def _step3_vision(facts: Facts) -> tuple[Module, ...]:
    size, patch = facts.integer("hidden_size"), facts.integer("patch_size")
    heads, wide = (
        facts.integer("num_attention_heads"),
        facts.integer("intermediate_size"),
    )
    positions = (facts.integer("image_size") // patch) ** 2 + 1
    name = "vision_model.embeddings"
    modules: list[Module] = [
        blocks.replicated(name, (size,), (positions, size)),
        blocks.convolution(
            f"{name}.patch_embedding",
            size,
            facts.integer("num_channels"),
            patch,
            patch,
            bias=True,
        ),
        blocks.replicated(f"{name}.position_ids", (positions,), dtype="int64"),
    ]
    for index in range(facts.integer("num_hidden_layers")):
        layer = f"vision_model.transformer.layers.{index}"
        modules += [
            *blocks.unquantised(
                blocks.qkv(f"{layer}.self_attn.qkv_proj", size, heads, bias=True),
                blocks.row(f"{layer}.self_attn.out_proj", size, size, bias=True),
                *blocks.plain_mlp(f"{layer}.mlp.fc1", f"{layer}.mlp.fc2", size, wide),
            ),
            blocks.norms(f"{layer}.layer_norm", size, count=2, bias=True),
        ]
    return tuple(modules)


def read_step_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Step-VL and Step 3.7.

    Source: vLLM 0.33.0 `models/step_vl.py`, `models/step3p7.py`.
    """
    given = facts.mapping("text_config")
    text = text_facts(facts, str(given.get("model_type") or "step3p5"))
    if not text.value("architectures") and text.model_type in _STEP_TEXT:
        named = {**text.config, "architectures": [_STEP_TEXT[text.model_type]]}
        text = Facts(named, text.model_type)
    model = read_language_model(text, label)
    vision = sub_config(facts, "vision_config", "perception_encoder")
    width = vision.integer("width")
    projector = blocks.column(
        "vit_large_projector",
        4 * width,
        model.hidden_size,
        bias=facts.flag("projector_bias", default=True),
    )
    modules = (*_perception(vision), projector)
    tower = Tower(modalities=("image",), modules=modules, supports_data_parallel=True)
    return composed(facts, label, model, tower)


def _perception(facts: Facts) -> tuple[Module, ...]:
    """Return the encoder, each of whose layers has a rotary table of its own.

    Source: vLLM 0.33.0 `models/step_vl.py` PerceptionEncoder.
    """
    width, patch = facts.integer("width"), facts.integer("patch_size")
    grid = facts.integer("image_size") // patch
    has_class = facts.flag("use_cls_token")
    positions = grid**2 + (1 if has_class else 0)
    modules: list[Module] = [
        blocks.convolution(f"{_PERCEPTION}.conv1", width, 3, patch, patch, bias=False),
        blocks.convolution(
            f"{_PERCEPTION}.vit_downsampler1", 2 * width, width, 3, 3, bias=True
        ),
        blocks.convolution(
            f"{_PERCEPTION}.vit_downsampler2", 4 * width, 2 * width, 3, 3, bias=True
        ),
    ]
    for norm in ("ln_pre", "ln_post"):
        if facts.flag(f"use_{norm}", default=True):
            modules.append(blocks.norms(f"{_PERCEPTION}.{norm}", width, bias=True))
    if has_class:
        modules.append(blocks.replicated(f"{_PERCEPTION}.class_embedding", (width,)))
    if facts.flag("use_abs_posemb", default=True):
        modules.append(
            blocks.replicated(f"{_PERCEPTION}.positional_embedding", (positions, width))
        )
    for index in range(facts.integer("layers")):
        modules += _perception_layer(facts, index, positions)
    return tuple(modules)


def _perception_layer(facts: Facts, index: int, positions: int) -> tuple[Module, ...]:
    width, heads = facts.integer("width"), facts.integer("heads")
    name = f"{_PERCEPTION}.transformer.resblocks.{index}"
    wide = int(width * facts.number("mlp_ratio", default=4.0))
    has_scale = facts.value("ls_init_value") is not None
    scales = (blocks.replicated(f"{name}.ls", (width,), (width,)),) if has_scale else ()
    return (
        blocks.qkv(f"{name}.attn.qkv_proj", width, heads, bias=True),
        blocks.row(f"{name}.attn.out_proj", width, width, bias=True),
        blocks.replicated(
            f"{name}.attn.rope", (positions, width // heads), dtype="float32"
        ),
        *blocks.plain_mlp(f"{name}.mlp.fc1", f"{name}.mlp.fc2", width, wide),
        blocks.norms(f"{name}.ln", width, count=2, bias=True),
        *scales,
    )


_ATTENDING = "NemotronParseForConditionalGeneration"
_SPATIAL, _SUMMARY = 1280, 3840
"""Widths of what Nemotron Parse's tower gives, where the config does not say."""


def read_nemotron_parse(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Nemotron Parse: an image read by mBART's decoder, in one pipeline stage.

    That of 3.5 continues the image, that of earlier ones attends to it. Its class says
    that it has an encoder, unless the config says otherwise: then no prompt is split.

    Source: vLLM 0.33.0 `models/nemotron_parse.py`, `models/nemotron_parse3_5.py`;
    `transformers_utils/config.py` is_encoder_decoder; Transformers' MBartConfig.
    """
    attends = label.architecture == _ATTENDING
    text = sub_config(facts, "decoder", "mbart")
    tied = facts.flag("tie_word_embeddings") or text.flag("tie_word_embeddings")
    layers = text.integer("decoder_layers")
    model = decoder(
        Facts({**text.config, "dtype": model_dtype(facts, text.config)}, "mbart"),
        label,
        Frame(
            hidden_size=text.integer("d_model"),
            placement=Placement.EVERYWHERE,
            is_tied=tied,
            norm_bias=True,
            extra_final=(norms(text.integer("d_model"), count=1, bias=True),),
        ),
        (_mbart_layer(text, attends=attends),) * layers,
        is_encoder_decoder=facts.flag("is_encoder_decoder")
        or text.flag("is_encoder_decoder", default=True),
    )
    width = text.integer("d_model")
    spatial = facts.integer("vision_spatial_dim", default=_SPATIAL)
    summary = facts.integer("vision_summary_dim", default=_SUMMARY)
    tower = Tower(
        modalities=("image",),
        modules=(*_parse_tower(facts), *_neck(width, spatial, summary)),
    )
    whole = composed(facts, label, model, tower, prefix="decoder.")
    return replace(whole, supports_pp=False)


def _parse_tower(facts: Facts) -> tuple[Module, ...]:
    """Return RADIO, all of whose settings are in args."""
    args = dict(facts.mapping("encoder").get("args") or {})
    given = {"args": args, "patch_size": args.get("patch_size", 16)}
    return _radio(Facts({"vision_config": given}, facts.model_type))


def _neck(width: int, spatial: int, summary: int) -> tuple[Module, ...]:
    name = "encoder"
    return (
        blocks.convolution(f"{name}.conv1", width, spatial, 1, bias=True),
        blocks.convolution(f"{name}.conv2", width, width, 1, 4, bias=False),
        blocks.norms(f"{name}.layer_norm", width, count=3, bias=True),
        blocks.column(f"{name}.sum_proj", summary, width, bias=True),
    )


def _mbart_layer(facts: Facts, *, attends: bool) -> LayerKind:
    size, heads = facts.integer("d_model"), facts.integer("decoder_attention_heads")
    shape = AttentionShape(
        hidden_size=size,
        num_heads=heads,
        num_kv_heads=heads
        if attends
        else facts.integer("self_attention_kv_heads", default=heads),
        head_size=size // heads,
        qkv_bias=True,
        output_bias=True,
    )
    wide = facts.integer("encoder_ffn_dim" if attends else "decoder_ffn_dim")
    modules = (*attention(shape), *plain_mlp(size, wide), norms(size, bias=True))
    if not attends:
        return LayerKind(caches=(kv_of(shape),), modules=modules)
    crossed = CrossAttentionLayer(
        num_heads=heads, num_kv_heads=heads, head_size=size // heads
    )
    own = (*attention(shape), norms(size, count=1, bias=True))
    return LayerKind(caches=(kv_of(shape), crossed), modules=(*modules, *own))


READERS = {
    "RadioMBartPrefixForCausalLM": read_nemotron_parse,
    "NemotronParseForConditionalGeneration": read_nemotron_parse,
    "NemotronH_Nano_VL_V2": read_nemotron_vl,
    "NemotronH_Nano_Omni_Reasoning_V3": read_nemotron_vl,
    "NemotronH_Super_Omni_Reasoning_V3": read_nemotron_vl,
    "NemotronH_Omni_Reasoning_V3": read_nemotron_vl,
    "Step3VLForConditionalGeneration": read_step3_vl,
    "StepVLForConditionalGeneration": read_step_vl,
    "Step3p7ForConditionalGeneration": read_step_vl,
    "Step5ForConditionalGeneration": read_step_vl,
}
