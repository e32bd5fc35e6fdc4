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

    @property
    def shard_prefixes(self) -> tuple[str, ...]:
        """The full names of the layers packed in it, or its own."""
        if not self.shards:
            return (self.prefix,)
        parent = self.prefix.rpartition(".")[0]
        return tuple(f"{parent}.{shard}" if parent else shard for shard in self.shards)


class QuantizationConfig(Protocol):
    """A quantisation method with its settings, as read from a checkpoint."""

    @property
    def name(self) -> str:
        """vLLM's name of the method, which `resolved.quantization` shows."""
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
