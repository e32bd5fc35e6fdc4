"""FireRedASR 2: a conformer that every rank holds in full, and Qwen2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import composed, read_language_model
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import AUDIO
from planner.models.layers import Module


def read_fire_red_asr(facts: Facts, label: Label) -> ModelArchitecture:
    """Return FireRedASR 2: a conformer that every rank holds in full, and Qwen2.

    Source: vLLM 0.33.0 `models/fireredasr2.py`, `models/conformer_encoder.py`.
    """
    audio = encoder_conf(facts)
    size, rate = audio.integer("d_model"), facts.integer("encoder_downsample_rate")
    model = flat(facts, label, "Qwen2ForCausalLM")
    wide, name = model.hidden_size, "model.encoder_projector"
    modules = (
        *_fire_red_encoder(audio, "model.encoder.audio_encoder"),
        blocks.whole(f"{name}.linear1", size * rate, wide, bias=True),
        blocks.whole(f"{name}.linear2", wide, wide, bias=True),
    )
    return transcriber(facts, label, model, modules)


def encoder_conf(facts: Facts) -> Facts:
    if not facts.mapping("audio_encoder_conf"):
        raise facts.unsupported("audio_encoder_conf", "a nested config is needed.")
    return Facts(facts.mapping("audio_encoder_conf"), "audio_encoder_conf")


def flat(facts: Facts, label: Label, architecture: str) -> ModelArchitecture:
    """Return the language model whose fields are in the outer config."""
    named = {**facts.config, "architectures": [architecture]}
    return read_language_model(Facts(named, facts.model_type), label)


def transcriber(
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


READERS = {
    "FireRedASR2ForConditionalGeneration": read_fire_red_asr,
}
