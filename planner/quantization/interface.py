"""What a quantisation method has to answer.

Source: vLLM 0.33.0 `layers/quantization/base_config.py` QuantizationConfig.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from planner.tensors import ExpertsMethod, LinearMethod


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which layer is asked about, by vLLM's names."""

    prefix: str
    """In full, such as "model.layers.3.self_attn.qkv_proj"."""
    shards: tuple[str, ...] = ()
    """Last parts of the names of the checkpoint's layers that are packed in it, such as
    q_proj, k_proj and v_proj; empty: it is its own."""
    projections: tuple[str, ...] = ()
    """Of routed experts: the checkpoint's names of an expert's own layers."""

    @property
    def projection_prefixes(self) -> tuple[str, ...]:
        """The full names of the first expert's layers, by which some configs choose."""
        return tuple(f"{self.prefix}.0.{name}" for name in self.projections)

    @property
    def shard_prefixes(self) -> tuple[str, ...]:
        """The full names of the layers packed in it, or its own."""
        if not self.shards:
            return (self.prefix,)
        parent = self.prefix.rpartition(".")[0]
        return tuple(f"{parent}.{shard}" if parent else shard for shard in self.shards)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseConfig:
    """A method that leaves everything as it is: what a method does not say.

    Source: vLLM 0.33.0 `layers/quantization/base_config.py` QuantizationConfig.
    """

    name: str
    kv_cache_dtype: str | None = None
    has_kv_scales: bool = False

    def linear(self, place: Place) -> LinearMethod | None:  # noqa: ARG002
        """Leave a linear layer in the model's dtype."""
        return None

    def experts(self, place: Place) -> ExpertsMethod | None:  # noqa: ARG002
        """Leave routed experts in the model's dtype."""
        return None

    def head(self, place: Place) -> LinearMethod | None:  # noqa: ARG002
        """Leave the LM head in the model's dtype."""
        return None

    def embedding(self, place: Place) -> LinearMethod | None:  # noqa: ARG002
        """Leave word embeddings in the model's dtype."""
        return None


class QuantizationConfig(Protocol):
    """A quantisation method with its settings, as read from a checkpoint."""

    @property
    def name(self) -> str:
        """vLLM's name of the method, which `resolved.quantization` shows."""
        ...

    @property
    def kv_cache_dtype(self) -> str | None:
        """What the engine argument kv_cache_dtype "auto" becomes; None: it stays."""
        ...

    @property
    def has_kv_scales(self) -> bool:
        """Whether attention layers load scales, which fp8_e5m2 caches cannot use."""
        ...

    def linear(self, place: Place) -> LinearMethod | None:
        """Return how a linear layer is held; None leaves it in the model's dtype."""
        ...

    def experts(self, place: Place) -> ExpertsMethod | None:
        """Return how a block of routed experts is held; None as above."""
        ...

    def head(self, place: Place) -> LinearMethod | None:
        """Return how the LM head is held; None as above."""
        ...

    def embedding(self, place: Place) -> LinearMethod | None:
        """Return how word embeddings are held; None as above."""
        ...
