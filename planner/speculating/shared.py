"""What drafts of several kinds ask of their target and of their own checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.architectures.facts import Facts
from planner.model import ModelArchitecture
from planner.model_files import ModelFiles

_CACHE_ONLY = ("default", "linear", "llama3", "ntk", "proportional")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a draft needs to know of the model it guesses for."""

    model: ModelArchitecture
    files: ModelFiles
    max_model_len: int


def only_sizes_rope(config: Mapping[str, Any]) -> bool:
    """Whether more positions leave the rotary frequencies as they are.

    Source: vLLM 0.33.0 `config/speculative.py` _rope_only_sizes_cache.
    """
    inner = config.get("transformer_layer_config")
    config = inner if isinstance(inner, Mapping) else config
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    kind = rope.get("rope_type") or rope.get("type") or "default"
    return kind in _CACHE_ONLY


def raised_positions(config: Mapping[str, Any], target: Target) -> int:
    """Return the positions of the draft's rotary table, raised to the target's length.

    Source: vLLM 0.27.0 `config/speculative.py`
    _maybe_override_draft_max_position_embeddings.
    """
    own = Facts(config, "llama").integer("max_position_embeddings", default=8192)
    return max(own, target.max_model_len) if only_sizes_rope(config) else own


def names_tensor(files: ModelFiles, part: str) -> bool | None:
    """Whether a checkpoint has tensors of such a name; None: that is not known."""
    if not files.tensor_shapes:
        return None
    return any(part in name for name in files.tensor_shapes)
