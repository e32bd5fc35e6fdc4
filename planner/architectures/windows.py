"""Which layers look back over a window only, and how far."""

from __future__ import annotations

from planner.architectures.facts import Facts

_FULL, _SLIDING = "full_attention", "sliding_attention"
# Layer patterns that a configuration class makes up when layer_types is missing:
# every n-th layer sees everything.
_FULL_EVERY = {"gemma2": 2, "gemma3_text": 6, "cohere2": 4, "olmo3": 4, "exaone4": 4}


def layer_types(facts: Facts, num_layers: int) -> tuple[str, ...] | None:
    """Return each layer's kind, or None for a model that does not tell them apart.

    Source: Transformers' configuration classes (Gemma2Config, Gemma3TextConfig,
    Cohere2Config, Olmo3Config, Exaone4Config).
    """
    given = facts.value("layer_types")
    if given:
        return tuple(given)
    every = _FULL_EVERY.get(facts.model_type)
    if every is None:
        return None
    pattern = facts.value("sliding_window_pattern", "_sliding_window_pattern")
    every = pattern if isinstance(pattern, int) else every
    return tuple(
        _FULL if (layer + 1) % every == 0 else _SLIDING for layer in range(num_layers)
    )


def layer_windows(
    facts: Facts, num_layers: int, *, is_told_by_layer: bool, extra_tokens: int = 0
) -> tuple[int | None, ...]:
    """Return each layer's window in tokens, None for full attention.

    `is_told_by_layer`: whether vLLM's class hands each layer its own window.

    Raises:
        UnknownArchitecture: for layer types that are not modelled, or mixed windows in
            a class that has one for all.

    Source: vLLM 0.33.0 `engine/arg_utils.py` create_engine_config (one window for all
    when no layer differs); `layers/attention/attention.py` Attention.__init__.
    """
    if not facts.flag("use_sliding_window", default=True):
        return (None,) * num_layers
    window = facts.optional_integer("sliding_window") or None
    types = layer_types(facts, num_layers)
    if types is not None and not set(types) <= {_FULL, _SLIDING}:
        raise facts.unsupported("layer_types", "full and sliding attention are.")
    if window is None or (types is not None and set(types) == {_FULL}):
        return (None,) * num_layers
    if facts.config.get("use_sliding_window"):
        raise facts.unsupported(
            "use_sliding_window", "only some layers of this family have a window."
        )
    if types is None or set(types) == {_SLIDING}:
        return (window + extra_tokens,) * num_layers
    if not is_told_by_layer:
        raise facts.unsupported("layer_types", "vLLM's class has one window for all.")
    return tuple(window + extra_tokens if t == _SLIDING else None for t in types)
