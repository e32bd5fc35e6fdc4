"""Language models that hear: Ultravox, Granite Speech, Audio Flamingo, Kimi-Audio."""

from __future__ import annotations

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
from planner.models.families.towers.items import kimi_audio_items
from planner.models.families.towers.qformer import qformer
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
    model = read_language_model(_text(facts), label.name)
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
    model = read_language_model(_text(facts), label.name)
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
    model = read_language_model(_text(facts), label.name)
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
    model = read_language_model(inner, label.name)
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
    model = read_language_model(inner, label.name)
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
    model = read_language_model(text, label.name)
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


READERS = {
    "MoonshotKimiaForCausalLM": read_kimi_audio,
    "AudioFlamingo3ForConditionalGeneration": read_audio_flamingo3,
    "GlmAsrForConditionalGeneration": read_glm_asr,
    "GraniteSpeechPlusForConditionalGeneration": read_granite_speech,
    "MossTranscribeDiarizeForConditionalGeneration": read_moss_transcribe,
    "UltravoxModel": read_ultravox,
    "GraniteSpeechForConditionalGeneration": read_granite_speech,
}
