"""Whisper's encoder, as several families have it from Transformers."""

from __future__ import annotations

from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.layers import Module


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
        *whole_layers(facts, name),
        blocks.norms(f"{name}.layer_norm", size, bias=True),
    )


def whole_layers(facts: Facts, name: str) -> tuple[Module, ...]:
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
