"""A draft that is a language model of its own, smaller than its target.

Source: vLLM 0.33.0 `v1/worker/gpu/spec_decode/standalone_ar/speculator.py`
load_draft_model; `config/speculative.py` verify_equal_vocab_size_if_draft_model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planner.architectures import read
from planner.errors import Refused, UnknownArchitecture
from planner.layers import Module
from planner.model import ModelArchitecture
from planner.model_files import ModelFiles
from planner.quantization import quantised
from planner.releases import Release
from planner.speculating.rope_of import shares_rope

_FIRST_MODELLED = (0, 18, 0)
_FIRST_QUANTISED = (0, 20, 0)
_PREFIX = "draft_model"
_QUANTISATION = ("quantization_config", "compression_config")


def read_draft(
    files: ModelFiles,
    quantization: str | None,
    target: ModelArchitecture,
    target_files: ModelFiles,
    release: Release,
) -> ModelArchitecture:
    """Return the draft with all that it keeps.

    Raises:
        Refused: for a draft of another vocabulary, in vLLM's words.
        UnknownArchitecture: for a draft whose memory is not modelled.
    """
    if not release.since(*_FIRST_MODELLED):
        raise UnknownArchitecture(
            "speculative_config with a draft model is not modelled for vLLM before "
            "0.18.0."
        )
    draft = _quantised(files, quantization)
    if draft.vocab_size != target.vocab_size:
        raise Refused(
            "Target and draft model should have the same vocabulary size. Target model "
            f"vocab_size={target.vocab_size}. Draft model "
            f"vocab_size={draft.vocab_size}. Using models with different tokenizers "
            "can cause out-of-bounds errors during speculative decoding."
        )
    why = None
    if draft.quantization is not None and not release.since(*_FIRST_QUANTISED):
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


def _quantised(files: ModelFiles, asked: str | None) -> ModelArchitecture:
    """Return the draft as its own settings have it quantised.

    vLLM names all its layers after the draft, so that exceptions which a checkpoint
    names in full do not fit them.

    Source: vLLM 0.33.0 `v1/worker/gpu/spec_decode/standalone_ar/speculator.py`
    load_draft_model (prefix).
    """
    config = {k: v for k, v in files.config.items() if k not in _QUANTISATION}
    plain = replace(files, config=config, hf_quant_config=None, tensor_shapes={})
    model = read(plain)
    named = replace(
        model,
        layer_prefix=f"{_PREFIX}.{model.layer_prefix}",
        first_stage=_named(model.first_stage),
        last_stage=_named(model.last_stage),
        every_stage=_named(model.every_stage),
        tied_embeddings=_named(model.tied_embeddings),
    )
    found = quantised(named, files, asked)
    refusal = found.quantization_limits.mismatch or found.quantization_limits.refusal
    if refusal is not None:
        raise Refused(refusal)
    return found


def _named(modules: tuple[Module, ...]) -> tuple[Module, ...]:
    found = []
    for module in modules:
        named: Any = module
        renamed: Module = replace(named, name=f"{_PREFIX}.{module.name}")
        found.append(renamed)
    return tuple(found)
