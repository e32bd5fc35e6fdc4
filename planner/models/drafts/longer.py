"""A target's config with layers for multi-token prediction added at its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from planner.errors import UnknownArchitecture
from planner.models.families.facts import Facts

_FULL = "full_attention"
_GLM_FULL_EVERY = 4
_M3_DENSE = 3


def lengthened(kind: str, config: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return the config of the target with `count` more layers."""
    text = config.get("text_config")
    if isinstance(text, Mapping):
        return {**config, "text_config": lengthened(kind, text, count)}
    if config.get("mlp_only_layers") or config.get("decoder_sparse_step", 1) != 1:
        raise UnknownArchitecture(
            "speculative_config with a model of which some layers have no experts "
            "(decoder_sparse_step, mlp_only_layers) is not modelled yet."
        )
    layers = Facts(config, str(config.get("model_type", ""))).integer(
        "num_hidden_layers"
    )
    if kind in _CHANGES:
        return _CHANGES[kind](config, layers, count)
    changed = {**config, "num_hidden_layers": layers + count}
    types = config.get("layer_types")
    if types is not None:
        changed["layer_types"] = [*types[:layers], *(_FULL,) * count]
    elif kind in ("qwen3_next_mtp", "qwen3_5_mtp"):
        step = config.get("full_attention_interval") or 4
        types = [
            "linear_attention" if (layer + 1) % step else _FULL
            for layer in range(layers)
        ]
        changed["layer_types"] = [*types, *(_FULL,) * count]
    return changed


def _mimo_v2(config: Mapping[str, Any], layers: int, count: int) -> dict[str, Any]:
    """Layers with a window and without experts.

    Source: vLLM 0.33.0 `models/mimo_v2_mtp.py` MiMoV2MTPLayer.
    """
    slides, sparse = config.get("hybrid_layer_pattern"), config.get("moe_layer_freq")
    return {
        **config,
        "num_hidden_layers": layers + count,
        "hybrid_layer_pattern": [*_listed(slides, layers), *(1,) * count],
        "moe_layer_freq": [*_listed(sparse, layers), *(0,) * count],
    }


def _ernie(config: Mapping[str, Any], layers: int, count: int) -> dict[str, Any]:
    """Layers like Llama's, without experts.

    Raises:
        UnknownArchitecture: with biases, which Llama's layers name otherwise.

    Source: vLLM 0.33.0 `models/ernie_mtp.py` ErnieMultiTokenPredictorLayer.
    """
    if config.get("use_bias"):
        raise UnknownArchitecture(
            "speculative_config with ernie_mtp and use_bias is not modelled."
        )
    end = config.get("moe_layer_end_index")
    return {
        **config,
        "num_hidden_layers": layers + count,
        "moe_layer_end_index": layers - 1 if end is None else min(end, layers - 1),
    }


def _exaone_moe(config: Mapping[str, Any], layers: int, count: int) -> dict[str, Any]:
    """Layers without experts, whose windows are those of the target's first ones.

    Raises:
        UnknownArchitecture: without the kind of each layer, or with several windows.

    Source: vLLM 0.33.0 `models/exaone_moe.py` ExaoneMoeAttention (is_mtp).
    """
    types = config.get("layer_types")
    if not isinstance(types, list) or config.get("mtp_sliding_windows"):
        raise UnknownArchitecture(
            "speculative_config with exaone_moe_mtp: layer_types and one window for "
            "all layers are modelled."
        )
    own = config.get("mtp_layer_types") or types
    first = config.get("first_k_dense_replace") or 0
    given = config.get("mlp_layer_types") or [
        "sparse" if layer >= first else "dense" for layer in range(layers)
    ]
    return {
        **config,
        "num_hidden_layers": layers + count,
        "layer_types": [*types[:layers], *own[:count]],
        "mlp_layer_types": [*given[:layers], *("dense",) * count],
    }


def _deepseek_v4(config: Mapping[str, Any], layers: int, count: int) -> dict[str, Any]:
    """Layers with a window only, which compress nothing.

    Source: vLLM 0.33.0 `vllm/models/deepseek_v4/nvidia/mtp.py`.
    """
    changed = {**config, "num_hidden_layers": layers + count}
    for name, without in (
        ("compress_ratios", 0),
        ("layer_types", "sliding_attention"),
        ("mlp_layer_types", "moe"),
    ):
        if config.get(name) is not None:
            changed[name] = [*config[name][:layers], *(without,) * count]
    return changed


def _glm5_next(config: Mapping[str, Any], layers: int, count: int) -> dict[str, Any]:
    """Layers of latent attention and experts.

    Source: vLLM 0.33.0 `vllm/models/glm5next/common/mtp.py`.
    """
    changed = {**config, "num_hidden_layers": layers + count}
    types = config.get("layer_types") or [
        "linear_attention" if (layer + 1) % _GLM_FULL_EVERY else _FULL
        for layer in range(layers)
    ]
    changed["layer_types"] = [*types[:layers], *(_FULL,) * count]
    if config.get("mlp_layer_types") is not None:
        kinds = config["mlp_layer_types"][:layers]
        changed["mlp_layer_types"] = [*kinds, *("sparse",) * count]
    return changed


def _minimax_m3(config: Mapping[str, Any], layers: int, count: int) -> dict[str, Any]:
    """Layers of block-sparse attention and experts.

    Source: vLLM 0.33.0 `vllm/models/minimax_m3/nvidia/mtp.py` (force_sparse_attn,
    force_moe).
    """
    changed = {**config, "num_hidden_layers": layers + count}
    name = "moe_layer_freq"
    changed[name] = [*_from_fourth(config.get(name), layers), *(1,) * count]
    sparse = dict(config.get("sparse_attention_config") or {})
    name = "sparse_attention_freq"
    sparse[name] = [*_from_fourth(sparse.get(name), layers), *(1,) * count]
    changed["sparse_attention_config"] = sparse
    return changed


def _from_fourth(given: object, layers: int) -> list[Any]:
    """Return what a config says of each layer; by default all but the first three."""
    if isinstance(given, list):
        return given[:layers]
    return [int(layer >= _M3_DENSE) for layer in range(layers)]


def _listed(given: object, layers: int) -> list[Any]:
    return list(given)[:layers] if isinstance(given, list) else [0] * layers


_CHANGES: Mapping[str, Callable[[Mapping[str, Any], int, int], dict[str, Any]]] = {
    "mimo_v2_mtp": _mimo_v2,
    "ernie_mtp": _ernie,
    "exaone_moe_mtp": _exaone_moe,
    "deepseek_v4_mtp": _deepseek_v4,
    "glm5_next_mtp": _glm5_next,
    "minimax_m3_mtp": _minimax_m3,
}


def with_pattern(config: Mapping[str, Any], count: int) -> tuple[int, dict[str, Any]]:
    """Return Nemotron-H with the layers that its pattern for prediction names.

    Source: vLLM 0.33.0 `models/nemotron_h_mtp.py` NemotronHMultiTokenPredictor.
    """
    own = config.get("mtp_hybrid_override_pattern")
    pattern = config.get("hybrid_override_pattern")
    is_known = isinstance(own, str) and own and set(own) <= set("*E") and count == 1
    if not (is_known and isinstance(pattern, str) and not config.get("layer_types")):
        raise UnknownArchitecture(
            "speculative_config with mtp_hybrid_override_pattern="
            f"{own!r} is not modelled: one head of attention and experts is."
        )
    assert isinstance(own, str)
    return len(own), {**config, "hybrid_override_pattern": pattern + own}
