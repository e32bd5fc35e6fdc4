"""Ling 3: Kimi delta attention, with latent attention at the end of each group."""

from __future__ import annotations

from dataclasses import replace

from planner.engine.layout import ParallelLayout
from planner.errors import Refused
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Frame, Label, assemble
from planner.models.families.bailing_moe_linear import linear_head_size
from planner.models.families.decoder import ExpertsShape, experts, gated_mlp, norms
from planner.models.families.deepseek_v4 import WholeBlocks
from planner.models.families.facts import Facts
from planner.models.families.mla import (
    LatentShape,
    declared_heads,
    latent_attention,
    latent_shape,
    mla_layer,
)
from planner.models.families.multimodal import composed, sub_config, text_facts
from planner.models.families.rope import rope_cache
from planner.models.families.towers import blocks
from planner.models.families.towers.qwen_vl import qwen3_vl_tower
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    Replicated,
    RowParallelLinear,
    Sharded,
)
from planner.models.quantization.fp8 import Fp8BlockLinear
from planner.models.states import KimiDeltaAttentionState
from planner.values import frozen


def read_bailing_v3(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Ling 3. Source: vLLM 0.33.0 `models/bailing_moe_v3.py`."""
    if not facts.flag("no_kda_lora"):
        raise Refused("BailingMoeV3 KDA currently expects no_kda_lora=True")
    shape = latent_shape(facts)
    size, num_layers = shape.hidden_size, facts.integer("num_hidden_layers")
    group = facts.integer("layer_group_size")
    state = KimiDeltaAttentionState(
        num_heads=shape.num_heads,
        head_dim=linear_head_size(facts),
        conv_kernel=facts.integer("short_conv_kernel_size"),
    )
    linear = ((state,), _delta_attention(state, size))
    latent = ((mla_layer(shape),), _latent(facts, shape))
    has_bias, first = facts.flag("use_bias"), facts.integer("first_k_dense_replace")
    dense = gated_mlp(size, facts.integer("intermediate_size"), bias=has_bias)
    sparse = _experts(facts)

    def layer(index: int) -> LayerKind:
        is_last = (index + 1) % group == 0 or index >= num_layers // group * group
        caches, modules = latent if is_last else linear
        mlp = dense if index < first else sparse
        return LayerKind(caches, (*modules, norms(size), *mlp))

    rope = rope_cache(
        facts,
        shape.qk_rope_head_dim,
        default_positions=8192,
    )
    frame = Frame(size, rope, is_tied=False)
    return assemble(
        facts,
        label,
        frame,
        map(layer, range(num_layers)),
        **declared_heads(facts, shape),
    )


def _latent(facts: Facts, shape: LatentShape) -> tuple[Module, ...]:
    gate = facts.value("gated_attention_proj_granularity_type")
    columns = {
        "head_wise": shape.num_heads,
        "element_wise": shape.num_heads * shape.v_head_dim,
    }.get(gate)
    modules = latent_attention(shape)
    if columns is None:
        return modules
    return (*modules, _column("self_attn.g_proj", shape.hidden_size, columns))


def _column(name: str, input_size: int, *output_sizes: int) -> ColumnParallelLinear:
    return ColumnParallelLinear(name, Part.MIXERS, input_size, output_sizes)


def _delta_attention(state: KimiDeltaAttentionState, hidden: int) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/bailing_moe_v3.py` BailingMoeV3KimiDeltaAttention."""
    heads, size = state.num_heads, state.head_dim
    wide, kernel = heads * size, state.conv_kernel
    return (
        _column("self_attn.qkvb_proj", hidden, wide, wide, wide, heads),
        _column("self_attn.f_proj", hidden, wide),
        _column("self_attn.g_proj", hidden, wide),
        Sharded(
            "self_attn.dt_bias",
            Part.MIXERS,
            ((wide,), (heads,), *((wide, kernel),) * 3),
            dtype="float32",
        ),
        Replicated("self_attn.o_norm", Part.NORMS, ((size,),)),
        RowParallelLinear("self_attn.o_proj", Part.MIXERS, wide, hidden),
    )


@frozen
class FilledBlocks(WholeBlocks):
    """A layer of the shared experts, filled up where it is in blocks of FP8.

    Source: vLLM 0.33.0 `models/bailing_moe_v3.py`
    _get_block_fp8_mlp_padded_intermediate_size.
    """

    def as_linear(
        self, layout: ParallelLayout
    ) -> ColumnParallelLinear | RowParallelLinear:
        """Return vLLM's layer."""
        if isinstance(self.method, Fp8BlockLinear):
            return WholeBlocks.as_linear(self, layout)
        return replace(self.layer, method=self.method)


def _filled(module: Module) -> Module:
    if not isinstance(module, ColumnParallelLinear | RowParallelLinear):
        return module
    is_shared = module.part is Part.SHARED_EXPERTS
    return FilledBlocks(name=module.name, layer=module) if is_shared else module


def _experts(facts: Facts) -> tuple[Module, ...]:
    modules = experts(
        ExpertsShape(
            hidden_size=facts.integer("hidden_size"),
            num_experts=facts.integer("num_experts"),
            top_k=facts.integer("num_experts_per_tok"),
            intermediate_size=facts.integer("moe_intermediate_size"),
            shared_intermediate_size=facts.integer(
                "moe_shared_expert_intermediate_size"
            )
            * facts.integer("num_shared_experts"),
            shared_bias=facts.flag("use_bias"),
            router_dtype="float32",
            has_correction_bias=True,
        )
    )
    return tuple(map(_filled, modules))


def read_bailing_v3_vl(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Ling 3 with images: Qwen3-VL's tower, and a projector of its own.

    Source: vLLM 0.33.0 `models/bailing_moe_v3_vl.py`.
    """
    text = text_facts(facts, "bailing_hybrid")
    section = facts.value("mrope_section")
    if section is not None:
        rope = {**text.mapping("rope_parameters"), "mrope_section": section}
        text = Facts({**text.config, "rope_parameters": rope}, "bailing_hybrid")
    model = read_bailing_v3(text, label)
    vision = sub_config(facts, "vision_config", "qwen3_moe_vit")
    plain = Facts({**vision.config, "deepstack_visual_indexes": []}, vision.model_type)
    size = vision.integer("hidden_size")
    merged = size * vision.integer("spatial_merge_size") ** 2
    tower = qwen3_vl_tower(plain, deepstack_columns=0)
    modules = (
        *(m for m in tower.modules if not m.name.startswith("visual.merger.linear")),
        blocks.column("linear_proj.linear_fc1", merged, model.hidden_size, bias=True),
        blocks.row(
            "linear_proj.linear_fc2", model.hidden_size, model.hidden_size, bias=True
        ),
    )
    tower = replace(tower, modalities=("image",), modules=modules)
    return composed(facts, label, model, tower)


READERS = {
    "BailingMoeV3ForCausalLM": read_bailing_v3,
    "BailingMoeV3VLForConditionalGeneration": read_bailing_v3_vl,
}
