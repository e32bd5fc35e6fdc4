"""The interface of quantisation methods, and what they read a checkpoint's config with.

A method's reader takes `quantization_config`, an untyped mapping, and a `Context`; it
returns a `QuantizationConfig`, which answers for each `Place` (layer) how it is held.

Source: vLLM 0.33.0 `layers/quantization/base_config.py` QuantizationConfig.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from planner.engine.releases.change import RefusedSince
from planner.errors import Refused, UnknownArchitecture
from planner.models.files import ModelFiles
from planner.models.tensors import ExpertsMethod, LinearMethod
from planner.values import frozen

_FLOATS = ("F16", "BF16", "F32")


@frozen
class Place:
    """A layer, by vLLM's names."""

    prefix: str
    """In full, such as "model.layers.3.self_attn.qkv_proj"."""
    shards: tuple[str, ...] = ()
    """Last parts of the names of the checkpoint's layers that vLLM packs into this one,
    such as q_proj, k_proj and v_proj; empty: nothing is packed."""
    projections: tuple[str, ...] = ()
    """Of routed experts: the checkpoint's names of an expert's own layers."""

    @property
    def projection_prefixes(self) -> tuple[str, ...]:
        """The full names of the first expert's layers, which some configs match."""
        return tuple(f"{self.prefix}.0.{name}" for name in self.projections)

    @property
    def shard_prefixes(self) -> tuple[str, ...]:
        """The full names of the layers packed in it, or its own."""
        if not self.shards:
            return (self.prefix,)
        parent = self.prefix.rpartition(".")[0]
        return tuple(f"{parent}.{shard}" if parent else shard for shard in self.shards)


@frozen
class QuantizationConfig:
    """A quantisation method with its settings, as read from a checkpoint.

    This base of the methods leaves every layer in the model's dtype.
    """

    name: str
    """vLLM's name of the method, which `resolved.quantization` shows."""
    kv_cache_dtype: str | None = None
    """What the engine argument kv_cache_dtype "auto" becomes; None: unchanged."""
    has_kv_scales: bool = False
    """Whether attention layers load scales, which fp8_e5m2 caches cannot use."""
    refused_later: RefusedSince | None = None
    """Later releases' refusal of what earlier ones took; None: no release's."""
    forces_eager: bool = False
    """Whether vLLM runs such a checkpoint without CUDA graphs only."""

    def linear(self, place: Place) -> LinearMethod | None:
        """Return how a linear layer is held; None leaves it in the model's dtype."""
        return None

    def experts(self, place: Place) -> ExpertsMethod | None:
        """Return how a block of routed experts is held; None as above."""
        return None

    def head(self, place: Place) -> LinearMethod | None:
        """Return how the LM head is held; None as above."""
        return None

    def embedding(self, place: Place) -> LinearMethod | None:
        """Return how word embeddings are held; None as above."""
        return None


_LEFT_PARTS = (
    *("linear_attn", "mamba", "conv", "short_conv"),
    *("visual", "vision", "vision_tower", "vision_model", "audio_tower"),
    *("multi_modal_projector", "mm_projector"),
)
"""Parts of names of recurrent layers and encoders."""
_ROUTERS = ("gate", "router", "shared_expert_gate")
"""Last parts of the names of layers that choose experts."""


@frozen
class Usual(QuantizationConfig):
    """A method with what published checkpoints usually leave in 16 bits.

    Left are embeddings, the LM head, routers, recurrent layers and encoders. Publishers
    differ: some leave attention as well, and some quantise recurrent layers.
    """

    config: QuantizationConfig

    def linear(self, place: Place) -> LinearMethod | None:
        """Quantise a linear layer that is not usually left."""
        parts = place.prefix.split(".")
        is_left = parts[-1] in _ROUTERS or any(part in _LEFT_PARTS for part in parts)
        return None if is_left else self.config.linear(place)

    def experts(self, place: Place) -> ExpertsMethod | None:
        """Quantise routed experts as the method does."""
        return self.config.experts(place)


@frozen
class Context:
    """The model that a quantisation config belongs to."""

    model_type: str = ""
    """Of config.json."""
    text_model_type: str = ""
    """Of its language model; the same for a model of text only."""
    prefix_renames: tuple[tuple[str, str], ...] = ()
    """Beginnings of names in the checkpoint, and what vLLM's class calls them."""
    files: ModelFiles | None = None
    """None for a model that was not read from files."""

    def vllm_name(self, name: str) -> str:
        """Return vLLM's name of a checkpoint's layer.

        Source: vLLM 0.33.0 `models/utils.py` WeightsMapper: prefixes in order, each
        at most once.
        """
        for old, new in self.prefix_renames:
            if name.startswith(old):
                name = name.replace(old, new, 1)
        return name

    def vllm_names(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return vLLM's names of several layers."""
        return tuple(self.vllm_name(name) for name in names)

    def quantised_layers(self) -> frozenset[str]:
        """Return layers that hold more than floats, where headers are available.

        Source: vLLM 0.33.0 `layers/quantization/auto_gptq.py` maybe_update_config.
        """
        return frozenset(
            name.rpartition(".")[0]
            for name, dtype in self._tensors()
            if dtype not in _FLOATS
        )

    def plain_layers(self) -> frozenset[str]:
        """Return layers that hold floats only, where headers are available.

        Source: vLLM 0.33.0 `layers/quantization/auto_awq.py` maybe_update_config.
        """
        every = frozenset(name.rpartition(".")[0] for name, _ in self._tensors())
        return every - self.quantised_layers()

    def _tensors(self) -> tuple[tuple[str, str], ...]:
        shapes = self.files.tensor_shapes if self.files is not None else {}
        return tuple((name, dtype) for name, (dtype, _) in shapes.items())


def required(given: Mapping[str, Any], *keys: str) -> Any:  # noqa: ANN401 - border
    """Return the first of the keys that is there.

    Raises:
        Refused: when none is.

    Source: vLLM 0.33.0 `layers/quantization/base_config.py` get_from_keys.
    """
    for key in keys:
        if key in given:
            return given[key]
    raise Refused(
        f"Cannot find any of {list(keys)} in the model's quantization config."
    )


def given_integer(given: Mapping[str, Any], *keys: str) -> int:
    """Return a whole number that must be there.

    Raises:
        Refused: when it is missing.
        UnknownArchitecture: when it is something else.
    """
    value = required(given, *keys)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UnknownArchitecture(
            f"quantization_config.{keys[0]} is {value!r}, a whole number is needed."
        )
    return value


def flag(given: Mapping[str, Any], key: str) -> bool:
    """Return a yes or no, no where it is missing."""
    return bool(given.get(key))


def listed(given: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return a list of names, empty where it is missing.

    Raises:
        UnknownArchitecture: when it holds something else.
    """
    value = given.get(key) or []
    if not isinstance(value, list) or not all(isinstance(n, str) for n in value):
        raise UnknownArchitecture(
            f"quantization_config.{key} is {value!r}, a list of names is needed."
        )
    return tuple(value)
