"""A draft that is a language model of its own, smaller than its target.

Source: vLLM 0.33.0 `v1/worker/gpu/spec_decode/standalone_ar/speculator.py`
load_draft_model; `config/speculative.py` verify_equal_vocab_size_if_draft_model.
"""

from __future__ import annotations

from dataclasses import replace

from planner.architectures import read
from planner.errors import Refused, UnknownArchitecture
from planner.model import ModelArchitecture
from planner.model_files import ModelFiles
from planner.releases import Release
from planner.speculating.rope_of import shares_rope

_FIRST_MODELLED = (0, 18, 0)


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
    draft = read(files, quantization)
    if draft.vocab_size != target.vocab_size:
        raise Refused(
            "Target and draft model should have the same vocabulary size. Target model "
            f"vocab_size={target.vocab_size}. Draft model "
            f"vocab_size={draft.vocab_size}. Using models with different tokenizers "
            "can cause out-of-bounds errors during speculative decoding."
        )
    why = None
    if draft.quantization is not None:
        why = "it is quantised, and which of its layers vLLM then leaves alone"
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
