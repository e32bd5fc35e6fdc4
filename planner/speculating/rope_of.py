"""Whether a draft finds its rotary table among its target's.

Source: vLLM 0.33.0 `layers/rotary_embedding/__init__.py` get_rope, which keeps one
table for each set of parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.model_files import ModelFiles


def shares_rope(draft: Mapping[str, Any], target: ModelFiles) -> bool:
    """Return whether draft and target ask for the same table."""
    outer = target.config
    text = outer.get("text_config")
    return _key(draft) == _key(text if isinstance(text, Mapping) else outer)


def _key(config: Mapping[str, Any]) -> tuple[object, ...]:
    merged = {
        **(config.get("rope_scaling") or {}),
        **(config.get("rope_parameters") or {}),
    }
    merged.setdefault("rope_theta", config.get("rope_theta", 10000.0))
    merged["rope_type"] = merged.pop("type", None) or merged.get("rope_type", "default")
    heads = config.get("num_attention_heads") or 1
    head_size = config.get("head_dim") or (config.get("hidden_size") or 0) // heads
    return (
        head_size,
        config.get("max_position_embeddings"),
        config.get("partial_rotary_factor"),
        tuple(sorted((k, str(v)) for k, v in merged.items() if v is not None)),
    )
