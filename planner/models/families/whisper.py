"""Whisper, and models with its encoder."""

from __future__ import annotations

from collections.abc import Iterator

from planner.engine.layout import ParallelLayout
from planner.errors import UnknownArchitecture
from planner.models.architecture import LayerKind, MediaItem, ModelArchitecture, Tower
from planner.models.caches import CrossAttentionLayer
from planner.models.families.assembly import Frame, Label, Reader, assemble
from planner.models.families.composite import (
    Composite,
    Text,
    named,
    nested,
    read_language_model,
    sub_config,
)
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    kv_of,
    learned_positions,
)
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks, sounds
from planner.models.families.towers.audio import convolutions, whisper_sizes
from planner.models.families.towers.blocks import AUDIO
from planner.models.families.towers.grids import Items, if_known
from planner.models.families.towers.sounds import kimi_audio_items
from planner.models.layers import (
    ColumnParallelLinear,
    Condition,
    Module,
    Part,
    Replicated,
    RowParallelLinear,
)
from planner.models.passes import block_pass


def read_whisper(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Whisper, whose head is its word embeddings and whose vocabulary is whole.

    Source: vLLM 0.33.0 `models/whisper.py`.
    """
    size = facts.integer("d_model")
    words = Replicated(
        "model.decoder.embed_tokens",
        Part.EMBEDDINGS,
        ((facts.integer("vocab_size"), size),),
    )
    positions = learned_positions(
        facts.integer("max_target_positions"), size, "model.decoder.embed_positions"
    )
    norm = (_norm("model.decoder.layer_norm", size, 1),)
    return assemble(
        facts,
        label,
        Frame(size, final_norm=norm, is_tied=True),
        [_decoder_layer(facts)] * facts.integer("decoder_layers"),
        layer_prefix="model.decoder.layers",
        first_stage=(words, positions),
        tied_embeddings=(),
        num_attention_heads=facts.integer("encoder_attention_heads"),
        towers=(_encoder(facts),),
        supports_pp=False,
        is_encoder_decoder=True,
    )


def _decoder_layer(facts: Facts) -> LayerKind:
    """Return a decoder layer; vLLM names its parts as if they lay one list deeper."""
    heads, mlp_size = facts.integers("decoder_attention_heads", "decoder_ffn_dim")
    size, cross = facts.integer("d_model"), "layers.encoder_attn"
    shape = AttentionShape(
        hidden_size=size,
        num_heads=heads,
        num_kv_heads=heads,
        head_size=size // heads,
        qkv_bias=True,
        output_bias=True,
    )
    own = attention(shape, name="layers.self_attn.", output="out_proj")
    crossing = attention(shape, name=f"{cross}.", output="out_proj")
    modules: tuple[Module, ...] = (
        *own,
        _column(f"{cross}.q_proj", Part.ATTENTION, size, size),
        _column(
            f"{cross}.kv_proj",
            Part.ATTENTION,
            size,
            size,
            size,
            shards=("k_proj", "v_proj"),
        ),
        *crossing[1:],
        _column("layers.mlp.fc1", Part.MLP, size, mlp_size),
        RowParallelLinear("layers.mlp.fc2", Part.MLP, mlp_size, size, bias=True),
        _norm("layer_norm", size, 3),
    )
    crossed = CrossAttentionLayer(
        num_heads=heads, num_kv_heads=heads, head_size=size // heads
    )
    return LayerKind((kv_of(shape), crossed), modules)


def _encoder(facts: Facts) -> Tower:
    return Tower(
        AUDIO,
        tuple(encoder_modules(facts, "model.encoder")),
        items=sounds.whisper_items(facts),
        forward=block_pass(
            facts.integer("d_model"), facts.integer("encoder_ffn_dim"), beside=3
        ),
    )


def encoder_modules(
    facts: Facts, name: str, *, positions_dtype: str | None = None
) -> Iterator[Module]:
    """Yield Whisper's encoder, also as part of a larger model.

    Source: vLLM 0.33.0 `models/whisper.py` WhisperEncoder (init_in_fp32).
    """
    sizes, rows = whisper_sizes(facts), facts.integer("max_source_positions")
    size, qkv = sizes.width, "layers.self_attn.qkv_proj"
    yield from convolutions(facts, name)
    yield from blocks.repeated(
        f"{name}.layers",
        sizes.depth,
        blocks.qkv(qkv, size, sizes.heads, bias=True, shards=blocks.QKV_SHARDS),
        blocks.row("layers.self_attn.out_proj", size, size, bias=True),
        blocks.norms("layers.norm", size, count=2, bias=True),
        *blocks.plain_mlp("layers.mlp.fc1", "layers.mlp.fc2", size, sizes.mlp),
    )
    yield blocks.norms(f"{name}.layer_norm", size, bias=True)
    embedding = f"{name}.embed_positions"
    yield blocks.replicated(embedding, (rows, size), dtype=positions_dtype)


def _column(
    name: str,
    part: Part,
    input_size: int,
    *output_sizes: int,
    shards: tuple[str, ...] = (),
) -> ColumnParallelLinear:
    return ColumnParallelLinear(
        name, part, input_size, output_sizes, bias=True, shards=shards
    )


def _norm(name: str, size: int, count: int) -> Replicated:
    return Replicated(name, Part.NORMS, ((size,), (size,)) * count)


def one_stage(name: str) -> Condition:
    """Return what cannot be planned in several pipeline stages.

    vLLM cuts the encoder's layers over the stages as it does the decoder's, though it
    builds them on the first only.

    Source: vLLM 0.33.0 `models/whisper.py` WhisperEncoder (make_layers).
    """
    return Condition(name=name, part=Part.TOWERS, check=_check_stages)


def _check_stages(layout: ParallelLayout) -> None:
    if layout.pipeline_parallel_size > 1:
        raise UnknownArchitecture(
            f"pipeline_parallel_size={layout.pipeline_parallel_size}: which layers "
            "of Whisper's encoder vLLM keeps then is not modelled. Use "
            "tensor_parallel_size, or limit_mm_per_prompt={'audio': 0}."
        )


# Ultravox: Whisper's encoder, and frames stacked for a language model.
def _ultravox_modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/ultravox.py`."""
    if facts.optional_integer("num_projector_layers"):
        raise facts.unsupported("num_projector_layers", "a plain projector is.")
    audio = sub_config(facts, "audio_config", "whisper")
    stacked = audio.integer("d_model") * facts.integer("stack_factor")
    wide, name = facts.integer("hidden_size"), "multi_modal_projector"
    middle = wide // 2 if facts.value("projector_act") == "swiglu" else wide
    last = middle if facts.flag("projector_ln_mid") else text_size
    yield from encoder_modules(audio, "audio_tower")
    yield blocks.norms(f"{name}.ln_pre", stacked, bias=False)
    yield blocks.whole(f"{name}.linear_1", stacked, wide, bias=False)
    yield blocks.whole(f"{name}.linear_2", middle, text_size, bias=False)
    yield blocks.norms(f"{name}.ln", last, bias=False)


def _ultravox_text(facts: Facts, label: Label) -> ModelArchitecture:
    for name in ("audio_model_id", "text_model_id"):
        if facts.value(name) and not facts.mapping(name.replace("model_id", "config")):
            raise facts.unsupported(name, "that model's config is needed here.")
    return Text()(facts, label)


# Voxtral: Whisper's encoder beside a Mistral, published in Mistral's own format.
_MOST_SOUNDS = 5
_SAMPLES = 1280
"""Of a token at 16 kHz: 12.5 tokens a second."""


def _voxtral_text(facts: Facts, label: Label) -> ModelArchitecture:
    audio, text = nested(facts, "audio_config"), nested(facts, "text_config")
    if audio.optional_integer("downsample_factor") is None:
        raise audio.unsupported(
            "downsample_factor",
            "vLLM reads it from params.json, which has to be next to config.json.",
        )
    if text.value("quantization", "moe", "qk_nope_head_dim"):
        raise text.unsupported("quantization", "a dense model without one is.")
    return read_language_model(named(text, "MistralForCausalLM"), label)


def _voxtral_tower(facts: Facts, text_size: int) -> Tower:
    """Return the tower as params.json describes it.

    Source: vLLM 0.33.0 `models/voxtral.py` VoxtralForConditionalGeneration,
    VoxtralEncoderModel, AudioLanguageAdapter.
    """
    audio, name = nested(facts, "audio_config"), "whisper_encoder"
    factor = audio.integer("downsample_factor")
    size = audio.integer("d_model") * factor
    mel = (1 + audio.integer("window_size") // 2, audio.integer("num_mel_bins"))
    adapter = (text_size, size), (text_size, text_size)
    encoder = f"{name}.whisper_encoder"
    return Tower(
        AUDIO,
        (
            *encoder_modules(audio, encoder, positions_dtype="float32"),
            one_stage(name),
            blocks.replicated(f"{name}.mel_filters", mel, dtype="float32"),
            blocks.replicated("audio_language_adapter", *adapter),
        ),
        items=_sounds(factor),
    )


@if_known
def _sounds(factor: int) -> Items:
    """Return a sound as long as a request may be, five of them in a prompt.

    Source: vLLM 0.33.0 `models/voxtral.py` VoxtralProcessingInfo get_max_audio_tokens.
    """
    return (
        MediaItem(
            "audio",
            1,
            patches=factor,
            inputs=_SAMPLES,
            most_parts=1 << 30,
            per_prompt=_MOST_SOUNDS,
        ),
    )


# Kimi-Audio: Qwen2, and Whisper large v3 from a folder of its own.
def _kimi_audio_tower(facts: Facts, text_size: int) -> Tower:
    """Source: vLLM 0.33.0 `models/kimi_audio.py` KimiAudioForConditionalGeneration."""
    if not facts.mapping("whisper_config"):
        raise facts.unsupported(
            "whisper_config",
            "vLLM reads it from whisper-large-v3/config.json beside config.json.",
        )
    audio = sub_config(facts, "whisper_config", "whisper")
    wide = facts.integer("kimia_adaptor_input_dim", default=5120)
    name = "multi_modal_projector"
    return Tower(
        AUDIO,
        (
            *encoder_modules(audio, "audio_tower"),
            one_stage("audio_tower"),
            blocks.two_layers(name, wide, text_size),
            blocks.norms(f"{name}.vq_adaptor_layers_4", text_size, bias=True),
        ),
        items=kimi_audio_items(audio),
    )


# MOSS's transcriber: Whisper's encoder and Qwen3.
def _moss_modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/moss_transcribe_diarize.py`."""
    wide = facts.integer("adaptor_input_dim")
    whisper = sub_config(facts, "audio_config", "whisper")
    yield from encoder_modules(whisper, "whisper_encoder")
    yield blocks.two_layers("vq_adaptor", wide, text_size)
    yield blocks.norms("vq_adaptor.norm", text_size, bias=True)


READERS: dict[str, Reader] = {
    "WhisperForConditionalGeneration": read_whisper,
    "UltravoxModel": Composite(
        _ultravox_modules, text=_ultravox_text, modalities=AUDIO
    ),
    "VoxtralForConditionalGeneration": Composite(_voxtral_tower, text=_voxtral_text),
    "MoonshotKimiaForCausalLM": Composite(
        _kimi_audio_tower, text=Text("qwen2", "Qwen2ForCausalLM", name="")
    ),
    "MossTranscribeDiarizeForConditionalGeneration": Composite(
        _moss_modules, text=Text("qwen3", "Qwen3ForCausalLM"), modalities=AUDIO
    ),
}
