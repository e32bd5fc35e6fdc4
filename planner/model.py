"""What a model is made of, as vLLM builds it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from planner.layers import Module


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionLayer:
    """The attention of a layer, as far as it keeps a KV cache.

    Source: vLLM 0.33.0 `layers/attention/attention.py` Attention.
    """

    num_heads: int
    num_kv_heads: int
    head_size: int
    sliding_window: int | None = None
    """Tokens that the layer looks back; None: all of them."""
    heeds_kv_cache_dtype: bool = True
    """False where vLLM's class does not hand the cache settings on (Falcon): the KV
    cache then keeps the model's dtype whatever `kv_cache_dtype` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerKind:
    """Decoder layers that are alike."""

    attention: AttentionLayer | None
    """None: no KV cache in these layers."""
    modules: tuple[Module, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeParameters:
    """One set of rotary embedding parameters, as far as lengths depend on it."""

    rope_type: str
    factor: float | None = None


@dataclass(frozen=True, kw_only=True)
class ModelArchitecture:
    """A model as vLLM builds it: its modules per stage and layer, and its limits."""

    name: str
    """As the user called it; stands in the command."""
    architecture: str
    """The entry of config.json's `architectures` that vLLM uses."""
    model_type: str
    config_dtype: str
    """dtype of the published weights, float32 where the config is silent."""
    hidden_size: int
    vocab_size: int
    num_attention_heads: int
    """As the config declares it; vLLM checks it against tensor parallel."""
    num_kv_heads: int
    head_size: int
    max_position_embeddings: float
    """The smallest length key of the config; infinite when it has none."""
    max_len_key: str | None
    """Which key that was."""
    model_max_length: int | None = None
    original_max_position_embeddings: int | None = None
    """LongRoPE's shorter length, which vLLM takes when the user asks for none."""
    rope_parameters: tuple[RopeParameters, ...] = ()
    first_stage: tuple[Module, ...]
    """Modules of the first pipeline stage only: embeddings."""
    last_stage: tuple[Module, ...]
    """Modules of the last pipeline stage only: final norm, LM head."""
    every_stage: tuple[Module, ...] = ()
    """Modules that each stage holds once: rotary caches."""
    tied_embeddings: tuple[Module, ...] = ()
    """Embeddings that the last stage needs as its head when it is not the first."""
    layer_kinds: tuple[LayerKind, ...]
    layers: tuple[int, ...]
    """For each decoder layer its index in `layer_kinds`."""
    num_experts: int = 0
    supports_pp: bool = True
    is_pooling: bool = False
    is_encoder_only: bool = False
    """Attention without a KV cache (BERT and its kin)."""
    float16_refusal: str | None = None
    """vLLM's reason for refusing float16 with this model type."""
    source: str = ""
    is_certain: bool = True

    @cached_property
    def num_hidden_layers(self) -> int:
        """Decoder layers."""
        return len(self.layers)

    @cached_property
    def is_moe(self) -> bool:
        """Whether vLLM counts it among mixture-of-experts models."""
        return self.num_experts > 0

    @cached_property
    def attention_layers(self) -> tuple[AttentionLayer, ...]:
        """Distinct attention layers with a KV cache."""
        kinds = (kind.attention for kind in self.layer_kinds)
        return tuple(dict.fromkeys(layer for layer in kinds if layer is not None))
