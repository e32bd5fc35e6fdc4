"""Language models that hear.

Ultravox, Granite Speech, Audio Flamingo, Kimi-Audio, FireRedASR 2, Fun-ASR and others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    read_language_model,
    sub_config,
    text_facts,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.audio import (
    AUDIO,
    convolutions,
    qwen2_audio_tower,
)
from planner.models.families.towers.qformer import qformer
from planner.models.families.towers.sounds import kimi_audio_items
from planner.models.families.whisper import OneStage, encoder_modules
from planner.models.layers import Module


def _text(facts: Facts) -> Facts:
    model_type = str(facts.mapping("text_config").get("model_type") or "llama")
    return text_facts(facts, model_type)


def read_ultravox(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Ultravox: Whisper's encoder, and frames stacked for a language model.

    Source: vLLM 0.33.0 `models/ultravox.py`.
    """
    for name in ("audio_model_id", "text_model_id"):
        if facts.value(name) and not facts.mapping(name.replace("model_id", "config")):
            raise facts.unsupported(name, "that model's config is needed here.")
    if facts.optional_integer("num_projector_layers"):
        raise facts.unsupported("num_projector_layers", "a plain projector is.")
    model = read_language_model(_text(facts), label)
    audio = sub_config(facts, "audio_config", "whisper")
    stacked = audio.integer("d_model") * facts.integer("stack_factor")
    wide, name = facts.integer("hidden_size"), "multi_modal_projector"
    middle = wide // 2 if facts.value("projector_act") == "swiglu" else wide
    text_size = model.hidden_size
    last = middle if facts.flag("projector_ln_mid") else text_size
    modules = (
        *encoder_modules(audio, "audio_tower"),
        blocks.norms(f"{name}.ln_pre", stacked, bias=False),
        blocks.whole(f"{name}.linear_1", stacked, wide, bias=False),
        blocks.whole(f"{name}.linear_2", middle, text_size, bias=False),
        blocks.norms(f"{name}.ln", last, bias=False),
    )
    return composed(facts, label, model, Tower(modalities=AUDIO, modules=modules))


