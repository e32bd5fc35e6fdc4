"""Encoders of sounds before a language model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label, Reader
from planner.models.families.blip2 import qformer
from planner.models.families.composite import (
    Composite,
    Text,
    composed,
    named,
    nested,
    read_language_model,
    sub_config,
    text_of,
)
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.families.towers.audio import (
    as_whisper,
    convolutions,
    whisper_of_transformers,
)
from planner.models.families.towers.blocks import AUDIO
from planner.models.families.towers.grids import sides
from planner.models.layers import Module


# Audio Flamingo 3: Qwen2-Audio's encoder, and two layers.
def _flamingo_modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/audioflamingo3.py`."""
    audio = as_whisper(sub_config(facts, "audio_config", "audioflamingo3_encoder"))
    layers = ((text_size, audio.integer("d_model")), (text_size, text_size))
    has_bias = facts.flag("projector_bias", default=True)
    biases = ((text_size,),) * (2 if has_bias else 0)
    yield from whisper_of_transformers(audio, "audio_tower")
    yield blocks.replicated("multi_modal_projector", *layers, *biases)


# GLM-ASR: Whisper's convolutions, and layers with rotary positions.
def _text(facts: Facts, label: Label) -> ModelArchitecture:
    return read_language_model(named(text_of(facts), "LlamaForCausalLM"), label)


def _glmasr_modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/glmasr.py`."""
    audio = as_whisper(sub_config(facts, "audio_config", "glmasr_encoder"))
    wide, name = audio.integer("encoder_ffn_dim"), "multi_modal_projector"
    yield from _glmasr_encoder(audio, "audio_tower")
    yield blocks.column(f"{name}.linear_1", wide, 2 * text_size, bias=True)
    yield blocks.row(f"{name}.linear_2", 2 * text_size, text_size, bias=True)


def _glmasr_encoder(facts: Facts, name: str) -> Iterator[Module]:
    size, heads = facts.integers("d_model", "encoder_attention_heads")
    kv_heads = facts.integer("num_key_value_heads", default=heads)
    head_size = facts.integer("head_dim", default=size // heads)
    factor = facts.mapping("rope_parameters").get("partial_rotary_factor", 1.0)
    frequencies = (int(head_size * factor) // 2,)
    yield from convolutions(facts, name)
    yield blocks.norms(f"{name}.norm", size, bias=True)
    yield blocks.replicated(f"{name}.rotary_emb", frequencies, dtype="float32")
    qkv, shards = "self_attn.qkv_proj", blocks.QKV_SHARDS
    packed = blocks.qkv(qkv, size, heads, bias=True, shards=shards)
    yield from blocks.repeated(
        f"{name}.layers",
        facts.integer("encoder_layers"),
        replace(packed, num_kv_heads=kv_heads),
        blocks.row("self_attn.o_proj", size, size, bias=True),
        *blocks.plain_mlp("mlp.fc1", "mlp.fc2", size, facts.integer("encoder_ffn_dim")),
        blocks.norms("layernorm", size, count=2, bias=True),
    )


# Fun-Audio-Chat: an encoder of sounds, one of codes, and Qwen3.
def _funaudiochat_modules(facts: Facts, _text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/funaudiochat.py`."""
    audio = sub_config(facts, "audio_config", "funaudiochat_audio_encoder")
    size, out = audio.integers("d_model", "output_dim")
    name, wide = "continuous_audio_tower", audio.integer("encoder_ffn_dim")
    heads = audio.integer("encoder_attention_heads")
    yield from convolutions(audio, name)
    yield from blocks.repeated(
        f"{name}.layers",
        audio.integer("encoder_layers"),
        *blocks.unquantised(
            blocks.qkv("self_attn.qkv_proj", size, heads, bias=True),
            blocks.row("self_attn.out_proj", size, size, bias=True),
        ),
        blocks.norms("layer_norm", size, count=2, bias=True),
        blocks.two_layers("fc", size, size, between=wide),
    )
    yield blocks.norms(f"{name}.ln_post", size, bias=True)
    yield blocks.replicated(f"{name}.proj", (out, size), (out,), (2, out))
    positions = audio.integer("max_source_positions"), size
    embedding = f"{name}.positional_embedding"
    yield blocks.replicated(embedding, positions, dtype="float32")
    codes = audio.integer("codebook_size"), out
    yield blocks.replicated("audio_tower", codes, (out, out), (out, out))


# MiDashengLM: Dasheng's encoder of sounds and Qwen2.
def _dasheng_modules(facts: Facts, text_size: int) -> Iterator[Module]:
    audio = sub_config(facts, "audio_encoder_config", "midashenglm_dasheng_encoder")
    joined = audio.integer("embed_dim") * facts.integer("subsample_factor")
    yield from _dasheng(audio)
    yield blocks.column("audio_projector.net.0", joined, text_size, bias=True)
    yield blocks.row("audio_projector.net.2", text_size, text_size, bias=True)


def _dasheng(facts: Facts) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/midashenglm.py` DashengAudioTransformer."""
    size = facts.integer("embed_dim")
    name = "audio_encoder"
    mels = facts.integer("n_mels")
    bins, front = facts.integer("n_fft") // 2 + 1, facts.integer("win_length")
    high, wide = sides(facts, "patch_size")
    step_high, step_wide = sides(facts, "patch_stride")
    yield blocks.replicated(f"{name}.front_end", (front,), (bins, mels))
    yield blocks.replicated(f"{name}.init_bn", *((mels,),) * 4)
    yield blocks.replicated(f"{name}.init_bn.num_batches_tracked", (), dtype="int64")
    embedding, channels = f"{name}.patch_embed.proj", facts.integer("input_channels")
    yield blocks.convolution(embedding, size, channels, high, wide, bias=True)
    times, bands = facts.integer("target_length") // step_wide, mels // step_high
    yield blocks.replicated(f"{name}.pos_embed", (size, times), (size, bands))
    heads, mlp = facts.integer("num_heads"), int(size * facts.number("mlp_ratio"))
    sizes = blocks.Sizes(size, heads, mlp, facts.integer("depth"))
    layer = blocks.layer(sizes, replace(blocks.VIT, qkv_bias=facts.flag("qkv_bias")))
    if facts.value("init_values"):
        layer = (*layer, blocks.replicated("ls", (size,), (size,)))
    yield from blocks.repeated(f"{name}.blocks", sizes.depth, *layer)
    yield blocks.norms(f"{name}.norm", size, bias=True)


