"""Audio towers: Qwen2-Audio, Qwen2.5-Omni, Qwen3-Omni, Qwen3-ASR, Whisper, Parakeet."""

from __future__ import annotations

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
        modalities=AUDIO,
        modules=(
            *whisper_of_transformers(facts, name),
            _whole_linear("multi_modal_projector.linear", size, text_hidden_size),
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
        modalities=AUDIO,
        modules=(
            *convolutions(facts, name),
            blocks.replicated(f"{name}.audio_bos_eos_token", (2, output_size)),
            _sinusoids(facts, name),
            *_whole_layers(facts, name),
            blocks.norms(f"{name}.ln_post", size, bias=True),
            _whole_linear(f"{name}.proj", size, output_size),
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
    whole = Moment(name="MLP", whole=beside * size + 2 * mlp_size)
    return TowerPass(moments=(whole,), input_copies=input_copies)


def qwen3_omni_audio_tower(facts: Facts) -> Tower:
    """Return Qwen3-Omni's encoder, cut over the ranks where they divide its heads.

    Source: vLLM 0.33.0 `models/qwen3_omni_moe_thinker.py` Qwen3OmniMoeAudioEncoder,
    which passes no quantisation on.
    """
    name, size = "audio_tower", facts.integer("d_model")
    heads = facts.integer("encoder_attention_heads")
    channels = facts.integer("downsample_hidden_size")
    mel_bins = facts.integer("num_mel_bins")
    for _halving in range(3):
        mel_bins = (mel_bins + 1) // 2
    modules: list[Module] = [
        _sinusoids(facts, name),
        blocks.convolution(f"{name}.conv2d1", channels, 1, 3, 3, bias=True),
        blocks.convolution(f"{name}.conv2d2", channels, channels, 3, 3, bias=True),
        blocks.convolution(f"{name}.conv2d3", channels, channels, 3, 3, bias=True),
        blocks.replicated(f"{name}.conv_out", (size, channels * mel_bins)),
    ]
    for index in range(facts.integer("encoder_layers")):
        layer = f"{name}.layers.{index}"
        modules += blocks.unquantised(
            blocks.qkv(f"{layer}.self_attn.qkv_proj", size, heads, bias=True),
            blocks.row(f"{layer}.self_attn.out_proj", size, size, bias=True),
            *blocks.plain_mlp(
                f"{layer}.fc1", f"{layer}.fc2", size, facts.integer("encoder_ffn_dim")
            ),
        )
        modules.append(blocks.norms(f"{layer}.layer_norm", size, count=2, bias=True))
    modules += [
        blocks.norms(f"{name}.ln_post", size, bias=True),
        _whole_linear(f"{name}.proj1", size, size),
        _whole_linear(f"{name}.proj2", size, facts.integer("output_dim")),
    ]
    return Tower(
        modalities=AUDIO,
        modules=tuple(modules),
        items=sounds.qwen3_asr_items(facts),
        whole_unless_heads_divide=heads,
    )


def convolutions(facts: Facts, name: str) -> tuple[Module, ...]:
    """Return the two convolutions over a spectrogram before Whisper's encoder."""
    size = facts.integer("d_model")
    return (
        blocks.convolution(
            f"{name}.conv1", size, facts.integer("num_mel_bins"), 3, bias=True
        ),
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
    return Facts({**facts.config, **named}, facts.model_type)


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


def parakeet(facts: Facts, name: str) -> tuple[Module, ...]:
    """Return Parakeet's encoder, Transformers' own modules, in full on every rank.

    Source: vLLM 0.33.0 `models/parakeet.py` ProjectedParakeet, which switches biases of
    attention off; Transformers' ParakeetEncoder.
    """
    size, channels = facts.integers("hidden_size", "subsampling_conv_channels")
    kernel = facts.integer("subsampling_conv_kernel_size")
    halvings = facts.integer("subsampling_factor").bit_length() - 1
    bins = facts.integer("num_mel_bins") // facts.integer(
        "subsampling_conv_stride"
    ) ** (halvings)
    square, before = (kernel, kernel), f"{name}.subsampling"
    modules: list[Module] = [
        blocks.replicated(f"{name}.encode_positions", (size // 2,)),
        blocks.convolution(f"{before}.layers.0", channels, 1, *square, bias=True),
        _whole_linear(f"{before}.linear", channels * bins, size),
    ]
    for index in range(halvings - 1):
        layer = f"{before}.layers.{index + 1}"
        modules += [
            blocks.convolution(f"{layer}.depth", channels, 1, *square, bias=True),
            blocks.convolution(f"{layer}.point", channels, channels, 1, 1, bias=True),
        ]
    for index in range(facts.integer("num_hidden_layers")):
        modules += _parakeet_layer(facts, f"{name}.layers.{index}")
    return tuple(modules)


def _parakeet_layer(facts: Facts, name: str) -> tuple[Module, ...]:
    size, wide = facts.integers("hidden_size", "intermediate_size")
    heads = facts.integer("num_attention_heads")
    head_size = facts.integer("head_dim", default=size // heads)
    keys = facts.integer("num_key_value_heads", default=heads) * head_size
    queries, kernel = heads * head_size, facts.integer("conv_kernel_size")
    has_bias = facts.flag("convolution_bias", default=True)
    biases = ((2 * size,), (size,), (size,)) if has_bias else ()
    return (
        blocks.replicated(f"{name}.feed_forward", *((wide, size), (size, wide)) * 2),
        blocks.replicated(
            f"{name}.self_attn",
            *((queries, size), (keys, size), (keys, size), (size, queries)),
            *((queries, size), (queries,), (queries,)),
        ),
        blocks.replicated(
            f"{name}.conv", (2 * size, size), (size, kernel), (size, size), *biases
        ),
        blocks.replicated(f"{name}.conv.norm", *((size,),) * 4),
        blocks.replicated(f"{name}.conv.norm.count", (), dtype="int64"),
        blocks.norms(f"{name}.norms", size, count=5, bias=True),
    )


def _sinusoids(facts: Facts, name: str) -> Module:
    shape = (facts.integer("max_source_positions"), facts.integer("d_model"))
    return blocks.replicated(f"{name}.positional_embedding", shape, dtype="float32")


def _whole_layers(facts: Facts, name: str) -> tuple[Module, ...]:
    """Return Whisper's encoder layers, of which only the keys have no bias."""
    size, ffn = facts.integers("d_model", "encoder_ffn_dim")
    square, vector = (size, size), (size,)
    shapes = (square,) * 4 + (vector,) * 3 + ((ffn, size), (ffn,), (size, ffn), vector)
    return tuple(
        module
        for index in range(facts.integer("encoder_layers"))
        for module in (
            blocks.replicated(f"{name}.layers.{index}", *shapes),
            blocks.norms(f"{name}.layers.{index}.norm", size, count=2, bias=True),
        )
    )


def _whole_linear(name: str, input_size: int, output_size: int) -> Module:
    return blocks.replicated(name, (output_size, input_size), (output_size,))
