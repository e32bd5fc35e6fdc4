"""In which order vLLM's classes register the parameters of a decoder layer.

The planner's modules stand in that order for plain layers. Classes with experts put
the norms behind them. Each entry was compared, parameter by parameter, with what the
classes of vLLM 0.33.0 build; classes that are not listed are not guessed.

Source: vLLM 0.33.0 `model_executor/models/`, the __init__ of each decoder layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.layers import Module
from planner.releases import Release

_ALWAYS = (0, 9, 2)
_COMPARED = (0, 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The order of one class, from a release on."""

    names: tuple[str, ...] = ()
    """What the names of modules begin with, in order; empty: as they stand."""
    since: tuple[int, ...] = _COMPARED

    def sorted(self, modules: tuple[Module, ...]) -> tuple[Module, ...]:
        """Return modules as the class registers them."""
        return tuple(sorted(modules, key=self._place)) if self.names else modules

    def _place(self, module: Module) -> int:
        found = (
            place
            for place, name in enumerate(self.names)
            if module.name == name or module.name.startswith(f"{name}.")
        )
        return next(found, len(self.names))


_AS_THEY_STAND = Order()
_LONG_KNOWN = Order(since=_ALWAYS)
_EXPERTS = Order(names=("self_attn", "mlp.gate", "mlp.experts", "mlp"))
_BLOCK_EXPERTS = Order(
    names=("self_attn", "block_sparse_moe.gate", "block_sparse_moe.experts")
)
_DELTA_ATTENTION = ("linear_attn.dt_bias", "linear_attn.A_log", "linear_attn")
_SHARED_EXPERT = Order(
    names=(
        *("self_attn", "mlp.gate", "mlp.shared_expert_gate"),
        *("mlp.shared_expert", "mlp.experts", "mlp"),
    )
)
_LATENT = Order(
    names=(
        *("self_attn.kv_a_proj_with_mqa", "self_attn.q_proj", "self_attn.layernorm"),
        *("self_attn.kv_b_proj", "self_attn.o_proj", "self_attn", "mlp.gate"),
        *("mlp.shared_experts", "mlp.experts", "mlp"),
    ),
    since=(0, 33),
)

ORDERS: Mapping[str, Order] = {
    **dict.fromkeys(
        (
            "GemmaForCausalLM",
            "GraniteForCausalLM",
            "LlamaForCausalLM",
            "MistralForCausalLM",
            "Phi3ForCausalLM",
            "Qwen2ForCausalLM",
            "Qwen3ForCausalLM",
        ),
        _LONG_KNOWN,
    ),
    **dict.fromkeys(
        (
            "Gemma2ForCausalLM",
            "Gemma3ForCausalLM",
            "Gemma3ForConditionalGeneration",
            "Mistral3ForConditionalGeneration",
            "Qwen2AudioForConditionalGeneration",
            "Qwen2VLForConditionalGeneration",
            "Qwen2_5_VLForConditionalGeneration",
            "Qwen3VLForConditionalGeneration",
        ),
        _AS_THEY_STAND,
    ),
    "DeepseekV2ForCausalLM": _LATENT,
    "Llama4ForConditionalGeneration": Order(
        names=(
            *("self_attn", "feed_forward.router", "feed_forward.shared_expert"),
            *("feed_forward.experts", "feed_forward"),
        )
    ),
    "MixtralForCausalLM": _BLOCK_EXPERTS,
    "PhiMoEForCausalLM": _BLOCK_EXPERTS,
    "Qwen2MoeForCausalLM": _SHARED_EXPERT,
    "Qwen3MoeForCausalLM": _EXPERTS,
    "Qwen3VLMoeForConditionalGeneration": _EXPERTS,
    "Qwen3_5ForConditionalGeneration": Order(
        names=(*_DELTA_ATTENTION, "self_attn", "mlp")
    ),
    "Qwen3_5MoeForConditionalGeneration": Order(
        names=(*_DELTA_ATTENTION, *_SHARED_EXPERT.names)
    ),
}
"""By architecture."""


def order_of(architecture: str, release: Release) -> Order | None:
    """Return the order of an architecture's layers in a release; None: not known."""
    order = ORDERS.get(architecture)
    return order if order is not None and release.since(*order.since) else None
