"""Ling and Ring from 2.5 on: linear attention beside latent attention.

Ling 3 also takes images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from planner.engine.layout import ParallelLayout
from planner.errors import Refused
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.families.assembly import Frame, Label, Reader, assemble
from planner.models.families.bailing_moe import BAILING_EXPERTS
from planner.models.families.composite import composed, sub_config, text_facts
from planner.models.families.decoder import (
    experts,
    gated_mlp,
    norms,
)
from planner.models.families.deepseek_v2 import Attention
from planner.models.families.deepseek_v4 import WholeBlocks
from planner.models.families.delta_attention import delta_parameters
from planner.models.families.facts import Facts
from planner.models.families.mla import (
    LatentShape,
    declared_heads,
    latent_attention,
    latent_shape,
    mla_layer,
)
from planner.models.families.rope import rope_cache, rope_dict
from planner.models.families.styles import Experts, experts_shape, unless_off
from planner.models.families.towers import blocks
from planner.models.families.towers.qwen_vl import qwen3_vl_tower
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    QKVParallelLinear,
    Replicated,
    RowParallelLinear,
)
from planner.models.quantization.fp8 import Fp8BlockLinear
from planner.models.states import KimiDeltaAttentionState, LinearAttentionState
from planner.models.tensors import Tensor, Tensors
from planner.values import frozen


@frozen
class GroupNorm:
    """A norm of each rank's share, in groups that ranks must not cut.

    Source: vLLM 0.33.0 `layers/mamba/linear/bailing_linear_attn.py`.
    """

    name: str
    size: int
    groups: int
    part: Part = Part.NORMS

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return the weight on a rank.

        Raises:
            Refused: in vLLM's words, where the ranks do not divide the groups.
        """
        ranks = layout.tensor_parallel_size
        if ranks > self.groups:
            raise Refused("tp_size must be <= group_norm_size for local rms norm")
        if self.groups % ranks:
            raise Refused("group_norm_size must be divisible by tp_size")
        return (Tensor(self.size // ranks),)


def read_bailing_v2_5(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Ling and Ring 2.5: linear attention, latent attention every few layers.

    Source: vLLM 0.33.0 `models/bailing_moe_linear.py`.
    """
    shape, head_size = latent_shape(facts), linear_head_size(facts)
    size, heads = shape.hidden_size, shape.num_heads
    state = LinearAttentionState(num_heads=heads, head_dim=head_size)
    linear = ((state,), _linear_attention(facts, size, heads, head_size))
    latent = ((mla_layer(shape),), latent_attention(shape))
    group = facts.integer("layer_group_size", default=1)
    first = facts.integer("first_k_dense_replace", default=0)
    if facts.integer("num_experts") <= 1:
        first = facts.integer("num_hidden_layers")
    frame = Frame(size, _ropes(facts, head_size, shape.qk_rope_head_dim), is_tied=False)
    layers = _layers(
        facts,
        lambda i: linear if group > 0 and (i + 1) % group != 0 else latent,
        experts(experts_shape(facts, _EXPERTS)),
        first,
    )
    return assemble(facts, label, frame, layers, **declared_heads(facts, shape))


def _layers(
    facts: Facts,
    mixer: Callable[[int], Attention],
    sparse: tuple[Module, ...],
    first: int,
) -> Iterator[LayerKind]:
    """Yield layers of these mixers, with experts from the layer `first` on."""
    size, has_bias = facts.integer("hidden_size"), facts.flag("use_bias")
    dense = gated_mlp(size, facts.integer("intermediate_size"), bias=has_bias)
    for index in range(facts.integer("num_hidden_layers")):
        caches, modules = mixer(index)
        mlp = dense if index < first else sparse
        yield LayerKind(caches, (*modules, norms(size), *mlp))


def linear_head_size(facts: Facts) -> int:
    """Return the size of a head of linear attention.

    Transformers' own class overwrites it; the publisher's code keeps it.

    Source: Transformers' BailingHybridConfig.__post_init__.
    """
    if facts.model_type == "bailing_hybrid" and not facts.mapping("auto_map"):
        return facts.integer("qk_rope_head_dim")
    size, heads = facts.integer("hidden_size"), facts.integer("num_attention_heads")
    return facts.optional_integer("head_dim") or size // heads


def _linear_attention(
    facts: Facts, size: int, heads: int, head_size: int
) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `layers/mamba/linear/bailing_linear_attn.py`."""
    wide, has_bias = heads * head_size, facts.flag("use_bias")
    qk_norms = Replicated("self_attn.qk_norm", Part.NORMS, ((head_size,), (head_size,)))
    return (
        QKVParallelLinear(
            name="self_attn.query_key_value",
            part=Part.MIXERS,
            input_size=size,
            num_heads=heads,
            num_kv_heads=heads,
            head_size=head_size,
            bias=has_bias or facts.flag("use_qkv_bias"),
            shards=(),
        ),
        *((qk_norms,) if facts.flag("use_qk_norm") else ()),
        ColumnParallelLinear("self_attn.g_proj", Part.MIXERS, size, (wide,)),
        RowParallelLinear("self_attn.dense", Part.MIXERS, wide, size, bias=has_bias),
        GroupNorm(
            name="self_attn.g_norm",
            size=wide,
            groups=facts.integer("group_norm_size", default=1),
        ),
    )


def _ropes(facts: Facts, head_size: int, latent_size: int) -> tuple[Module, ...]:
    """Return the tables of linear attention, of part of a head, and of the latent's."""
    max_position = facts.integer("max_position_embeddings", default=8192)
    plain = {
        key: value
        for key, value in rope_dict(facts).items()
        if key != "partial_rotary_factor"
    }
    whole = facts.having(
        partial_rotary_factor=None, rope_scaling=None, rope_parameters=plain
    )
    return (
        *rope_cache(facts, head_size, max_position=max_position),
        *rope_cache(whole, latent_size, max_position=max_position),
    )


_EXPERTS = replace(
    BAILING_EXPERTS,
    router_dtype=lambda facts: (
        "float32" if facts.value("router_dtype") in (None, "fp32") else "bfloat16"
    ),
    is_renormalized=unless_off("norm_topk_prob"),
)


def read_bailing_v3(facts: Facts, label: Label) -> ModelArchitecture:
    """Return Ling 3: Kimi delta attention, latent attention at the end of each group.

    Source: vLLM 0.33.0 `models/bailing_moe_v3.py`.
    """
    if not facts.flag("no_kda_lora"):
        raise Refused("BailingMoeV3 KDA currently expects no_kda_lora=True")
    shape = latent_shape(facts)
    num_layers, group = facts.integers("num_hidden_layers", "layer_group_size")
    state = KimiDeltaAttentionState(
        num_heads=shape.num_heads,
        head_dim=linear_head_size(facts),
        conv_kernel=facts.integer("short_conv_kernel_size"),
    )
    linear = ((state,), _delta_attention(state, shape.hidden_size))
    latent = ((mla_layer(shape),), _latent(facts, shape))
    whole = num_layers // group * group
    sparse = experts(experts_shape(facts, _V3_EXPERTS))
    layers = _layers(
        facts,
        lambda i: latent if (i + 1) % group == 0 or i >= whole else linear,
        tuple(map(_filled, sparse)),
        facts.integer("first_k_dense_replace"),
    )
    rope = rope_cache(facts, shape.qk_rope_head_dim, default_positions=8192)
    frame = Frame(shape.hidden_size, rope, is_tied=False)
    return assemble(facts, label, frame, layers, **declared_heads(facts, shape))


_V3_EXPERTS = Experts(
    shared=lambda facts: (
        facts.integer("moe_shared_expert_intermediate_size")
        * facts.integer("num_shared_experts")
    ),
    shared_bias="use_bias",
    router_dtype="float32",
    has_correction_bias=True,
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
        *delta_parameters("self_attn", heads, *((wide, kernel),) * 3, head_size=size),
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
    if not is_shared:
        return module
    return FilledBlocks(name=module.name, layer=module, shards=module.shards)


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
    plain = vision.having(deepstack_visual_indexes=[])
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


READERS: dict[str, Reader] = {
    "BailingMoeV2_5ForCausalLM": read_bailing_v2_5,
    "BailingMoeV3ForCausalLM": read_bailing_v3,
    "BailingMoeV3VLForConditionalGeneration": read_bailing_v3_vl,
}
