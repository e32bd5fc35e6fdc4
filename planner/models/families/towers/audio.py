"""Audio towers: Qwen2-Audio, Qwen2.5-Omni, Qwen3-Omni, Qwen3-ASR, Whisper, Parakeet."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.architecture import Tower
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks, sounds
from planner.models.families.towers.blocks import AUDIO
from planner.models.layers import Module
from planner.models.passes import Moment, TowerPass


def qwen2_audio_tower(facts: Facts, text_hidden_size: int) -> Tower:
    """Return Qwen2-Audio's encoder and projector, Transformers' own modules.

    Every rank holds them in full, and nothing in them is quantised.

    Source: vLLM 0.33.0 `models/qwen2_audio.py`; Transformers' Qwen2AudioEncoder.
    """
    name, size = "audio_tower", facts.integer("d_model")
    return Tower(
        AUDIO,
        (
            *whisper_of_transformers(facts, name),
            blocks.linear(
                "multi_modal_projector.linear", size, text_hidden_size, bias=True
            ),
        ),
        items=sounds.qwen2_audio_items(facts),
        forward=_transformers_pass(facts, beside=4),
    )


def qwen2_5_omni_audio_tower(facts: Facts) -> Tower:
    """Return Qwen2.5-Omni's encoder, Transformers' own modules as above.

    Source: vLLM 0.33.0 `models/qwen2_5_omni_thinker.py`; Transformers'
    Qwen2_5OmniAudioEncoder.
    """
    name, size = "audio_tower", facts.integer("d_model")
    output_size = facts.integer("output_dim")
    return Tower(
        AUDIO,
        (
            *convolutions(facts, name),
            blocks.replicated(f"{name}.audio_bos_eos_token", (2, output_size)),
            _sinusoids(facts, name),
            *_whole_layers(facts, name),
            blocks.norms(f"{name}.ln_post", size, bias=True),
            blocks.linear(f"{name}.proj", size, output_size, bias=True),
        ),
        items=sounds.qwen2_audio_items(facts),
        forward=_transformers_pass(facts, beside=3, input_copies=2),
    )


def _transformers_pass(
    facts: Facts, *, beside: int, input_copies: int = 1
) -> TowerPass:
    """Return the widest point of Whisper's layers where every rank holds them whole.

    Source: Transformers' Qwen2AudioEncoderLayer, Qwen2_5OmniAudioEncoderLayer (whose
    encoder pads and copies the spectrogram: chunk_and_pad_features).
    """
    size, mlp_size = facts.integers("d_model", "encoder_ffn_dim")
    whole = Moment("MLP", whole=beside * size + 2 * mlp_size)
    return TowerPass(moments=(whole,), input_copies=input_copies)


def qwen3_omni_audio_tower(facts: Facts) -> Tower:
    """Return Qwen3-Omni's encoder, cut over the ranks where they divide its heads."""
    return Tower(
        AUDIO,
        tuple(_qwen3_omni(facts, "audio_tower")),
        items=sounds.qwen3_asr_items(facts),
        whole_unless_heads_divide=facts.integer("encoder_attention_heads"),
    )


def _qwen3_omni(facts: Facts, name: str) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/qwen3_omni_moe_thinker.py` Qwen3OmniMoeAudioEncoder.

    It passes no quantisation on.
    """
    size, channels = facts.integers("d_model", "downsample_hidden_size")
    mel_bins = facts.integer("num_mel_bins")
    for _halving in range(3):
        mel_bins = (mel_bins + 1) // 2
    yield _sinusoids(facts, name)
    for number, given in enumerate((1, channels, channels), start=1):
        conv = f"{name}.conv2d{number}"
        yield blocks.convolution(conv, channels, given, 3, 3, bias=True)
    yield blocks.replicated(f"{name}.conv_out", (size, channels * mel_bins))
    parts = blocks.Parts(mlp=("fc1", "fc2"), norms_last=True)
    layers = blocks.layers(f"{name}.layers", whisper_sizes(facts), parts)
    yield from blocks.unquantised(*layers)
    yield blocks.norms(f"{name}.ln_post", size, bias=True)
    yield blocks.linear(f"{name}.proj1", size, size, bias=True)
    yield blocks.linear(f"{name}.proj2", size, facts.integer("output_dim"), bias=True)


def whisper_sizes(facts: Facts) -> blocks.Sizes:
    """Return the sizes of an encoder's layers under Whisper's names."""
    names = ("d_model", "encoder_attention_heads", "encoder_ffn_dim", "encoder_layers")
    return blocks.Sizes(*facts.integers(*names))


def convolutions(facts: Facts, name: str) -> tuple[Module, ...]:
    """Return the two convolutions over a spectrogram before Whisper's encoder."""
    size, mels = facts.integers("d_model", "num_mel_bins")
    return (
        blocks.convolution(f"{name}.conv1", size, mels, 3, bias=True),
        blocks.convolution(f"{name}.conv2", size, size, 3, bias=True),
    )


def as_whisper(facts: Facts) -> Facts:
    """Return an encoder's config under Whisper's names."""
    named = {
        "d_model": facts.integer("d_model", "hidden_size"),
        "encoder_layers": facts.integer("encoder_layers", "num_hidden_layers"),
        "encoder_attention_heads": facts.integer(
            "encoder_attention_heads", "num_attention_heads"
        ),
        "encoder_ffn_dim": facts.integer("encoder_ffn_dim", "intermediate_size"),
    }
    return facts.having(**named)


def whisper_of_transformers(facts: Facts, name: str) -> tuple[Module, ...]:
    """Return Whisper's encoder where vLLM takes Transformers' own, in full.

    Source: Transformers' WhisperEncoder.
    """
    size = facts.integer("d_model")
    positions = (facts.integer("max_source_positions"), size)
    return (
        *convolutions(facts, name),
        blocks.replicated(f"{name}.embed_positions", positions),
        *_whole_layers(facts, name),
        blocks.norms(f"{name}.layer_norm", size, bias=True),
    )


def parakeet(facts: Facts, name: str) -> Iterator[Module]:
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


def _sinusoids(facts: Facts, name: str) -> Module:
    shape = (facts.integer("max_source_positions"), facts.integer("d_model"))
    return blocks.replicated(f"{name}.positional_embedding", shape, dtype="float32")


def _whole_layers(facts: Facts, name: str) -> tuple[Module, ...]:
    """Return Whisper's encoder layers, of which only the keys have no bias."""
    size, ffn, count = facts.integers("d_model", "encoder_ffn_dim", "encoder_layers")
    square, vector = (size, size), (size,)
    shapes = (square,) * 4 + (vector,) * 3 + ((ffn, size), (ffn,), (size, ffn), vector)
    return blocks.repeated(
        f"{name}.layers",
        count,
        blocks.replicated("", *shapes),
        blocks.norms("norm", size, count=2, bias=True),
    )
