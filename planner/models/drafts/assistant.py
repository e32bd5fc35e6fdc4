"""Gemma 4's assistant: a small model that reads its target's KV cache.

It has queries only, and a head for a hidden size of its own; its word embeddings are
replaced by the target's.

Source: vLLM 0.33.0 `models/gemma4_mtp.py`;
`v1/worker/gpu/spec_decode/gemma4/speculator.py` Gemma4Speculator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.engine.releases import Release
from planner.errors import UnknownArchitecture
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.drafts.config import SpeculativeConfig
from planner.models.drafts.methods import check_modelled, runs
from planner.models.drafts.shared import Target
from planner.models.families.assembly import Frame, Label, assemble
from planner.models.families.decoder import (
    attention_scales,
    embeddings,
    gated_mlp,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.files import ModelFiles
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    RowParallelLinear,
    prefixed,
)
from planner.models.quantization import quantised

MODEL_TYPES = ("gemma4_assistant", "gemma4_unified_assistant")
_RUNS_ASSISTANTS = runs("Gemma 4's assistant", "0.25.0")
_DEFAULT_WIDTH = 1536
_FULL = "full_attention"
_PREFIX = "draft_model"


def read_assistant(
    requested: SpeculativeConfig, files: ModelFiles, target: Target, release: Release
) -> ModelArchitecture:
    """Return the assistant: its weights, and layers that keep nothing.

    Raises:
        UnknownArchitecture: before 0.25.0, for another target, or with positions of
            its own.
    """
    check_modelled(_RUNS_ASSISTANTS, "Gemma 4's assistant", release)
    outer = Facts(files.config, "gemma4_assistant")
    facts = Facts(outer.mapping("text_config"), "gemma4_text")
    _check_target(outer, facts, target)
    return quantised(_assembled(outer, facts, files), files, requested.quantization)


def _check_target(outer: Facts, facts: Facts, target: Target) -> None:
    model = target.model
    text = target.files.config.get("text_config")
    found = Facts(text if isinstance(text, Mapping) else {}, "gemma4_text")
    if not str(model.model_type).startswith("gemma4"):
        raise UnknownArchitecture(
            f"speculative_config.model: Gemma 4's assistant with {model.architecture}"
            " is not modelled."
        )
    if _width(outer) != model.hidden_size:
        raise UnknownArchitecture(
            f"speculative_config.model: an assistant for targets of {_width(outer)} "
            f"values (backbone_hidden_size) with one of {model.hidden_size} is not "
            "modelled."
        )
    for name in ("rope_parameters", "max_position_embeddings", "head_dim"):
        if facts.value(name) != found.value(name):
            raise UnknownArchitecture(
                f"speculative_config.model: an assistant with another {name} than its "
                "target is not modelled."
            )


def _width(outer: Facts) -> int:
    return outer.integer("backbone_hidden_size", default=_DEFAULT_WIDTH)


def _assembled(outer: Facts, facts: Facts, files: ModelFiles) -> ModelArchitecture:
    size, vocabulary = facts.integer("hidden_size"), facts.integer("vocab_size")
    layers = facts.integer("num_hidden_layers")
    types = facts.value("layer_types")
    if not isinstance(types, list) or len(types) < layers:
        raise facts.unsupported("layer_types", "one entry per layer is.")
    modules: list[Module] = []
    for index in range(layers):
        layer = _layer(facts, is_full=types[index] == _FULL)
        modules += prefixed(layer, f"{_PREFIX}.layers.{index}.")
    base = assemble(
        facts,
        Label(name=files.name, architecture="Gemma4AssistantForCausalLM"),
        Frame(size, vocab_size=vocabulary, final_norm=()),
        [LayerKind((), ())] * layers,
        num_experts=0,
    )
    return replace(
        base,
        hidden_size=_width(outer),  # its output has the target's width
        first_stage=(),
        last_stage=(*modules, *_outside_layers(outer, size, vocabulary)),
        every_stage=(),
        tied_embeddings=(),
    )


def _layer(facts: Facts, *, is_full: bool) -> tuple[Module, ...]:
    size, heads = facts.integer("hidden_size"), facts.integer("num_attention_heads")
    head_size = facts.integer("head_dim")
    if is_full:
        head_size = facts.optional_integer("global_head_dim") or head_size
    has_bias = facts.flag("attention_bias")
    return (
        ColumnParallelLinear(
            "self_attn.q_proj",
            Part.ATTENTION,
            size,
            (heads * head_size,),
            bias=has_bias,
        ),
        RowParallelLinear(
            "self_attn.o_proj", Part.ATTENTION, heads * head_size, size, bias=has_bias
        ),
        attention_scales(),
        *gated_mlp(size, facts.integer("intermediate_size")),
        norms(size, count=4),
        Replicated("q_norm and layer_scalar", Part.NORMS, ((head_size,), (1,))),
    )


def _outside_layers(outer: Facts, size: int, vocabulary: int) -> tuple[Module, ...]:
    width = _width(outer)
    found: tuple[Module, ...] = (
        replace(embeddings(vocabulary, size, "lm_head"), is_quantizable=False),
        ColumnParallelLinear(f"{_PREFIX}.pre_projection", Part.MLP, 2 * width, (size,)),
        RowParallelLinear(f"{_PREFIX}.post_projection", Part.MLP, size, width),
        Replicated("norm and normalizer", Part.NORMS, ((size,), ())),
    )
    if not outer.flag("use_ordered_embeddings"):
        return found
    centroids = outer.integer("num_centroids", default=2048)
    return (
        *found,
        Replicated("masked_embedding.centroids", Part.LM_HEAD, ((centroids, size),)),
        Replicated(
            "masked_embedding.token_ordering",
            Part.LM_HEAD,
            ((vocabulary,),),
            dtype="int64",
        ),
    )
