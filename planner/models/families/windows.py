"""Which layers have a sliding window, and of how many tokens."""

from __future__ import annotations

from planner.errors import Refused
from planner.models.families.facts import Facts

FULL, SLIDING = "full_attention", "sliding_attention"
# Layer patterns that a configuration class makes up when layer_types is missing:
# every n-th layer has full attention.
_FULL_EVERY = {"gemma2": 2, "gemma3_text": 6, "cohere2": 4, "olmo3": 4, "exaone4": 4}
# Configuration classes that forget the window unless use_sliding_window says so, and
# count from max_window_layers; for other classes the field means nothing.
_FROM_A_LAYER_ON = (
    "qwen2",
    "qwen3",
    "qwen2_vl_text",
    "qwen2_5_vl_text",
    "qwen2_5_omni_text",
    "mimo",
)
_SWITCHED = (*_FROM_A_LAYER_ON, "qwen2_moe", "qwen3_moe")


def layer_types(facts: Facts, num_layers: int) -> tuple[str, ...] | None:
    """Return each layer's kind, or None for a model that does not distinguish them.

    Source: Transformers' configuration classes (Gemma2Config, Gemma3TextConfig,
    Cohere2Config, Olmo3Config, Exaone4Config, Qwen2Config, Qwen2MoeConfig).
    """
    given = facts.value("layer_types")
    if given:
        return tuple(given[:num_layers])
    if facts.model_type in _FROM_A_LAYER_ON:
        first = facts.integer("max_window_layers", default=28)
        if sliding_window(facts) is None:
            first = num_layers
        return (FULL,) * min(first, num_layers) + (SLIDING,) * (num_layers - first)
    every = _FULL_EVERY.get(facts.model_type)
    if every is None:
        return None
    pattern = facts.value("sliding_window_pattern", "_sliding_window_pattern")
    every = pattern if isinstance(pattern, int) else every
    return tuple(
        FULL if (layer + 1) % every == 0 else SLIDING for layer in range(num_layers)
    )


def sliding_window(facts: Facts) -> int | None:
    """Return the config's window as its configuration class keeps it.

    Source: Transformers' Qwen2Config and similar classes.
    """
    if facts.model_type in _SWITCHED and not facts.flag("use_sliding_window"):
        return None
    return facts.optional_integer("sliding_window") or None


def layer_windows(
    facts: Facts, num_layers: int, *, has_layer_windows: bool, extra_tokens: int = 0
) -> tuple[int | None, ...]:
    """Return each layer's window in tokens, None for full attention.

    `has_layer_windows`: whether vLLM's class gives each layer its own window.

    Raises:
        Refused: for Qwen's windows on some layers, which vLLM does not serve.
        UnknownArchitecture: for layer types that are not modelled.

    Source: vLLM 0.33.0 `engine/arg_utils.py` create_engine_config (one window for all
    when no layer differs); `layers/attention/attention.py` Attention.__init__.
    """
    window = sliding_window(facts)
    types = layer_types(facts, num_layers)
    if types is not None and not set(types) <= {FULL, SLIDING}:
        raise facts.unsupported("layer_types", "full and sliding attention are.")
    if facts.model_type in _FROM_A_LAYER_ON and types and len(set(types)) > 1:
        _refuse_some_layers(facts, num_layers)
    if window is None:
        return (None,) * num_layers
    if types is None or set(types) == {SLIDING}:
        return (window + extra_tokens,) * num_layers
    if not has_layer_windows:
        return (None,) * num_layers
    return tuple(window + extra_tokens if t == SLIDING else None for t in types)


def typed_windows(facts: Facts, num_layers: int) -> list[int | None]:
    """Return each layer's window where nothing but layer_types counts."""
    types = facts.value("layer_types")
    if not types:
        return [None] * num_layers
    if not set(types) <= {FULL, SLIDING}:
        raise facts.unsupported("layer_types", "full and sliding attention are.")
    window = facts.optional_integer("sliding_window")
    return [window if kind == SLIDING else None for kind in types[:num_layers]]


def no_windows(_facts: Facts, num_layers: int) -> list[int | None]:
    """Return the windows of a class whose layers have none, whatever the config."""
    return [None] * num_layers


def _refuse_some_layers(facts: Facts, num_layers: int) -> None:
    """Refuse windows on some of Qwen's layers.

    Source: vLLM 0.33.0 `models/qwen2.py` Qwen2Model.
    """
    first = facts.integer("max_window_layers", default=28)
    if first != num_layers:
        raise Refused(
            "Sliding window for some but all layers is not supported. This model uses "
            f"sliding window but `max_window_layers` = {first} is less than "
            f"`num_hidden_layers` = {num_layers}. Please open an issue to discuss this "
            "feature."
        )


def is_sliding(facts: Facts) -> list[bool]:
    """Return which layers have a window; without layer_types none has."""
    types = facts.value("layer_types")
    num_layers = facts.integer("num_hidden_layers")
    if not types:
        return [False] * num_layers
    if not set(types) <= {FULL, SLIDING}:
        raise facts.unsupported("layer_types", "full and sliding attention are.")
    return [kind == SLIDING for kind in types[:num_layers]]
