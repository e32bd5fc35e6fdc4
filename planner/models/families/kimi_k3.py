"""Kimi-Linear and Kimi-K3: Kimi delta attention, latent attention in some layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from planner.engine.layout import ParallelLayout
from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.experts import FusedMoE
from planner.models.families.assembly import Frame, Label, Reader, assemble
from planner.models.families.composite import (
    Tie,
    composed,
    sub_config,
    text_facts,
)
from planner.models.families.decoder import correction_bias, gated_mlp, norms
from planner.models.families.delta_attention import (
    FusedDecodeCopies,
    PartlyDividedLinear,
    delta_parameters,
)
from planner.models.families.facts import Facts, own_defaults
from planner.models.families.mla import (
    LatentShape,
    declared_heads,
    latent_attention,
    latent_shape,
    mla_layer,
)
from planner.models.families.moonvit import RENAMES
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    ReplicatedLinear,
    RowParallelLinear,
)
from planner.models.states import KimiDeltaAttentionState
from planner.models.tensors import ServedExperts, Tensors
from planner.values import frozen

# Kimi-K3's vision tower: MoonViT without biases, its heads wider than its states.
_TOWER_DEFAULTS = own_defaults("KimiK3VisionConfig")


def kimi_k3_tower(facts: Facts, text_size: int) -> Tower:
    """Return the tower with its projector.

    Ranks that do not divide its heads hold it in full.

    Raises:
        UnknownArchitecture: for a projector of another kind.

    Source: vLLM 0.33.0 `models/kimi_k25_vit.py` MoonViT3dPretrainedModel,
    KimiK25MultiModalProjector; `transformers_utils/configs/kimi_k3.py`.
    """
    facts = Facts(facts.config, facts.model_type, _TOWER_DEFAULTS)
    if facts.value("mm_projector_type") != "patchmergerv2":
        raise facts.unsupported("mm_projector_type", "patchmergerv2 is.")
    size, heads = facts.integers("vt_hidden_size", "vt_num_attention_heads")
    return Tower(
        IMAGE,
        (*_encoder(facts, "vision_tower"), *_projector(facts, size, text_size)),
        rotates_in_fp32=True,
        supports_data_parallel=True,
        whole_unless_heads_divide=heads,
    )


def _encoder(facts: Facts, name: str) -> Iterator[Module]:
    size, patch, depth = facts.integers(
        "vt_hidden_size", "patch_size", "vt_num_hidden_layers"
    )
    norm_bias = facts.value("norm_type") != "rmsnorm"
    embedding, has_bias = f"{name}.patch_embed", facts.flag("patch_embed_proj_bias")
    high, wide, long = facts.integers(
        "init_pos_emb_height", "init_pos_emb_width", "init_pos_emb_time"
    )
    yield blocks.convolution(f"{embedding}.proj", size, 3, patch, patch, bias=has_bias)
    yield blocks.replicated(f"{embedding}.pos_emb", (high, wide, size))
    times = f"{embedding}.pos_emb.time_weight"
    yield blocks.replicated(times, (long, size), dtype="float32")
    yield blocks.norms(f"{name}.encoder.final_layernorm", size, bias=norm_bias)
    block = _block(facts, size, norm_bias=norm_bias)
    yield from blocks.repeated(f"{name}.encoder.blocks", depth, *block)


def _block(facts: Facts, size: int, *, norm_bias: bool) -> Iterator[Module]:
    wide, mlp_size, heads = facts.integers(
        "qkv_hidden_size", "vt_intermediate_size", "vt_num_attention_heads"
    )
    has_bias, linear_bias = facts.flag("attn_bias"), facts.flag("linear_bias")
    qkv = replace(
        blocks.qkv("wqkv", size, heads, bias=has_bias), head_size=wide // heads
    )
    yield blocks.norms("norm", size, count=2, bias=norm_bias)
    yield qkv
    yield blocks.row("wo", wide, size, bias=has_bias)
    yield blocks.column("mlp.fc0", size, mlp_size, bias=linear_bias)
    yield blocks.row("mlp.fc1", mlp_size, size, bias=linear_bias)


def _projector(facts: Facts, size: int, text_size: int) -> tuple[Module, ...]:
    rows, columns = facts.pair("merge_kernel_size")
    merged = size * rows * columns
    return (
        blocks.whole("mm_projector.linear_1", merged, merged, bias=False),
        blocks.whole("mm_projector.linear_2", merged, text_size, bias=False),
        blocks.norms("mm_projector.post_norm", text_size, bias=False),
    )


_LEAST_COLUMNS = 256
_KIMI_K3_DEFAULTS = own_defaults("KimiLinearConfig")


@frozen
class WidenedExperts(FusedMoE):
    """Experts of which a rank holds at least this many columns, padded with zeros.

    Source: vLLM 0.33.0 `models/kimi_k3/nvidia/model.py` KimiMoE.
    """

    least_columns: int = _LEAST_COLUMNS

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return weights and scales on a rank."""
        return FusedMoE.tensors(self._widened(layout), layout)

    def served(self, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts on a rank, and its sizes."""
        return FusedMoE.served(self._widened(layout), layout)

    def _widened(self, layout: ParallelLayout) -> FusedMoE:
        ranks = layout.tensor_parallel_size
        columns = self.intermediate_size // ranks
        is_cut = ranks > 1 and not layout.enable_expert_parallel
        if not is_cut or columns >= self.least_columns:
            return self
        return replace(self, intermediate_size=self.least_columns * ranks)


def read_kimi_linear(facts: Facts, label: Label) -> ModelArchitecture:
    """Read Kimi-Linear, also as the language model of Kimi-K3.

    Raises:
        UnknownArchitecture: for latent attention with rotated positions.

    Source: vLLM 0.33.0 `models/kimi_k3/nvidia/model.py` KimiLinearModel.
    """
    facts = Facts(facts.config, facts.model_type, _KIMI_K3_DEFAULTS)
    if not facts.flag("mla_use_nope"):
        raise facts.unsupported("mla_use_nope", "its class needs it.")
    shape = latent_shape(facts)
    has_residuals = facts.optional_integer("attn_res_block_size") is not None
    layers = range(facts.integer("num_hidden_layers"))
    mixed = _mixing("output_attn_res", shape.hidden_size) if has_residuals else ()
    return assemble(
        facts,
        label,
        Frame(
            shape.hidden_size,
            final_norm=(norms(shape.hidden_size, count=1), *mixed),
            is_tied=False,
        ),
        (_layer(facts, shape, layer) for layer in layers),
        **declared_heads(facts, shape),
    )


def read_kimi_k3(facts: Facts, label: Label) -> ModelArchitecture:
    """Read Kimi-K3 with its vision tower.

    Source: vLLM 0.33.0 `models/kimi_k3/nvidia/model.py` KimiK3ForConditionalGeneration.
    """
    model = read_kimi_linear(text_facts(facts, "kimi_linear", tie=Tie.INNER), label)
    vision = sub_config(facts, "vision_config", "kimi_k3_vision")
    tower = kimi_k3_tower(vision, model.hidden_size)
    return composed(facts, label, model, tower, renames=RENAMES)


def _layer(facts: Facts, shape: LatentShape, layer: int) -> LayerKind:
    linear = facts.mapping("linear_attn_config")
    is_linear = layer + 1 in (linear.get("kda_layers") or ())
    attention = (
        delta_attention(linear, shape.hidden_size)
        if is_linear
        else _latent_attention(shape, has_gate=facts.flag("mla_use_output_gate"))
    )
    residuals: tuple[Module, ...] = ()
    if facts.optional_integer("attn_res_block_size") is not None:
        residuals = (
            *_mixing("self_attention_res", shape.hidden_size),
            *_mixing("mlp_res", shape.hidden_size),
        )
    mlp = (
        _experts(facts)
        if _is_sparse(facts, layer)
        else gated_mlp(shape.hidden_size, facts.integer("intermediate_size"))
    )
    return LayerKind(
        (delta_state(linear) if is_linear else mla_layer(shape),),
        (*attention, norms(shape.hidden_size), *residuals, *mlp),
    )


def _is_sparse(facts: Facts, layer: int) -> bool:
    if facts.optional_integer("num_experts") is None:
        return False
    first, every = (
        facts.integer("first_k_dense_replace"),
        facts.integer("moe_layer_freq"),
    )
    return layer >= first and layer % every == 0


def delta_state(linear: Mapping[str, Any]) -> KimiDeltaAttentionState:
    """Return what a linear layer keeps; only Kimi-K3's class requests FlashKDA."""
    is_k3 = bool(linear.get("use_full_rank_gate"))
    return KimiDeltaAttentionState(
        num_heads=linear["num_heads"],
        head_dim=linear["head_dim"],
        conv_kernel=linear["short_conv_kernel_size"],
        may_use_flash_kda=is_k3 and linear.get("gate_lower_bound") is not None,
    )


def delta_attention(
    linear: Mapping[str, Any], hidden: int, name: str = "self_attn"
) -> tuple[Module, ...]:
    """Return a linear layer's modules; Kimi-K3 projects its gate in one step.

    Source: vLLM 0.33.0 `models/kimi_k3/nvidia/kda.py` KimiK3DeltaAttention;
    `layers/mamba/gdn/kimi_gdn_linear_attn.py` KimiGatedDeltaNetAttention.
    """
    heads, size = int(linear["num_heads"]), int(linear["head_dim"])
    kernel, width = int(linear["short_conv_kernel_size"]), heads * size
    is_k3 = bool(linear.get("use_full_rank_gate"))
    gate: tuple[Module, ...] = (
        FusedDecodeCopies(
            name=f"{name}.decode", num_heads=heads, head_size=size, kernel=kernel
        ),
    )
    if not is_k3:
        gate = (
            ReplicatedLinear(f"{name}.g_a_proj", Part.MIXERS, hidden, (size,)),
            ColumnParallelLinear(f"{name}.g_b_proj", Part.MIXERS, size, (width,)),
        )
    return (
        PartlyDividedLinear(
            f"{name}.in_proj_qkvgfab",
            Part.MIXERS,
            hidden,
            (width,) * (4 if is_k3 else 3) + (heads,),
            (size,),
            row_multiple=16 if is_k3 else 1,
        ),
        ColumnParallelLinear(f"{name}.f_b_proj", Part.MIXERS, size, (width,)),
        *gate,
        *delta_parameters(name, heads, (3 * width, kernel), head_size=size),
        RowParallelLinear(f"{name}.o_proj", Part.MIXERS, width, hidden),
    )


def _latent_attention(shape: LatentShape, *, has_gate: bool) -> tuple[Module, ...]:
    """Return a latent layer's modules, with the gate of its output.

    Source: vLLM 0.33.0 `models/kimi_k3/nvidia/mla.py` MultiHeadLatentAttention.
    """
    scales = Replicated(
        "self_attn.scales", Part.BUFFERS, ((1,), (1,), (1,)), dtype="float32"
    )
    modules = (*latent_attention(shape), scales)
    if not has_gate:
        return modules
    gate = shape.num_heads * shape.v_head_dim
    if shape.q_lora_rank is None:
        separate = ColumnParallelLinear(
            "self_attn.g_proj", Part.ATTENTION, shape.hidden_size, (gate,)
        )
        return (*modules, separate)
    fused = PartlyDividedLinear(
        "self_attn.fused_qkv_a_g_proj",
        Part.ATTENTION,
        shape.hidden_size,
        (gate,),
        (shape.q_lora_rank, shape.kept_size),
    )
    return tuple(
        fused if module.name == "self_attn.fused_qkv_a_proj" else module
        for module in modules
    )


def _mixing(name: str, hidden_size: int) -> tuple[Module, ...]:
    """Return what weighs the residuals of earlier layers: a norm and one row."""
    return (Replicated(name, Part.NORMS, ((hidden_size,), (1, hidden_size))),)


def _experts(facts: Facts) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/kimi_k3/nvidia/model.py` KimiMoE."""
    hidden, count = facts.integer("hidden_size"), facts.integer("num_experts")
    size, latent = (
        facts.integer("moe_intermediate_size"),
        facts.optional_integer("routed_expert_hidden_size"),
    )
    name = "block_sparse_moe"
    modules: list[Module] = [
        ReplicatedLinear(
            f"{name}.gate", Part.ROUTER, hidden, (count,), is_quantizable=False
        ),
        correction_bias(count, f"{name}.gate.e_score_correction_bias"),
        WidenedExperts(
            name=f"{name}.experts",
            num_experts=count,
            top_k=facts.integer("num_experts_per_token"),
            hidden_size=latent or hidden,
            intermediate_size=size,
            is_renormalized=facts.flag("moe_renormalize"),
            activation=facts.value("hidden_act"),
            least_columns=facts.integer(
                "min_moe_intermediate_per_partition", default=_LEAST_COLUMNS
            ),
        ),
    ]
    if latent is not None:
        modules += (
            ReplicatedLinear(
                f"{name}.routed_expert_down_proj", Part.EXPERTS, hidden, (latent,)
            ),
            ReplicatedLinear(
                f"{name}.routed_expert_up_proj", Part.EXPERTS, latent, (hidden,)
            ),
        )
        if facts.flag("latent_moe_use_norm"):
            modules.append(
                Replicated(f"{name}.routed_expert_norm", Part.NORMS, ((latent,),))
            )
    shared = size * (facts.optional_integer("num_shared_experts") or 0)
    if shared:
        modules += gated_mlp(
            hidden, shared, part=Part.SHARED_EXPERTS, name=f"{name}.shared_experts"
        )
    return tuple(modules)


READERS: dict[str, Reader] = {
    "KimiLinearForCausalLM": read_kimi_linear,
    "KimiK3ForConditionalGeneration": read_kimi_k3,
}
