"""How a decoder differs from Llama: the fields of a row.

`decoders`, `mixtures` and `transformers` hold the rows, by architecture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from planner.models.caches import AttentionLayer
from planner.models.families.assembly import Placement
from planner.models.families.decoder import AttentionShape, ExpertsShape
from planner.models.families.facts import Facts
from planner.models.layers import Module
from planner.values import frozen

Flag = bool | str | tuple[str, ...] | Callable[[Facts], bool]
"""Yes, no, the config field that decides, fields of which one has to, or a rule."""
Built = Callable[[Facts, AttentionShape], tuple[Module, ...]]
"""Builds modules of a model with this attention."""


def is_set(facts: Facts, flag: Flag) -> bool:
    """Return what a flag is for a config."""
    if isinstance(flag, bool):
        return flag
    if isinstance(flag, str):
        return facts.flag(flag)
    if isinstance(flag, tuple):
        return any(facts.flag(name) for name in flag)
    return flag(facts)


def unless_off(name: str) -> Callable[[Facts], bool]:
    """Return a flag that a config field can only turn off."""
    return lambda facts: facts.flag(name, default=True)


@frozen
class Experts:
    """How a mixture of experts differs from Mixtral's.

    A config gives `num_experts`, `num_experts_per_tok` and `moe_intermediate_size`, or
    the style says by which names (`Style.fields`).
    """

    shared: str | Callable[[Facts], int] = ""
    """The field with the number of shared experts, or the width of all together."""
    has_shared_gate: Flag = False
    router_dtype: str | Callable[[Facts], str | None] | None = None
    has_correction_bias: Flag = False
    is_renormalized: Flag = True
    shared_bias: Flag = False
    name: str = "mlp"
    shared_name: str = "shared_experts"
    is_router_quantizable: bool = False
    shards: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj")


def experts_shape(facts: Facts, rule: Experts) -> ExpertsShape:
    """Return the dimensions of a block of experts."""
    width = facts.integer("moe_intermediate_size")
    if isinstance(rule.shared, str):
        count = facts.optional_integer(rule.shared) if rule.shared else 0
        shared = width * (count or 0)
    else:
        shared = rule.shared(facts)
    dtype = rule.router_dtype
    return ExpertsShape(
        hidden_size=facts.integer("hidden_size"),
        num_experts=facts.integer("num_experts"),
        top_k=facts.integer("num_experts_per_tok"),
        intermediate_size=width,
        shared_intermediate_size=shared,
        has_shared_gate=is_set(facts, rule.has_shared_gate),
        router_dtype=dtype(facts) if callable(dtype) else dtype,
        has_correction_bias=is_set(facts, rule.has_correction_bias),
        is_renormalized=is_set(facts, rule.is_renormalized),
        shared_bias=is_set(facts, rule.shared_bias),
        name=rule.name,
        shared_name=rule.shared_name,
        is_router_quantizable=rule.is_router_quantizable,
        shards=rule.shards,
    )


@frozen
class Style:
    """How a decoder differs from Llama."""

    defaults: Mapping[str, object] | None = None
    """Of vLLM's own configuration class."""
    fields: Mapping[str, object] = field(default_factory=dict)
    """What stands for a usual field of the config: the name or names it has here, a
    rule over the config, or a constant."""
    qkv_bias: Flag = False
    output_bias: Flag = False
    mlp_bias: Flag = False
    is_gated: bool = True
    norm_count: int | Callable[[Facts], int] = 2
    norm_bias: bool = False
    qk_norm: Flag = False
    """One norm over each head's dimensions for query and key."""
    is_qk_norm_wide: bool = False
    """The query/key norm covers all heads at once."""
    is_qk_norm_per_rank: bool = False
    """It covers all heads at once, and a rank holds its own heads of it."""
    heads: Callable[[Facts, AttentionShape], AttentionShape] | None = None
    """What else the attention has of its own."""
    cache: Callable[[Facts, AttentionLayer], AttentionLayer] | None = None
    """What else a layer's cache has of its own."""
    is_transformers_backend: bool = False
    """vLLM has no class of its own and wraps Transformers' model."""
    placement: Placement = Placement.BY_STAGE
    has_layer_windows: bool = False
    """vLLM's class gives each layer its own window."""
    extra_window_tokens: int = 0
    """What the class adds to sliding_window."""
    windows: Callable[[Facts, int], Sequence[int | None]] | None = None
    """The window of each of so many layers, where the rules above do not say."""
    has_local_rope: bool = False
    """Layers with a window have rotary embeddings of their own."""
    rope: Built | None = None
    """The rotary tables, where they are not the usual one, and other buffers."""
    rotary_dim: Callable[[Facts, int], int | None] | None = None
    """How much of a head of this size is rotated, where the class says."""
    mrope_positions_factor: int = 4
    """By how much rotary caches grow when images and videos have positions."""
    attention: Built | None = None
    """The modules of the attention, where they are not the usual ones."""
    mlp: Built | None = None
    """A plain layer's MLP, where it is not the usual one."""
    own: Built | None = None
    """What else a layer has."""
    experts: Experts | None = None
    """Of the layers that `is_sparse`."""
    is_sparse: Callable[[Facts, int], bool] = lambda _facts, _layer: True
    """Whether a layer holds experts rather than a plain MLP."""
    extra_embeddings: Built | None = None
    """Learned positions and the like."""
    has_final_norm: Flag = True
    lm_head_bias: bool = False
    is_head_quantizable: bool = True

    def as_usual(self, facts: Facts) -> Facts:
        """Return the config with its fields called as usual."""
        names: dict[str, tuple[str, ...]] = {}
        given: dict[str, object] = {}
        for name, here in self.fields.items():
            if isinstance(here, str):
                names[name] = (here,)
            elif isinstance(here, tuple):
                names[name] = here
            else:
                given[name] = here(facts) if callable(here) else here
        return facts.called(names, given)


def no_rope(_facts: Facts, _shape: AttentionShape) -> tuple[Module, ...]:
    """Return the rotary tables of a model without any."""
    return ()
