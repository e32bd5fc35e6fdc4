"""FireRedASR 2: a conformer that every rank holds in full, and Qwen2."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.families.composite import Composite, Text
from planner.models.families.facts import Facts
from planner.models.families.multimodal import nested
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import AUDIO
from planner.models.layers import Module


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/fireredasr2.py`, `models/conformer_encoder.py`."""
    audio = nested(facts, "audio_encoder_conf", "audio_encoder_conf")
    name = "model.encoder_projector"
    stacked = audio.integer("d_model") * facts.integer("encoder_downsample_rate")
    yield from _encoder(audio, "model.encoder.audio_encoder")
    yield blocks.whole(f"{name}.linear1", stacked, text_size, bias=True)
    yield blocks.whole(f"{name}.linear2", text_size, text_size, bias=True)


def _encoder(facts: Facts, name: str) -> Iterator[Module]:
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


READERS = {
    "FireRedASR2ForConditionalGeneration": Composite(
        _modules,
        text=Text("", "Qwen2ForCausalLM", name=""),
        modalities=AUDIO,
        prefix="model.decoder.",
        supports_pp=False,
    )
}