# MOSS-Audio: an encoder of sounds, and Qwen3.
def read_moss_audio(facts: Facts, label: Label) -> ModelArchitecture:
    """Return MOSS-Audio, which hands layers of its encoder to layers of Qwen3.

    Source: vLLM 0.33.0 `models/moss_audio.py`.
    """
    model = Text("qwen3", "Qwen3ForCausalLM", name="language_config")(facts, label)
    audio = sub_config(facts, "audio_config", "")
    captured = audio.value("deepstack_encoder_layer_indexes")
    levels = len([8, 16, 24] if captured is None else captured)
    most = facts.optional_integer("deepstack_num_inject_layers")
    levels = levels if most is None else min(levels, most)
    output = audio.integer("output_dim", default=1280)
    wide = facts.integer("adapter_hidden_size", default=8192)
    adapter = (
        blocks.column("gate_up_proj", output, wide, wide, bias=False),
        blocks.row("down_proj", wide, model.hidden_size, bias=False),
    )
    modules = (
        *_moss_audio_encoder(audio, output),
        *(replace(one, name=f"audio_adapter.{one.name}") for one in adapter),
        *blocks.repeated("deepstack_audio_merger_list", levels, *adapter),
    )
    tower = Tower(AUDIO, modules)
    return composed(facts, label, replace(model, deepstack_layers=levels), tower)


