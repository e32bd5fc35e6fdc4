"""Nemotron-H and Nemotron 3, and the decoders that a search cut, Llama-Nemotron."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.experts import FusedMoE
from planner.models.families.assembly import Frame, Label, Placement, Reader, assemble
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    attention_shape,
    correction_bias,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.families.mamba_mixers import mamba2
from planner.models.families.rope import rope_cache
from planner.models.layers import (
    ColumnParallelLinear,
    Float32Gate,
    Module,
    Part,
    ReplicatedLinear,
    RowParallelLinear,
)
from planner.models.states import Mamba2State

# Nemotron-H and Nemotron 3: Mamba 2, attention, MLPs or experts, one to a layer.
_LETTERS = {
    "linear_attention": "M",
    "mamba": "M",
    "moe": "E",
    "full_attention": "*",
    "attention": "*",
    "mlp": "-",
}


def read_nemotron_h(facts: Facts, label: Label) -> ModelArchitecture:
    """Read Nemotron-H; embeddings, norm and head are on every stage.

    Source: vLLM 0.33.0 `models/nemotron_h.py` NemotronHForCausalLM; Transformers'
    NemotronHConfig (layer patterns).
    """
    pattern = _pattern(facts)
    layers = (
        _layer(_of_layer(facts, index), pattern, index) for index in range(len(pattern))
    )
    size = facts.integer("hidden_size")
    return assemble(
        facts,
        label,
        Frame(size, placement=Placement.EVERYWHERE, is_tied=False),
        layers,
        num_experts=_most_experts(facts),
        prefix_renames=(("backbone", "model"),),
    )


def _of_layer(facts: Facts, index: int) -> Facts:
    """Return the config of a layer; a puzzle's configs list what differs by layer.

    Raises:
        UnknownArchitecture: when the list is shorter than the layers.

    Source: vLLM 0.33.0 `models/nemotron_h.py` (get_nemotron_h_config_for_layer), of
    the configuration class that such checkpoints bring along.
    """
    given = facts.value("block_configs")
    if not given:
        return facts
    if index >= len(given):
        raise facts.unsupported("block_configs", "an entry for each layer is.")
    return facts.having(**given[index])


def _most_experts(facts: Facts) -> int:
    """Source: vLLM 0.33.0 `transformers_utils/model_arch_config_convertor.py`."""
    own = facts.optional_integer("n_routed_experts")
    given = facts.value("block_configs") or ()
    return own or max((int(b.get("n_routed_experts") or 0) for b in given), default=0)


def _pattern(facts: Facts) -> str:
    """Return each layer's letter: M, E, * or -.

    Raises:
        UnknownArchitecture: for a pattern with anything else.
    """
    listed = facts.value("layers_block_type", "layer_types")
    if listed is not None and set(listed) <= set(_LETTERS):
        return "".join(_LETTERS[kind] for kind in listed)
    pattern = facts.value("hybrid_override_pattern")
    if listed is None and isinstance(pattern, str) and set(pattern) <= set("ME*-"):
        return pattern
    name = "layers_block_type" if listed is not None else "hybrid_override_pattern"
    raise facts.unsupported(name, "Mamba, attention, MLP and expert layers are.")


def _layer(facts: Facts, pattern: str, index: int) -> LayerKind:
    letter, norm = pattern[index], norms(facts.integer("hidden_size"), count=1)
    if letter == "M":
        state = _state(facts)
        return LayerKind((state,), (norm, *_mamba(facts, state)))
    if letter == "*":
        shape, window = attention_shape(facts), facts.optional_integer("sliding_window")
        kept = replace(kv_of(shape), sliding_window=window)
        return LayerKind((kept,), (norm, *attention(shape, name="mixer.")))
    if letter == "E":
        return LayerKind((), (norm, *_experts(facts)))
    size = _intermediate_size(facts, pattern[: index + 1].count("-") - 1)
    mlp = _relu_mlp(facts, size, name="mixer", part=Part.MLP)
    return LayerKind((), (norm, *mlp))


def _state(facts: Facts) -> Mamba2State:
    """Source: vLLM 0.33.0 `models/config.py` NemotronHForCausalLMConfig (its dtype)."""
    num_heads = facts.integer("mamba_num_heads")
    head_dim = facts.integer("mamba_head_dim")
    return Mamba2State(
        intermediate_size=num_heads * head_dim,
        n_groups=facts.integer("mamba_n_groups", "n_groups"),
        num_heads=num_heads,
        head_dim=head_dim,
        state_size=facts.integer("ssm_state_size"),
        conv_kernel=facts.integer("mamba_d_conv", "conv_kernel"),
        recurrent_dtype=str(facts.value("mamba_ssm_cache_dtype") or "float32"),
        has_default_dtype=not facts.value("mamba_ssm_cache_dtype"),
    )


def _mamba(facts: Facts, state: Mamba2State) -> tuple[Module, ...]:
    return mamba2(
        state,
        facts.integer("hidden_size"),
        name="mixer",
        has_conv_bias=facts.flag("mamba_conv_bias", "use_conv_bias"),
        has_bias=facts.flag("use_bias"),
    )


def _intermediate_size(facts: Facts, mlp_index: int) -> int:
    """Return the width of one MLP; some configs list one per MLP layer."""
    sizes = facts.value("intermediate_size")
    if not isinstance(sizes, Sequence):
        return facts.integer("intermediate_size")
    return int(sizes[0] if len(sizes) == 1 else sizes[mlp_index])


def _relu_mlp(
    facts: Facts, intermediate_size: int, *, name: str, part: Part
) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/nemotron_h.py` NemotronHMLP."""
    hidden_size = facts.integer("hidden_size")
    # Shared experts have no biases, whatever the config says of the other MLPs.
    bias = part is Part.MLP and facts.flag("mlp_bias")
    return (
        ColumnParallelLinear(
            f"{name}.up_proj", part, hidden_size, (intermediate_size,), bias=bias
        ),
        RowParallelLinear(
            f"{name}.down_proj", part, intermediate_size, hidden_size, bias=bias
        ),
    )


