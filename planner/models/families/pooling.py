"""Generating models that are run for embeddings: the engine argument `runner`.

Source: vLLM 0.33.0 `config/model.py` _get_runner_type; `models/adapters.py`
as_embedding_model.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from planner.errors import UnknownArchitecture
from planner.models.architecture import ModelArchitecture
from planner.models.families.conversion import sees_both_ways, without_head


@lru_cache(maxsize=64)
def as_run(model: ModelArchitecture, runner: str | None) -> ModelArchitecture:
    """Return the model as a runner ("auto", "generate" or "pooling") has it.

    Pooling drops the head of a model that generates. The same model returns the same
    object, so that plans of it are equal.

    Raises:
        UnknownArchitecture: naming runner, where it is not certain what is kept.
    """
    if runner in (None, "auto") or (runner == "pooling") is model.is_pooling:
        return model
    if runner == "generate" or not _is_plain(model):
        raise UnknownArchitecture(
            f"runner={runner!r} is not modelled for {model.architecture}. "
            "Leave runner out."
        )
    return replace(
        model,
        last_stage=without_head(model.last_stage),
        every_stage=without_head(model.every_stage),
        is_pooling=True,
        is_encoder_only=sees_both_ways(model),
    )


def _is_plain(model: ModelArchitecture) -> bool:
    """Whether it is a decoder of text with attention only."""
    return not (
        model.is_multimodal
        or model.state_layers
        or model.is_attention_free
        or model.is_encoder_only
        or model.is_encoder_decoder
    )