def _moss_audio_encoder(facts: Facts, output: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/moss_audio.py` MossAudioEncoder and its defaults."""
    size = facts.integer("d_model", default=1280)
    heads = facts.integer("encoder_attention_heads", default=20)
    wide = facts.integer("encoder_ffn_dim", default=5120)
    channels = facts.integer("downsample_hidden_size", default=480)
    bands = -(-facts.integer("num_mel_bins", default=128) // 8)
    name = "audio_encoder"
    yield blocks.convolution(f"{name}.conv1", channels, 1, 3, 3, bias=True)
    for index in (2, 3):
        conv = f"{name}.conv{index}"
        yield blocks.convolution(conv, channels, channels, 3, 3, bias=True)
    yield blocks.whole(f"{name}.stem_proj", channels * bands, size, bias=True)
    positions = f"{name}.embed_positions.inv_timescales"
    yield blocks.replicated(positions, (size // 2,), dtype="float32")
    yield from blocks.repeated(
        f"{name}.layers",
        facts.integer("encoder_layers", default=32),
        blocks.divided_heads("self_attn", heads),
        blocks.column("self_attn.q_proj", size, size, bias=True),
        blocks.column("self_attn.k_proj", size, size, bias=False),
        blocks.column("self_attn.v_proj", size, size, bias=True),
        blocks.row("self_attn.out_proj", size, size, bias=True),
        blocks.norms("layer_norm", size, count=2, bias=True),
        *blocks.plain_mlp("fc1", "fc2", size, wide),
    )
    yield blocks.norms(f"{name}.layer_norm", size, bias=True)
    if output != size:
        yield blocks.whole(f"{name}.out_proj", size, output, bias=False)


# FireRedASR 2: a conformer that every rank holds in full, and Qwen2.
def _firered_modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/fireredasr2.py`, `models/conformer_encoder.py`."""
    audio = nested(facts, "audio_encoder_conf", "audio_encoder_conf")
    name = "model.encoder_projector"
    stacked = audio.integer("d_model") * facts.integer("encoder_downsample_rate")
    yield from _firered_encoder(audio, "model.encoder.audio_encoder")
    yield blocks.whole(f"{name}.linear1", stacked, text_size, bias=True)
    yield blocks.whole(f"{name}.linear2", text_size, text_size, bias=True)


def _firered_encoder(facts: Facts, name: str) -> Iterator[Module]:
    size, channels = facts.integer("d_model"), 32
    rows = ((facts.integer("idim") - 1) // 2 - 1) // 2
    positions = 2 * facts.integer("pe_maxlen", default=5000) - 1
    yield blocks.convolution(f"{name}.conv.0", channels, 1, 3, 3, bias=True)
    yield blocks.convolution(f"{name}.conv.2", channels, channels, 3, 3, bias=True)
    yield blocks.whole(f"{name}.out", channels * rows, size, bias=True)
    yield blocks.replicated(f"{name}.positional_encoding", (positions, size))
    yield from blocks.repeated(
        f"{name}.layer_stack", facts.integer("n_layers_enc"), *_layer(facts)
    )


def _layer(facts: Facts) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/conformer_encoder.py` RelPosEmbConformerBlock."""
    size, kernel = facts.integer("d_model"), facts.integer("kernel_size", default=33)
    for part in ("ffn1", "ffn2"):
        yield blocks.whole(f"{part}.linear_expand", size, 4 * size, bias=True)
        yield blocks.whole(f"{part}.linear_project", 4 * size, size, bias=True)
    for part in ("w_qs", "w_ks", "w_vs", "fc", "linear_pos"):
        yield blocks.whole(f"mhsa.{part}", size, size, bias=False)
    yield blocks.replicated("mhsa.pos_bias", (size,), (size,))
    # Of both MLPs, query, key, value, the convolution and the whole layer.
    yield blocks.norms("layer_norm", size, count=7, bias=True)
    yield blocks.norms("conv.batch_norm", 2 * size, bias=True)
    shapes = ((4 * size, size), (2 * size, kernel), (size, 2 * size))
    yield blocks.replicated("conv", *shapes)


# Fun-ASR: SenseVoice's encoder, an adaptor of fixed size, and Qwen3.
_FEATURES = 560
_ADAPTOR, _ADAPTOR_MLP, _ADAPTOR_LAYERS = (512, 1024), 2048, 2
"""Fixed by vLLM's FunASREncoder: frames; an adaptor's input and output, MLP, layers."""


def _funasr_modules(facts: Facts, _text_size: int) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/funasr.py`."""
    audio = nested(facts, "audio_encoder_conf", "audio_encoder_conf")
    name = "model.encoder"
    narrow, wide = _ADAPTOR
    adaptor = f"{name}.audio_adaptor"
    return blocks.unquantised(
        *_sense_voice(audio, f"{name}.audio_encoder"),
        blocks.column(f"{adaptor}.linear1", narrow, _ADAPTOR_MLP, bias=True),
        blocks.row(f"{adaptor}.linear2", _ADAPTOR_MLP, wide, bias=True),
        *blocks.repeated(
            f"{adaptor}.blocks",
            _ADAPTOR_LAYERS,
            blocks.qkv("self_attn.qkv", wide, 8, bias=True),
            blocks.row("self_attn.out_proj", wide, wide, bias=True),
            *blocks.plain_mlp("w_1", "w_2", wide, wide // 4),
            blocks.norms("norm", wide, count=2, bias=True),
        ),
    )


def _sense_voice(facts: Facts, name: str) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/funasr.py` SenseVoiceEncoderSmall."""
    size = facts.integer("output_size", default=256)
    wide = facts.integer("linear_units", default=2048)
    kernel = facts.integer("kernel_size", default=11)
    count = facts.integer("num_blocks", default=6)
    count += facts.integer("tp_blocks", default=0)
    yield blocks.norms(f"{name}.norms", size, count=2, bias=True)
    for index in range(count):
        layer, width = f"{name}.encoders.{index}", size if index else _FEATURES
        yield blocks.whole(f"{layer}.linear_q_k_v", width, 3 * size, bias=True)
        yield blocks.whole(f"{layer}.out_proj", size, size, bias=True)
        yield blocks.replicated(f"{layer}.fsmn_block", (size, kernel))
        yield from blocks.plain_mlp(f"{layer}.w_1", f"{layer}.w_2", size, wide)
        yield blocks.norms(f"{layer}.norm1", width, bias=True)
        yield blocks.norms(f"{layer}.norm2", size, bias=True)


# Granite Speech: a conformer, and queries for what it heard.
def _granite_speech_modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/granite_speech.py`."""
    encoder = sub_config(facts, "encoder_config", "granite_speech_encoder")
    projector = sub_config(facts, "projector_config", "blip_2_qformer")
    size = projector.integer("hidden_size")
    queries = facts.integer("window_size") // facts.integer("downsample_rate")
    yield from _conformer(encoder, "encoder")
    yield blocks.replicated("projector.query", (queries, size))
    yield from qformer(projector, "projector.qformer")
    yield blocks.linear("projector.linear", size, text_size, bias=True)


def _conformer(facts: Facts, name: str) -> Iterator[Module]:
    size, output = facts.integers("hidden_dim", "output_dim")
    given, context = facts.integers("input_dim", "context_size")
    yield blocks.linear(f"{name}.input_linear", given, size, bias=True)
    distances = f"{name}.attention_dists"
    yield blocks.replicated(distances, (context, context), dtype="int64")
    yield blocks.column(f"{name}.out", size, output, bias=True)
    yield blocks.row(f"{name}.out_mid", output, size, bias=True)
    yield from blocks.repeated(
        f"{name}.layers", facts.integer("num_layers"), *_block(facts)
    )


def _block(facts: Facts) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/granite_speech.py` GraniteSpeechConformerBlock."""
    size, dim = facts.integers("hidden_dim", "dim_head")
    inner, wide = dim * facts.integer("num_heads"), facts.integer("feedforward_mult")
    conv = size * facts.integer("conv_expansion_factor")
    kernel = facts.integer("conv_kernel_size")
    attention = ((inner, size), (2 * inner, size), (size, inner), (size,))
    distances = (2 * facts.integer("max_pos_emb") + 1, dim)
    convolutions = ((2 * conv, size), (2 * conv,), (conv, kernel), *((conv,),) * 4)
    yield blocks.norms("norms", size, count=5, bias=True)
    yield blocks.replicated("attn", *attention, distances)
    yield blocks.replicated("conv", *convolutions, (size, conv), (size,))
    counter = "conv.batch_norm.num_batches_tracked"
    yield blocks.replicated(counter, (), dtype="int64")
    for part in ("ff1", "ff2"):
        mlp = f"{part}.up_proj", f"{part}.down_proj"
        yield from blocks.unquantised(*blocks.plain_mlp(*mlp, size, size * wide))


READERS: dict[str, Reader] = {
    "AudioFlamingo3ForConditionalGeneration": Composite(
        _flamingo_modules, modalities=AUDIO
    ),
    "GlmAsrForConditionalGeneration": Composite(
        _glmasr_modules, text=_text, modalities=AUDIO
    ),
    "FunAudioChatForConditionalGeneration": Composite(
        _funaudiochat_modules, text=Text("qwen3", "Qwen3ForCausalLM"), modalities=AUDIO
    ),
    "MiDashengLMModel": Composite(
        _dasheng_modules,
        text=Text("qwen2_5_omni_text", "Qwen2ForCausalLM"),
        modalities=AUDIO,
        prefix="decoder.",
    ),
    "MossAudioModel": read_moss_audio,
    "FireRedASR2ForConditionalGeneration": Composite(
        _firered_modules,
        text=Text("", "Qwen2ForCausalLM", name=""),
        modalities=AUDIO,
        prefix="model.decoder.",
        supports_pp=False,
    ),
    "FunASRForConditionalGeneration": Composite(
        _funasr_modules,
        text=Text("", "Qwen3ForCausalLM", name=""),
        modalities=AUDIO,
        prefix="model.decoder.",
        supports_pp=False,
    ),
    **dict.fromkeys(
        (
            "GraniteSpeechForConditionalGeneration",
            "GraniteSpeechPlusForConditionalGeneration",
        ),
        Composite(_granite_speech_modules, modalities=AUDIO),
    ),
}