def _experts(facts: Facts) -> tuple[Module, ...]:
    """Router, shared experts, and routed ones in a narrower space where configured.

    Source: vLLM 0.33.0 `models/nemotron_h.py` NemotronHMoE.
    """
    hidden_size = facts.integer("hidden_size")
    num_experts = facts.integer("n_routed_experts")
    latent = facts.optional_integer("moe_latent_size")
    shared = facts.optional_integer("n_shared_experts") or 0
    width = facts.integer("moe_shared_expert_intermediate_size") * shared
    return (
        Float32Gate(
            name="mixer.gate", num_experts=num_experts, hidden_size=hidden_size
        ),
        correction_bias(num_experts, "mixer.gate.e_score_correction_bias"),
        *(
            _relu_mlp(
                facts, width, name="mixer.shared_experts", part=Part.SHARED_EXPERTS
            )
            if shared
            else ()
        ),
        *(() if latent is None else _latent_projections(facts, latent)),
        FusedMoE(
            name="mixer.experts",
            num_experts=num_experts,
            top_k=facts.integer("num_experts_per_tok"),
            hidden_size=hidden_size if latent is None else latent,
            intermediate_size=facts.integer("moe_intermediate_size"),
            is_renormalized=facts.flag("norm_topk_prob", default=True),
            is_gated=False,
            activation=f"{facts.value('mlp_hidden_act') or 'relu2'}_no_mul",
            shards=("up_proj", "down_proj"),
        ),
    )


def _latent_projections(facts: Facts, latent: int) -> tuple[Module, ...]:
    hidden_size, bias = facts.integer("hidden_size"), facts.flag("mlp_bias")
    return tuple(
        ReplicatedLinear(f"mixer.{name}", Part.EXPERTS, inputs, (outputs,), bias=bias)
        for name, inputs, outputs in (
            ("fc1_latent_proj", hidden_size, latent),
            ("fc2_latent_proj", latent, hidden_size),
        )
    )


# Llama-Nemotron: decoders whose layers a search has cut to different sizes.
def ffn_intermediate_size(ffn_mult: float, hidden_size: int) -> int:
    """Return the width of a feed-forward block from its multiplier.

    Source: vLLM 0.33.0 `models/nemotron_nas.py` _ffn_mult_to_intermediate_size.
    """
    size = int(2 * ffn_mult * hidden_size / 3)
    return -(-size // 256) * 256


def read_deci(facts: Facts, label: Label) -> ModelArchitecture:
    """Return a NAS decoder: each entry of block_configs is a layer.

    Source: vLLM 0.33.0 `models/nemotron_nas.py` DeciLMDecoderLayer.
    """
    blocks = facts.value("block_configs")
    if not isinstance(blocks, list):
        raise facts.unsupported("block_configs", "a list of layers is needed.")
    layers = [_layer_kind(facts, block) for block in blocks]
    size = facts.integer("hidden_size")
    head_size = facts.optional_integer("head_dim") or size // facts.integer(
        "num_attention_heads"
    )
    rope = rope_cache(facts, head_size, default_positions=8192)
    return assemble(facts, label, Frame(size, rope), layers)


def _layer_kind(facts: Facts, block: Mapping[str, Any]) -> LayerKind:
    size = facts.integer("hidden_size")
    attn, ffn = block["attention"], block["ffn"]
    if attn.get("replace_with_linear") or ffn.get("replace_with_linear"):
        raise facts.unsupported("block_configs", "linear replacements are not known.")
    modules: tuple[Module, ...] = ()
    shape = None
    if not attn.get("no_op"):
        shape = _attention(facts, attn)
        modules = (*attention(shape), norms(size, count=1))
    if not ffn.get("no_op"):
        modules = (*modules, *_mlp(facts, ffn), norms(size, count=1))
    return LayerKind((kv_of(shape),) if shape else (), modules)


def _attention(facts: Facts, attn: Mapping[str, Any]) -> AttentionShape:
    size = facts.integer("hidden_size")
    num_heads = facts.integer("num_attention_heads")
    has_bias = facts.flag("attention_bias") or facts.flag("bias")
    return AttentionShape(
        hidden_size=size,
        num_heads=num_heads,
        num_kv_heads=num_heads // int(attn["n_heads_in_group"]),
        head_size=facts.optional_integer("head_dim") or size // num_heads,
        qkv_bias=facts.flag("qkv_bias", default=has_bias),
        output_bias=has_bias,
    )


def _mlp(facts: Facts, ffn: Mapping[str, Any]) -> tuple[Module, ...]:
    size = facts.integer("hidden_size")
    if ffn.get("ffn_mult") is not None:
        width = ffn_intermediate_size(float(ffn["ffn_mult"]), size)
    else:
        width = int(ffn["intermediate_size"])
    return gated_mlp(size, width, bias=facts.flag("mlp_bias"))


READERS: dict[str, Reader] = {
    "NemotronHForCausalLM": read_nemotron_h,
    "NemotronHPuzzleForCausalLM": read_nemotron_h,
    "DeciLMForCausalLM": read_deci,
}
