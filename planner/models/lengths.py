"""max_model_len: what the config allows, what vLLM sets, and its refusal of more.

Source of all rules: vLLM 0.33.0 `config/model.py` _get_and_verify_max_len.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import inf

from planner.engine.environment import Environment
from planner.engine.releases import NEWEST_RELEASE, Release
from planner.engine.releases.change import Change
from planner.errors import RefusedArgument
from planner.models.architecture import ModelArchitecture
from planner.models.caches import AttentionLayer, CacheLayer

_NEVER_SCALED = ("su", "longrope", "llama3")
_UNSCALED_ROPE = (
    *_NEVER_SCALED,
    "default",
    "yarn",
    "deepseek_yarn",
    "deepseek_llama_scaling",
)
_STRETCHES_YARN = Change(
    until=(0, 30),
    what="YaRN's factor multiplies the length that the config allows.",
    source="vLLM 0.30.0 `config/model.py` _get_and_verify_max_len",
)
_SHORTENS_LONGROPE = Change(
    since=(0, 11, 1),
    what="max_model_len, if not set, is the length before LongRoPE's stretching.",
    source="vLLM 0.11.1 `config/model.py` _get_and_verify_max_len",
)
_READS_ROPE_PARAMETERS = Change(
    since=(0, 12),
    what="Every RoPE of a model has parameters, not only one that is stretched.",
    source="vLLM 0.12.0 `config/model.py` _get_and_verify_max_len",
)
_EXPLAINS_LONG_MAX_MODEL_LEN = Change(
    since=(0, 10, 2),
    what="The refusal of a long max_model_len says what happens beyond it.",
    source="vLLM 0.10.2 `config/__init__.py` _get_and_verify_max_len",
)


def derived_max_model_len(model: ModelArchitecture, release: Release) -> float:
    """Return the length the config allows, infinite when it has none."""
    derived = model.max_position_embeddings
    if "gemma3" in model.model_type:
        return derived
    scaling = 1.0
    for rope in model.rope_parameters:
        if rope.rope_type == "yarn" and release.has(_STRETCHES_YARN):
            derived = rope.original_max_position_embeddings or derived
        elif rope.rope_type in _UNSCALED_ROPE:
            continue
        scaling = 1.0 if rope.factor is None else rope.factor
    return derived * scaling


_SHORTENED = {"EmbeddingGemma2Model": 8192}
"""Tokens of a prompt where the user sets none and the config allows more.

Source: vLLM 0.33.0 `models/config.py` EmbeddingGemma2ModelConfig.
"""


def resolve_max_model_len(
    requested: int | str | None,
    model: ModelArchitecture,
    env: Environment,
    release: Release = NEWEST_RELEASE,
) -> int:
    """Return max_model_len before any fitting to memory.

    Raises:
        RefusedArgument: when the user requests more than the model supports.
    """
    derived = derived_max_model_len(model, release)
    length = None if requested in (None, "auto", -1) else int(requested)
    if derived == inf:
        return length or 2048
    if length is None:
        is_short = release.has(_SHORTENS_LONGROPE) and any(
            rope.rope_type == "longrope" for rope in model.rope_parameters
        )
        if is_short and model.original_max_position_embeddings:
            return model.original_max_position_embeddings
        return int(min(derived, _SHORTENED.get(model.architecture, derived)))
    if length > derived:
        _refuse_long(length, derived, model, env, release)
    return length


def scheduled_length(
    requested: int | str | None,
    model: ModelArchitecture,
    max_model_len: int,
    release: Release = NEWEST_RELEASE,
) -> int:
    """Return the length by which vLLM resolves its batches: before it is shortened."""
    is_given = requested not in (None, "auto", -1)
    if is_given or model.architecture not in _SHORTENED:
        return max_model_len
    return int(derived_max_model_len(model, release))


def _refuse_long(
    length: int,
    derived: float,
    model: ModelArchitecture,
    env: Environment,
    release: Release,
) -> None:
    limit = model.model_max_length
    if (limit is not None and length <= limit) or env.allow_long_max_model_len:
        return
    printed = _as_vllm_prints(derived, model, release)
    message = (
        f"User-specified max_model_len ({length}) is greater than the derived "
        f"max_model_len ({model.max_len_key}={printed} or "
        f"model_max_length={limit} in model's config.json)."
    )
    allowing = (
        " To allow overriding this maximum, set the env var "
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"
    )
    if release.has(_EXPLAINS_LONG_MAX_MODEL_LEN):
        raise RefusedArgument(
            f"{message}{allowing}. VLLM_ALLOW_LONG_MAX_MODEL_LEN must be used with "
            "extreme caution. If the model uses relative position encoding (RoPE), "
            "positions exceeding derived_max_model_len lead to nan. If the model uses "
            "absolute position encoding, positions exceeding derived_max_model_len "
            "will cause a CUDA array out-of-bounds error."
        )
    raise RefusedArgument(
        f"{message} This may lead to incorrect model outputs or CUDA errors.{allowing}"
    )


def _as_vllm_prints(derived: float, model: ModelArchitecture, release: Release) -> str:
    # vLLM multiplies by a float scaling factor wherever the model has RoPE; where it
    # reads rope_scaling, only where that has a factor which it uses.
    ropes = model.rope_parameters
    if not release.has(_READS_ROPE_PARAMETERS):
        ropes = tuple(r for r in ropes if r.factor and r.rope_type not in _NEVER_SCALED)
    is_scaled = ropes and "gemma3" not in model.model_type
    return str(float(derived)) if is_scaled else str(int(derived))


@lru_cache(maxsize=64)
def without_windows(model: ModelArchitecture) -> ModelArchitecture:
    """Return the model as disable_sliding_window has it: every layer keeps all tokens.

    The window becomes the longest length. The same model returns the same object.

    Source: vLLM 0.33.0 `config/model.py` ModelConfig.__post_init__
    (disable_sliding_window), _get_and_verify_max_len.
    """
    windows = [
        cache.sliding_window
        for cache in model.cache_layers
        if isinstance(cache, AttentionLayer) and cache.sliding_window is not None
    ]
    if not windows:
        return model
    is_shorter = min(windows) < model.max_position_embeddings
    return replace(
        model,
        layer_kinds=tuple(
            replace(kind, caches=tuple(_unbounded(cache) for cache in kind.caches))
            for kind in model.layer_kinds
        ),
        max_position_embeddings=min(*windows, model.max_position_embeddings),
        max_len_key="sliding_window" if is_shorter else model.max_len_key,
    )


def _unbounded(cache: CacheLayer) -> CacheLayer:
    if isinstance(cache, AttentionLayer):
        return replace(cache, sliding_window=None)
    return cache
