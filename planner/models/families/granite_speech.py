"""Granite Speech: a conformer, and queries for what it heard."""

from __future__ import annotations

from collections.abc import Iterator

from planner.models.families.composite import Composite
from planner.models.families.facts import Facts
from planner.models.families.multimodal import sub_config
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import AUDIO
from planner.models.families.towers.qformer import qformer
from planner.models.layers import Module


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
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


READERS = dict.fromkeys(
    (
        "GraniteSpeechForConditionalGeneration",
        "GraniteSpeechPlusForConditionalGeneration",
    ),
    Composite(_modules, modalities=AUDIO),
)
