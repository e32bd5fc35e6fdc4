"""Drafts with a checkpoint of their own: smaller language models, and Medusa's heads.

Each of Medusa's heads guesses one token further ahead, from the target's last hidden
states; they keep no cache. vLLM dropped them with 0.33.0.

Source: vLLM 0.33.0 `v1/worker/gpu/spec_decode/standalone_ar/speculator.py`
load_draft_model; `config/speculative.py` verify_equal_vocab_size_if_draft_model;
vLLM 0.32.0 `models/medusa.py`, `transformers_utils/configs/medusa.py`,
`config/speculative.py` SpeculativeConfig.__post_init__.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.errors import Refused, UnknownArchitecture
from planner.models.architecture import ModelArchitecture
from planner.models.drafts.methods import check_modelled, runs
from planner.models.drafts.shared import Target, shares_rope
from planner.models.families import read
from planner.models.families.assembly import Frame, Label, assemble
from planner.models.families.composite import with_towers
from planner.models.families.decoder import lm_head
from planner.models.families.facts import Facts
from planner.models.files import ModelFiles
from planner.models.layers import Module, Part, Replicated
from planner.models.quantization import quantised

_RUNS_DRAFT_MODELS = runs("draft models", "0.18.0")
_RUNS_QUANTISED = Change(
    since=(0, 20),
    what=(
        "vLLM holds quantised draft models as in 0.20.0, the oldest release whose way "
        "is modelled."
    ),
)
_RUNS_MEDUSA = runs("Medusa's heads", "0.18.0")
_NAME = "draft_model."
_QUANTISATION = ("quantization_config", "compression_config")

_ALIGNS_VOCABULARY = Change(
    since=(0, 25),
    what="Medusa takes the vocabulary of its target where method is medusa.",
    source="vLLM 0.32.0 `config/speculative.py` SpeculativeConfig.__post_init__",
)
_MEDUSA_DEFAULTS = {
    "hidden_size": 4096,
    "vocab_size": 32001,
    "num_heads": 5,
    "num_hidden_layers": 1,
}
_NO_ATTENTION = {"num_attention_heads": 0, "num_key_value_heads": 0, "head_dim": 1}


def read_draft(
    files: ModelFiles,
    quantization: str | None,
    target: ModelArchitecture,
    target_files: ModelFiles,
    release: Release,
) -> ModelArchitecture:
    """Return the draft as a model.

    Raises:
        Refused: for a draft of another vocabulary, in vLLM's words.
        UnknownArchitecture: for a draft whose memory is not modelled.
    """
    check_modelled(_RUNS_DRAFT_MODELS, "a draft model", release)
    draft = _quantised(files, quantization)
    if draft.vocab_size != target.vocab_size:
        raise Refused(
            "Target and draft model should have the same vocabulary size. Target model "
            f"vocab_size={target.vocab_size}. Draft model "
            f"vocab_size={draft.vocab_size}. Using models with different tokenizers "
            "can cause out-of-bounds errors during speculative decoding."
        )
    why = None
    if draft.quantization is not None and not release.has(_RUNS_QUANTISED):
        why = "it is quantised, which before vLLM 0.20.0"
    elif draft.towers or draft.state_layers or draft.has_latent_attention:
        why = "it has encoders, states or latent attention, and what they add"
    elif draft.is_pooling or draft.is_encoder_decoder:
        why = "it does not generate text alone, and what it adds"
    if why is not None:
        raise UnknownArchitecture(
            f"speculative_config.model={files.name!r}: {why} is not modelled."
        )
    if shares_rope(files.config, target_files):
        draft = replace(draft, every_stage=())
    return draft


def read_medusa(
    files: ModelFiles, target: Target, release: Release, *, is_named: bool
) -> ModelArchitecture:
    """Return the heads; `is_named`: whether the user named the method.

    Raises:
        UnknownArchitecture: before 0.18.0, or for another width or vocabulary than
            the target's.
    """
    check_modelled(_RUNS_MEDUSA, "method='medusa'", release)
    config = {**_medusa_config(files.config), **_NO_ATTENTION}
    facts = Facts(config, "medusa", _MEDUSA_DEFAULTS)
    size, model = facts.integer("hidden_size"), target.model
    words = facts.integer("vocab_size")
    kept = facts.optional_integer("truncated_vocab_size") or words
    if words != model.vocab_size and is_named and release.has(_ALIGNS_VOCABULARY):
        words = kept = model.vocab_size
    if size != model.hidden_size or words != model.vocab_size:
        raise UnknownArchitecture(
            f"speculative_config.model: Medusa of {size} values and {words:,} words "
            f"with a target of {model.hidden_size} and {model.vocab_size:,} "
            "(hidden_size, vocab_size) is not modelled."
        )
    base = assemble(
        facts,
        Label(name=files.name, architecture="MedusaModel"),
        Frame(size, vocab_size=words, final_norm=()),
        (),
        num_experts=0,
    )
    return replace(
        base,
        first_stage=(),
        last_stage=_medusa_heads(facts, words, kept),
        tied_embeddings=(),
    )


def _quantised(files: ModelFiles, requested: str | None) -> ModelArchitecture:
    """Return the draft, quantised by its own settings.

    vLLM prefixes the names of all its layers, so that exceptions which a checkpoint
    names in full do not match them.

    Source: vLLM 0.33.0 `v1/worker/gpu/spec_decode/standalone_ar/speculator.py`
    load_draft_model (prefix).
    """
    config = {k: v for k, v in files.config.items() if k not in _QUANTISATION}
    plain = replace(files, config=config, hf_quant_config=None, tensor_shapes={})
    model = read(plain)
    named = with_towers(
        model,
        model.towers,
        layer_prefix=_NAME + model.layer_prefix,
        prefix_renames=model.prefix_renames,
        head_prefix=_NAME,
    )
    found = quantised(named, files, requested)
    refusal = found.quantization_limits.mismatch or found.quantization_limits.refusal
    if refusal is not None:
        raise Refused(refusal)
    return found


def _medusa_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config with vLLM's names of its two numbers."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        if "num" in name and "heads" in name:
            found["num_heads"] = value
        elif "num" in name and "layers" in name:
            found["num_hidden_layers"] = value
        else:
            found[name] = value
    return found


def _medusa_heads(facts: Facts, words: int, kept: int) -> tuple[Module, ...]:
    size, heads = facts.integer("hidden_size"), facts.integer("num_heads")
    shape: tuple[tuple[int, ...], ...] = ((size, size),)
    if facts.flag("medusa_fc_bias"):
        shape = (*shape, (size,))
    blocks = Replicated(
        "blocks", Part.MLP, shape * (heads * facts.integer("num_hidden_layers"))
    )
    if facts.flag("original_lm_head"):
        return blocks, replace(lm_head(kept, size), is_quantizable=False)
    head = replace(lm_head(words, size), is_quantizable=False)
    return blocks, *(replace(head, name=f"lm_heads.{i}") for i in range(heads))
