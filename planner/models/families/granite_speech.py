"""Granite Speech: a conformer, and queries for what it heard."""

from __future__ import annotations

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    composed,
    read_language_model,
    sub_config,
    text_of,
)
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import AUDIO
from planner.models.families.towers.qformer import qformer
from planner.models.layers import Module


def read_granite_speech(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Granite Speech: a conformer, and queries for what it heard.

    Source: vLLM 0.33.0 `models/granite_speech.py`.
    """
    model = read_language_model(text_of(facts), label)
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


READERS = {
    "GraniteSpeechForConditionalGeneration": read_granite_speech,
    "GraniteSpeechPlusForConditionalGeneration": read_granite_speech,
}
