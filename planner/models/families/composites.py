"""Towers and language models that other readers know, put together another way.

Cohere Compass, MiDashengLM, ColUltraVBERT, Fun-Audio-Chat, DeepSeek-V4 with images.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.families.assembly import Label, Placement
from planner.models.families.decoder import (
    attention,
    attention_shape,
    encoder_only,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.deepseek_v4 import read_deepseek_v4
from planner.models.families.facts import Facts
from planner.models.families.layered import FULL, SLIDING, Frame, decoder, typed_ropes
from planner.models.families.multimodal import (
    composed,
    quant_method,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.clip import siglip_vision
from planner.models.families.towers.qwen_vl import qwen3_vl_tower
from planner.models.layers import Module

_IMAGE, _AUDIO = ("image",), ("audio",)


def read_cohere_compass(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Cohere Compass: Qwen3-VL's tower, and Cohere's decoder with windows.

    Source: vLLM 0.33.0 `models/cohere_compass.py`.
    """
    if facts.value("tie_word_embeddings") is False:
        raise facts.unsupported("tie_word_embeddings", "vLLM asserts a tied head.")
    text = text_facts(facts, "cohere_compass_text")
    vision = sub_config(facts, "vision_config", "cohere_compass_vision")
    model = _compass_text(text, label.of("CohereForCausalLM"))
    tower = qwen3_vl_tower(vision, deepstack_columns=model.hidden_size)
    modules = tuple(m for m in tower.modules if not m.name.endswith("input_norm"))
    tower = replace(
        tower, modalities=_IMAGE, modules=modules, reads_raw_pixels_since=None
    )
    levels = len(vision.value("deepstack_visual_indexes") or ())
    return composed(facts, label, replace(model, deepstack_layers=levels), tower)


def _compass_text(facts: Facts, label: Label) -> ModelArchitecture:
    has_bias = facts.flag("attention_bias")
    shape = attention_shape(facts, qkv_bias=has_bias, output_bias=has_bias)
    size, num_layers = shape.hidden_size, facts.integer("num_hidden_layers")
    types = facts.value("layer_types") or [FULL] * num_layers
    window = facts.optional_integer("sliding_window")
    modules = (
        *attention(shape),
        *gated_mlp(size, facts.integer("intermediate_size")),
        norms(size, count=1),
    )
    layers = (
        LayerKind(
            caches=(
                replace(
                    kv_of(shape), sliding_window=window if kind == SLIDING else None
                ),
            ),
            modules=modules,
        )
        for kind in types[:num_layers]
    )
    rotated = {kind for kind, own in facts.mapping("rope_parameters").items() if own}
    tables = typed_ropes(
        facts,
        [kind for kind in types if kind in rotated],
        head_size=shape.head_size,
        max_position=facts.integer("max_position_embeddings"),
    )
    # The table ends with max_model_len.
    rope = tuple(replace(table, ends_with_length=True) for table in tables)
    frame = Frame(
        hidden_size=size, rope=rope, placement=Placement.EVERYWHERE, is_tied=True
    )
    plain = Facts({**facts.config, "rope_parameters": None}, facts.model_type)
    return decoder(plain, label, frame, layers)


def read_midashenglm(facts: Facts, label: Label) -> ModelArchitecture:
    """Return MiDashengLM: Dasheng's encoder of sounds and Qwen2.

    Source: vLLM 0.33.0 `models/midashenglm.py`.
    """
    text = text_facts(facts, "qwen2_5_omni_text")
    inner = Facts(
        {**text.config, "architectures": ["Qwen2ForCausalLM"]}, text.model_type
    )
    model = read_language_model(inner, label)
    audio = sub_config(facts, "audio_encoder_config", "midashenglm_dasheng_encoder")
    size, wide = audio.integer("embed_dim"), model.hidden_size
    joined = size * facts.integer("subsample_factor")
    modules = (
        *_dasheng(audio),
        blocks.column("audio_projector.net.0", joined, wide, bias=True),
        blocks.row("audio_projector.net.2", wide, wide, bias=True),
    )
    tower = Tower(modalities=_AUDIO, modules=modules)
    return composed(facts, label, model, tower, prefix="decoder.")