def read_granite_speech(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Granite Speech: a conformer, and queries for what it heard.

    Source: vLLM 0.33.0 `models/granite_speech.py`.
    """
    model = read_language_model(_text(facts), label)
    encoder = sub_config(facts, "encoder_config", "granite_speech_encoder")
    projector = sub_config(facts, "projector_config", "blip_2_qformer")
    size = projector.integer("hidden_size")
    queries = facts.integer("window_size") // facts.integer("downsample_rate")
    modules = (
        *_conformer(encoder, "encoder"),
        blocks.replicated("projector.query", (queries, size)),
        *qformer(projector, "projector.qformer"),
        blocks.replicated(
            "projector.linear", (model.hidden_size, size), (model.hidden_size,)
        ),
    )
    return composed(facts, label, model, Tower(modalities=AUDIO, modules=modules))


def _conformer(facts: Facts, name: str) -> tuple[Module, ...]:
    size, output = facts.integer("hidden_dim"), facts.integer("output_dim")
    context = facts.integer("context_size")
    modules: list[Module] = [
        blocks.replicated(
            f"{name}.input_linear", (size, facts.integer("input_dim")), (size,)
        ),
        blocks.replicated(f"{name}.attention_dists", (context, context), dtype="int64"),
        blocks.column(f"{name}.out", size, output, bias=True),
        blocks.row(f"{name}.out_mid", output, size, bias=True),
    ]
    for index in range(facts.integer("num_layers")):
        modules += _conformer_block(facts, f"{name}.layers.{index}")
    return tuple(modules)


def _conformer_block(facts: Facts, name: str) -> list[Module]:
    """Source: vLLM 0.33.0 `models/granite_speech.py` GraniteSpeechConformerBlock."""
    size, dim = facts.integer("hidden_dim"), facts.integer("dim_head")
    inner, wide = dim * facts.integer("num_heads"), facts.integer("feedforward_mult")
    conv = size * facts.integer("conv_expansion_factor")
    modules: list[Module] = [
        blocks.norms(f"{name}.norms", size, count=5, bias=True),
        blocks.replicated(
            f"{name}.attn",
            *((inner, size), (2 * inner, size), (size, inner), (size,)),
            (2 * facts.integer("max_pos_emb") + 1, dim),
        ),
        blocks.replicated(
            f"{name}.conv",
            *((2 * conv, size), (2 * conv,)),
            (conv, facts.integer("conv_kernel_size")),
            *((conv,),) * 4,
            *((size, conv), (size,)),
        ),
        blocks.replicated(
            f"{name}.conv.batch_norm.num_batches_tracked", (), dtype="int64"
        ),
    ]
    for part in ("ff1", "ff2"):
        modules += blocks.unquantised(
            *blocks.plain_mlp(
                f"{name}.{part}.up_proj", f"{name}.{part}.down_proj", size, size * wide
            )
        )
    return modules


def read_audio_flamingo3(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Audio Flamingo 3: Qwen2-Audio's encoder, and two layers.

    Source: vLLM 0.33.0 `models/audioflamingo3.py`.
    """
    model = read_language_model(_text(facts), label)
    audio = _as_whisper(sub_config(facts, "audio_config", "audioflamingo3_encoder"))
    size, text_size = audio.integer("d_model"), model.hidden_size
    encoder = qwen2_audio_tower(audio, text_size)
    name, bias = "multi_modal_projector", facts.flag("projector_bias", default=True)
    layers = ((text_size, size), (text_size, text_size))
    modules = (
        *(m for m in encoder.modules if not m.name.startswith(name)),
        blocks.replicated(name, *layers, *((text_size,),) * (2 if bias else 0)),
    )
    return composed(facts, label, model, Tower(modalities=AUDIO, modules=modules))


def _as_whisper(facts: Facts) -> Facts:
    """Return an encoder's config under Whisper's names."""
    named = {
        "d_model": facts.integer("d_model", "hidden_size"),
        "encoder_layers": facts.integer("encoder_layers", "num_hidden_layers"),
        "encoder_attention_heads": facts.integer(
            "encoder_attention_heads", "num_attention_heads"
        ),
        "encoder_ffn_dim": facts.integer("encoder_ffn_dim", "intermediate_size"),
    }
    return Facts({**facts.config, **named}, facts.model_type)


def read_glm_asr(facts: Facts, label: Label) -> ModelArchitecture:
    """Return GLM-ASR: Whisper's convolutions, and layers with rotary positions.

    Source: vLLM 0.33.0 `models/glmasr.py`.
    """
    text = _text(facts)
    inner = Facts(
        {**text.config, "architectures": ["LlamaForCausalLM"]}, text.model_type
    )
    model = read_language_model(inner, label)
    audio = _as_whisper(sub_config(facts, "audio_config", "glmasr_encoder"))
    wide, text_size = audio.integer("encoder_ffn_dim"), model.hidden_size
    name = "multi_modal_projector"
    modules = (
        *_glm_encoder(audio, "audio_tower"),
        blocks.column(f"{name}.linear_1", wide, 2 * text_size, bias=True),
        blocks.row(f"{name}.linear_2", 2 * text_size, text_size, bias=True),
    )
    return composed(facts, label, model, Tower(modalities=AUDIO, modules=modules))


def _glm_encoder(facts: Facts, name: str) -> tuple[Module, ...]:
    size, heads = facts.integer("d_model"), facts.integer("encoder_attention_heads")
    kv_heads = facts.integer("num_key_value_heads", default=heads)
    head_size = facts.integer("head_dim", default=size // heads)
    factor = facts.mapping("rope_parameters").get("partial_rotary_factor", 1.0)
    modules: list[Module] = [
        *convolutions(facts, name),
        blocks.norms(f"{name}.norm", size, bias=True),
        blocks.replicated(
            f"{name}.rotary_emb", (int(head_size * factor) // 2,), dtype="float32"
        ),
    ]
    for index in range(facts.integer("encoder_layers")):
        layer = f"{name}.layers.{index}"
        qkv = blocks.qkv(
            f"{layer}.self_attn.qkv_proj",
            size,
            heads,
            bias=True,
            shards=blocks.QKV_SHARDS,
        )
        modules += [
            replace(qkv, num_kv_heads=kv_heads),
            blocks.row(f"{layer}.self_attn.o_proj", size, size, bias=True),
            *blocks.plain_mlp(
                f"{layer}.mlp.fc1",
                f"{layer}.mlp.fc2",
                size,
                facts.integer("encoder_ffn_dim"),
            ),
            blocks.norms(f"{layer}.layernorm", size, count=2, bias=True),
        ]
    return tuple(modules)


def read_moss_transcribe(facts: Facts, label: Label) -> ModelArchitecture:
    """Return MOSS's transcriber: Whisper's encoder and Qwen3.

    Source: vLLM 0.33.0 `models/moss_transcribe_diarize.py`.
    """
    text = text_facts(facts, "qwen3")
    inner = Facts({**text.config, "architectures": ["Qwen3ForCausalLM"]}, "qwen3")
    model = read_language_model(inner, label)
    audio = sub_config(facts, "audio_config", "whisper")
    size = model.hidden_size
    wide = facts.integer("adaptor_input_dim")
    modules = (
        *encoder_modules(audio, "whisper_encoder"),
        blocks.replicated("vq_adaptor", (size, wide), (size,), (size, size), (size,)),
        blocks.norms("vq_adaptor.norm", size, bias=True),
    )
    return composed(facts, label, model, Tower(modalities=AUDIO, modules=modules))


def read_kimi_audio(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Kimi-Audio: Qwen2, and Whisper large v3 from a folder of its own.

    Source: vLLM 0.33.0 `models/kimi_audio.py` KimiAudioForConditionalGeneration.
    """
    text = Facts({**facts.config, "architectures": ["Qwen2ForCausalLM"]}, "qwen2")
    model = read_language_model(text, label)
    if not facts.mapping("whisper_config"):
        raise facts.unsupported(
            "whisper_config",
            "vLLM reads it from whisper-large-v3/config.json beside config.json.",
        )
    audio = sub_config(facts, "whisper_config", "whisper")
    wide = facts.integer("kimia_adaptor_input_dim", default=5120)
    size, name = model.hidden_size, "multi_modal_projector"
    tower = Tower(
        modalities=AUDIO,
        modules=(
            *encoder_modules(audio, "audio_tower"),
            OneStage(name="audio_tower"),
            blocks.replicated(name, (size, wide), (size,), (size, size), (size,)),
            blocks.norms(f"{name}.vq_adaptor_layers_4", size, bias=True),
        ),
        items=kimi_audio_items(audio),
    )
    return composed(facts, label, model, tower)


def read_fire_red_asr(facts: Facts, label: Label) -> ModelArchitecture:
    """Return FireRedASR 2: a conformer that every rank holds in full, and Qwen2.

    Source: vLLM 0.33.0 `models/fireredasr2.py`, `models/conformer_encoder.py`.
    """
    audio = _encoder_conf(facts)
    size, rate = audio.integer("d_model"), facts.integer("encoder_downsample_rate")
    model = _flat(facts, label, "Qwen2ForCausalLM")
    wide, name = model.hidden_size, "model.encoder_projector"
    modules = (
        *_fire_red_encoder(audio, "model.encoder.audio_encoder"),
        blocks.whole(f"{name}.linear1", size * rate, wide, bias=True),
        blocks.whole(f"{name}.linear2", wide, wide, bias=True),
    )
    return _transcriber(facts, label, model, modules)


def _encoder_conf(facts: Facts) -> Facts:
    if not facts.mapping("audio_encoder_conf"):
        raise facts.unsupported("audio_encoder_conf", "a nested config is needed.")
    return Facts(facts.mapping("audio_encoder_conf"), "audio_encoder_conf")


def _flat(facts: Facts, label: Label, architecture: str) -> ModelArchitecture:
    """Return the language model whose fields are in the outer config."""
    named = {**facts.config, "architectures": [architecture]}
    return read_language_model(Facts(named, facts.model_type), label)


def _transcriber(
    facts: Facts, label: Label, model: ModelArchitecture, modules: tuple[Module, ...]
) -> ModelArchitecture:
    """Return the whole, which vLLM runs in one pipeline stage."""
    tower = Tower(modalities=AUDIO, modules=modules)
    whole = composed(facts, label, model, tower, prefix="model.decoder.")
    return replace(whole, supports_pp=False)


def _fire_red_encoder(facts: Facts, name: str) -> tuple[Module, ...]:
    size, channels = facts.integer("d_model"), 32
    rows = ((facts.integer("idim") - 1) // 2 - 1) // 2
    positions = 2 * facts.integer("pe_maxlen", default=5000) - 1
    modules: list[Module] = [
        blocks.convolution(f"{name}.conv.0", channels, 1, 3, 3, bias=True),
        blocks.convolution(f"{name}.conv.2", channels, channels, 3, 3, bias=True),
        blocks.whole(f"{name}.out", channels * rows, size, bias=True),
        blocks.replicated(f"{name}.positional_encoding", (positions, size)),
    ]
    for index in range(facts.integer("n_layers_enc")):
        modules += _fire_red_layer(facts, f"{name}.layer_stack.{index}")
    return tuple(modules)


def _fire_red_layer(facts: Facts, name: str) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/conformer_encoder.py` RelPosEmbConformerBlock."""
    size, kernel = facts.integer("d_model"), facts.integer("kernel_size", default=33)
    for part in ("ffn1", "ffn2"):
        yield blocks.whole(f"{name}.{part}.linear_expand", size, 4 * size, bias=True)
        yield blocks.whole(f"{name}.{part}.linear_project", 4 * size, size, bias=True)
    for part in ("w_qs", "w_ks", "w_vs", "fc", "linear_pos"):
        yield blocks.whole(f"{name}.mhsa.{part}", size, size, bias=False)
    yield blocks.replicated(f"{name}.mhsa.pos_bias", (size,), (size,))
    # Of both MLPs, query, key, value, the convolution and the whole layer.
    yield blocks.norms(f"{name}.layer_norm", size, count=7, bias=True)
    yield blocks.norms(f"{name}.conv.batch_norm", 2 * size, bias=True)
    yield blocks.replicated(
        f"{name}.conv", (4 * size, size), (2 * size, kernel), (size, 2 * size)
    )


_FEATURES = 560
_ADAPTOR, _ADAPTOR_MLP, _ADAPTOR_LAYERS = (512, 1024), 2048, 2
"""Fixed by vLLM's FunASREncoder: frames; an adaptor's input and output, MLP, layers."""


def read_fun_asr(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Fun-ASR: SenseVoice's encoder, an adaptor of fixed size, and Qwen3.

    Source: vLLM 0.33.0 `models/funasr.py`.
    """
    audio, name = _encoder_conf(facts), "model.encoder"
    model = _flat(facts, label, "Qwen3ForCausalLM")
    narrow, wide = _ADAPTOR
    adaptor = f"{name}.audio_adaptor"
    modules: list[Module] = [
        *_sense_voice(audio, f"{name}.audio_encoder"),
        *blocks.plain_mlp(
            f"{adaptor}.linear1", f"{adaptor}.linear2", narrow, _ADAPTOR_MLP
        ),
    ]
    modules[-1] = blocks.row(f"{adaptor}.linear2", _ADAPTOR_MLP, wide, bias=True)
    for index in range(_ADAPTOR_LAYERS):
        layer = f"{adaptor}.blocks.{index}"
        modules += [
            blocks.qkv(f"{layer}.self_attn.qkv", wide, 8, bias=True),
            blocks.row(f"{layer}.self_attn.out_proj", wide, wide, bias=True),
            *blocks.plain_mlp(f"{layer}.w_1", f"{layer}.w_2", wide, wide // 4),
            blocks.norms(f"{layer}.norm", wide, count=2, bias=True),
        ]
    unquantised = tuple(blocks.unquantised(*modules))
    return _transcriber(facts, label, model, unquantised)


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


READERS = {
    "FireRedASR2ForConditionalGeneration": read_fire_red_asr,
    "FunASRForConditionalGeneration": read_fun_asr,
    "MoonshotKimiaForCausalLM": read_kimi_audio,
    "AudioFlamingo3ForConditionalGeneration": read_audio_flamingo3,
    "GlmAsrForConditionalGeneration": read_glm_asr,
    "GraniteSpeechPlusForConditionalGeneration": read_granite_speech,
    "MossTranscribeDiarizeForConditionalGeneration": read_moss_transcribe,
    "UltravoxModel": read_ultravox,
    "GraniteSpeechForConditionalGeneration": read_granite_speech,
}