def _dasheng(facts: Facts) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/midashenglm.py` DashengAudioTransformer."""
    size, heads = facts.integer("embed_dim"), facts.integer("num_heads")
    name, mels = "audio_encoder", facts.integer("n_mels")
    bins = facts.integer("n_fft") // 2 + 1
    high, wide = _both(facts, "patch_size")
    step_high, step_wide = _both(facts, "patch_stride")
    yield blocks.replicated(
        f"{name}.front_end",
        (facts.integer("win_length"),),
        (bins, mels),
    )
    yield blocks.replicated(f"{name}.init_bn", *((mels,),) * 4)
    yield blocks.replicated(f"{name}.init_bn.num_batches_tracked", (), dtype="int64")
    channels = facts.integer("input_channels")
    yield blocks.convolution(
        f"{name}.patch_embed.proj", size, channels, high, wide, bias=True
    )
    times, bands = facts.integer("target_length") // step_wide, mels // step_high
    yield blocks.replicated(f"{name}.pos_embed", (size, times), (size, bands))
    mlp_size = int(size * facts.number("mlp_ratio"))
    has_scales = bool(facts.value("init_values"))
    for index in range(facts.integer("depth")):
        block = f"{name}.blocks.{index}"
        yield blocks.norms(f"{block}.norm", size, count=2, bias=True)
        yield blocks.qkv(f"{block}.attn.qkv", size, heads, bias=facts.flag("qkv_bias"))
        yield blocks.row(f"{block}.attn.proj", size, size, bias=True)
        yield from blocks.plain_mlp(
            f"{block}.mlp.fc1", f"{block}.mlp.fc2", size, mlp_size
        )
        if has_scales:
            yield blocks.replicated(f"{block}.ls", (size,), (size,))
    yield blocks.norms(f"{name}.norm", size, bias=True)


def _both(facts: Facts, name: str) -> tuple[int, int]:
    """Return a size of height and width, which one number may stand for."""
    value = facts.value(name)
    if isinstance(value, list):
        return int(value[0]), int(value[1])
    return (facts.integer(name),) * 2


def read_colultravbert(facts: Facts, label: Label) -> ModelArchitecture:
    """Return ColUltraVBERT: SigLIP, and a decoder's layers in both directions.

    Source: vLLM 0.33.0 `models/colultravbert.py`.
    """
    text = text_facts(facts, "ultrabert")
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    shape = attention_shape(
        text,
        qkv_bias=text.flag("attention_bias"),
        output_bias=text.flag("attention_bias"),
    )
    size = shape.hidden_size
    kind = LayerKind(
        caches=(encoder_only(shape),),
        modules=(
            *attention(shape),
            *gated_mlp(
                size, text.integer("intermediate_size"), bias=text.flag("mlp_bias")
            ),
            norms(size),
        ),
    )
    rope = typed_ropes(
        text,
        text.value("layer_types"),
        head_size=shape.head_size,
        max_position=text.integer("max_position_embeddings"),
    )
    # Its embeddings have no head beside them.
    frame = Frame(
        hidden_size=size, rope=rope, placement=Placement.EVERYWHERE, is_tied=True
    )
    model = decoder(
        text,
        label.of("UltraBertModel"),
        frame,
        [kind] * text.integer("num_hidden_layers"),
        supports_pp=False,
        is_pooling=True,
        is_encoder_only=True,
    )
    merged = vision.integer("hidden_size") * facts.integer("pixel_shuffle_factor") ** 2
    last = ((size,),) if facts.flag("connector_norm", default=True) else ()
    modules = (
        *siglip_vision(vision, "vision_model", quant_method=quant_method(facts)),
        blocks.replicated("connector", (size, merged), *last),
    )
    tower = Tower(modalities=_IMAGE, modules=modules)
    return composed(facts, label, model, tower, prefix="text_model.")


def read_funaudiochat(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Fun-Audio-Chat: an encoder of sounds, one of codes, and Qwen3.

    Source: vLLM 0.33.0 `models/funaudiochat.py`.
    """
    text = text_facts(facts, "qwen3")
    inner = Facts({**text.config, "architectures": ["Qwen3ForCausalLM"]}, "qwen3")
    model = read_language_model(inner, label)
    audio = sub_config(facts, "audio_config", "funaudiochat_audio_encoder")
    size, wide = audio.integer("d_model"), audio.integer("output_dim")
    name, mels = "continuous_audio_tower", audio.integer("num_mel_bins")
    modules = (
        blocks.convolution(f"{name}.conv1", size, mels, 3, bias=True),
        blocks.convolution(f"{name}.conv2", size, size, 3, bias=True),
        *(
            module
            for index in range(audio.integer("encoder_layers"))
            for module in _audio_layer(audio, f"{name}.layers.{index}")
        ),
        blocks.norms(f"{name}.ln_post", size, bias=True),
        blocks.replicated(f"{name}.proj", (wide, size), (wide,), (2, wide)),
        blocks.replicated(
            f"{name}.positional_embedding",
            (audio.integer("max_source_positions"), size),
            dtype="float32",
        ),
        blocks.replicated(
            "audio_tower",
            (audio.integer("codebook_size"), wide),
            (wide, wide),
            (wide, wide),
        ),
    )
    return composed(facts, label, model, Tower(modalities=_AUDIO, modules=modules))


def _audio_layer(facts: Facts, name: str) -> Iterator[Module]:
    size, wide = facts.integer("d_model"), facts.integer("encoder_ffn_dim")
    heads = facts.integer("encoder_attention_heads")
    qkv = blocks.qkv(f"{name}.self_attn.qkv_proj", size, heads, bias=True)
    output = blocks.row(f"{name}.self_attn.out_proj", size, size, bias=True)
    yield from blocks.unquantised(qkv, output)
    yield blocks.norms(f"{name}.layer_norm", size, count=2, bias=True)
    yield blocks.replicated(f"{name}.fc", (wide, size), (wide,), (size, wide), (size,))


def read_deepseek_v4_vision(facts: Facts, label: Label) -> ModelArchitecture:
    """Return DeepSeek-V4 with its encoder of images.

    Source: vLLM 0.33.0 `models/deepseek_v4/common/vl_model.py` and `vision.py`.
    """
    own = label.of("DeepseekV4ForCausalLM")
    blind = Facts({**facts.config, "vision_n_layers": 0}, facts.model_type)
    model = read_deepseek_v4(blind, own)
    tower = Tower(
        modalities=_IMAGE,
        modules=blocks.unquantised(*_deepseek_vit(facts, model.hidden_size)),
        supports_data_parallel=True,
        whole_unless_heads_divide=facts.integer("vision_n_heads"),
    )
    return composed(facts, label, model, tower)


def _deepseek_vit(facts: Facts, text_size: int) -> Iterator[Module]:
    size, heads = facts.integer("vision_dim"), facts.integer("vision_n_heads")
    pixels = 3 * facts.integer("vision_patch_size") ** 2
    yield blocks.replicated("vision.patch_embed", (size, pixels), (size,))
    for index in range(facts.integer("vision_n_layers")):
        block = f"vision.blocks.{index}"
        yield blocks.replicated(f"{block}.norm", (size,), (size,))
        yield blocks.qkv(f"{block}.attn.wqkv", size, heads, bias=True)
        yield blocks.row(f"{block}.attn.wo", size, size, bias=True)
        wide = facts.integer("vision_inter_dim")
        yield blocks.column(f"{block}.mlp.w1", size, wide, wide, bias=False)
        yield blocks.row(f"{block}.mlp.w2", wide, size, bias=False)
    yield blocks.replicated("vision.norm", (size,))
    merged = size * facts.integer("vision_downsample_ratio") ** 2
    yield blocks.column("aligner.w1", merged, text_size, bias=True)
    yield blocks.row("aligner.w2", text_size, text_size, bias=True)
    yield blocks.replicated("image_marks", *((text_size,),) * 4, dtype="float32")


READERS = {
    "CohereCompassForConditionalGeneration": read_cohere_compass,
    "MiDashengLMModel": read_midashenglm,
    "ColUltraVBertForRetrieval": read_colultravbert,
    "FunAudioChatForConditionalGeneration": read_funaudiochat,
    "DeepseekV4ForConditionalGeneration": read_deepseek_v4_vision,
}
