"""DeepSeek-V4: compressed latent attention, hash-routed experts, hyper-connections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.engine.layout import ParallelLayout
from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.experts import FusedMoE
from planner.models.families.assembly import Frame, Label, Reader, assemble
from planner.models.families.composite import Composite, read_as
from planner.models.families.compressed_attention import (
    INDEXED,
    CompressedShape,
    compressed_attention,
    compressed_caches,
)
from planner.models.families.decoder import hyper_connections, norms
from planner.models.families.facts import Facts, own_defaults
from planner.models.families.rope import yarn_rows
from planner.models.families.towers import blocks
from planner.models.families.towers.blocks import IMAGE
from planner.models.layers import (
    ColumnParallelLinear,
    LinearByLayout,
    Module,
    Part,
    Replicated,
    ReplicatedLinear,
    RowParallelLinear,
    TokenBuffer,
)
from planner.values import frozen

_RATIO_OF = {
    "sliding_attention": 0,
    "compressed_sparse_attention": INDEXED,
    "heavily_compressed_attention": 128,
}
_DEFAULTS = own_defaults("DeepseekV4Config")
_DEFAULT_ROTARY_FACTOR = 64 / 512
_BLOCK = 128


@frozen
class WholeBlocks(LinearByLayout):
    """A layer of the shared experts, filled up so that ranks hold whole blocks of FP8.

    Source: vLLM 0.33.0 `models/deepseek_v4/nvidia/model.py` DeepseekV4MLP.
    """

    layer: ColumnParallelLinear | RowParallelLinear
    part: Part = Part.SHARED_EXPERTS

    def as_linear(
        self, layout: ParallelLayout
    ) -> ColumnParallelLinear | RowParallelLinear:
        """Return vLLM's layer."""
        if self.method is None:
            return self.layer
        ranks = layout.tensor_parallel_size
        layer = self.layer
        if isinstance(layer, RowParallelLinear):
            size = _whole_blocks(layer.input_size, ranks)
            return replace(layer, input_size=size, method=self.method)
        sizes = tuple(_whole_blocks(size, ranks) for size in layer.output_sizes)
        return replace(layer, output_sizes=sizes, method=self.method)


def _whole_blocks(size: int, ranks: int) -> int:
    """Return a size of which each rank has as many whole blocks."""
    return -(-(size // _BLOCK) // ranks) * _BLOCK * ranks


def read_deepseek_v4(facts: Facts, label: Label) -> ModelArchitecture:
    """Read DeepSeek-V4 Flash and Pro.

    Layers for multi-token prediction are not loaded without speculative decoding.

    Raises:
        UnknownArchitecture: for the variant with a vision tower.

    Source: vLLM 0.33.0 `models/deepseek_v4/nvidia/model.py` DeepseekV4Model;
    Transformers' DeepseekV4Config.
    """
    facts = Facts(facts.config, facts.model_type, _DEFAULTS)
    if facts.optional_integer("vision_n_layers"):
        raise facts.unsupported("vision_n_layers", "the vision tower is not.")
    shape = _shape(facts)
    hash_layers = _hash_layers(facts)
    ratios = _compress_ratios(facts)
    layers = (
        LayerKind(
            compressed_caches(shape, ratio),
            (
                *compressed_attention(shape, ratio),
                *_experts(facts, is_hashed=layer in hash_layers),
                norms(shape.hidden_size),
                hyper_connections(facts.integer("hc_mult"), shape.hidden_size),
            ),
            shared=(_rope_cache(facts, shape, is_compressed=ratio > 1),),
        )
        for layer, ratio in enumerate(ratios)
    )
    return assemble(
        facts,
        label,
        _frame(facts, shape),
        layers,
        num_attention_heads=shape.num_heads,
        num_kv_heads=facts.integer("num_key_value_heads"),
        head_size=shape.head_dim,
        residual_streams=facts.integer("hc_mult"),
        prefix_renames=(("layers.", "model.layers."),),
    )


def _shape(facts: Facts) -> CompressedShape:
    head_dim = facts.integer("head_dim")
    rotated = facts.optional_integer("qk_rope_head_dim")
    factor = facts.number(
        "partial_rotary_factor",
        default=_DEFAULT_ROTARY_FACTOR if rotated is None else rotated / head_dim,
    )
    return CompressedShape(
        hidden_size=facts.integer("hidden_size"),
        num_heads=facts.integer("num_attention_heads"),
        head_dim=head_dim,
        rope_dim=int(head_dim * factor),
        q_lora_rank=facts.integer("q_lora_rank"),
        o_lora_rank=facts.integer("o_lora_rank"),
        o_groups=facts.integer("o_groups"),
        window=facts.integer("sliding_window"),
        index_heads=facts.integer("index_n_heads"),
        index_head_dim=facts.integer("index_head_dim"),
    )


def _compress_ratios(facts: Facts) -> tuple[int, ...]:
    """Return how many tokens each layer compresses into one; 0 without."""
    layers = facts.integer("num_hidden_layers")
    types = facts.value("layer_types")
    if types is None and facts.value("compress_ratios") is not None:
        names = {ratio: name for name, ratio in _RATIO_OF.items()}
        types = [names[ratio] for ratio in facts.value("compress_ratios")]
    if types is None:
        light, heavy = "compressed_sparse_attention", "heavily_compressed_attention"
        types = [heavy, heavy] + [light if i % 2 else heavy for i in range(layers)]
    given = facts.mapping("compress_rates")
    rates = {name: int(given.get(name, 0)) for name in _RATIO_OF} if given else None
    ratios = tuple((rates or _RATIO_OF)[name] for name in types[:layers])
    if len(ratios) != layers or not set(ratios) <= set(_RATIO_OF.values()):
        raise facts.unsupported("compress_ratios", "each layer needs 0, 4 or 128.")
    return ratios


def _hash_layers(facts: Facts) -> range:
    """Return the layers that choose experts by the token only: the first ones."""
    types = facts.value("mlp_layer_types")
    count = facts.integer("num_hash_layers")
    return range(count if types is None else list(types).count("hash_moe"))


def _experts(facts: Facts, *, is_hashed: bool) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/deepseek_v4/nvidia/model.py` DeepseekV4MoE."""
    hidden, size = facts.integer("hidden_size"), facts.integer("moe_intermediate_size")
    count, top_k = (
        facts.integer("n_routed_experts"),
        facts.integer("num_experts_per_tok"),
    )
    modules: list[Module] = [
        ReplicatedLinear(
            "ffn.gate", Part.ROUTER, hidden, (count,), is_quantizable=False
        ),
        FusedMoE(
            name="ffn.experts",
            num_experts=count,
            top_k=top_k,
            hidden_size=hidden,
            intermediate_size=size,
            is_renormalized=facts.flag("norm_topk_prob"),
            shards=("w1", "w3", "w2"),
        ),
    ]
    if is_hashed:
        table = (facts.integer("vocab_size"), top_k)
        modules.append(_router_table("ffn.gate.tid2eid", table, "int32"))
    elif facts.value("topk_method") == "noaux_tc":
        name = "ffn.gate.e_score_correction_bias"
        modules.append(_router_table(name, (count,), "float32"))
    shared = size * (facts.optional_integer("n_shared_experts") or 0)
    return (*modules, *(_shared_experts(hidden, shared) if shared else ()))


def _router_table(name: str, shape: tuple[int, ...], dtype: str) -> Replicated:
    return Replicated(name, Part.ROUTER, (shape,), dtype=dtype)


def _shared_experts(hidden_size: int, intermediate_size: int) -> tuple[Module, ...]:
    name, part = "ffn.shared_experts", Part.SHARED_EXPERTS
    layers = (
        ColumnParallelLinear(
            f"{name}.gate_up_proj",
            part,
            hidden_size,
            (intermediate_size, intermediate_size),
            shards=("w1", "w3"),
        ),
        RowParallelLinear(f"{name}.down_proj", part, intermediate_size, hidden_size),
    )
    return tuple(
        WholeBlocks(name=layer.name, layer=layer, shards=layer.shards)
        for layer in layers
    )


def _float32(name: str, shapes: tuple[tuple[int, ...], ...]) -> Replicated:
    return Replicated(name, Part.HYPER_CONNECTIONS, shapes, dtype="float32")


def _rope_cache(
    facts: Facts, shape: CompressedShape, *, is_compressed: bool
) -> Replicated:
    """Return the float32 table of layers with or without compression.

    Only those with compression scale their positions.

    Source: vLLM 0.33.0 `models/deepseek_v4/common/rope.py` build_deepseek_v4_rope.
    """
    rows = facts.integer("max_position_embeddings")
    rope = {**facts.mapping("rope_scaling"), **facts.mapping("rope_parameters")}
    rope = rope.get("compress") or rope
    rope_type = rope.get("rope_type") or rope.get("type") or "default"
    if is_compressed and rope_type != "default":
        rows = yarn_rows(facts, rope)
    kind = "compressed" if is_compressed else "plain"
    return Replicated(
        f"rotary_emb.{kind}", Part.BUFFERS, ((rows, shape.rope_dim),), dtype="float32"
    )


def _frame(facts: Facts, shape: CompressedShape) -> Frame:
    """Return what surrounds the layers: the head is never tied or quantised.

    The first layer's mixing is also held summed over the streams, which start alike.
    """
    streams = facts.integer("hc_mult")
    width = streams * shape.hidden_size
    mixes = (2 + streams) * streams
    summed = _float32("hc_attn_fn_broadcast", ((mixes, shape.hidden_size),))
    return Frame(
        shape.hidden_size,
        is_tied=False,
        is_head_quantizable=False,
        extra_embeddings=(summed,),
        every_stage=(
            _float32("model.hc_head", ((streams, width), (streams,), (1,))),
            TokenBuffer(
                "model.topk_indices_buffer", facts.integer("index_topk"), dtype="int32"
            ),
        ),
    )


def _text(facts: Facts, label: Label) -> ModelArchitecture:
    blind = facts.having(vision_n_layers=0)
    return read_as(blind, label, "DeepseekV4ForCausalLM")


def _tower(facts: Facts, text_size: int) -> Tower:
    return Tower(
        IMAGE,
        blocks.unquantised(*_modules(facts, text_size)),
        supports_data_parallel=True,
        whole_unless_heads_divide=facts.integer("vision_n_heads"),
    )


def _modules(facts: Facts, text_size: int) -> Iterator[Module]:
    """Source: vLLM 0.33.0 `models/deepseek_v4/common/vl_model.py` and `vision.py`."""
    size, heads = facts.integers("vision_dim", "vision_n_heads")
    pixels = 3 * facts.integer("vision_patch_size") ** 2
    yield blocks.linear("vision.patch_embed", pixels, size, bias=True)
    wide = facts.integer("vision_inter_dim")
    yield from blocks.repeated(
        "vision.blocks",
        facts.integer("vision_n_layers"),
        blocks.norms("norm", size, count=2, bias=False),
        blocks.qkv("attn.wqkv", size, heads, bias=True),
        blocks.row("attn.wo", size, size, bias=True),
        blocks.column("mlp.w1", size, wide, wide, bias=False),
        blocks.row("mlp.w2", wide, size, bias=False),
    )
    yield blocks.norms("vision.norm", size, bias=False)
    merged = size * facts.integer("vision_downsample_ratio") ** 2
    yield blocks.column("aligner.w1", merged, text_size, bias=True)
    yield blocks.row("aligner.w2", text_size, text_size, bias=True)
    yield blocks.replicated("image_marks", *((text_size,),) * 4, dtype="float32")


READERS: dict[str, Reader] = {
    "DeepseekV4ForCausalLM": read_deepseek_v4,
    "DeepseekV4ForConditionalGeneration": Composite(_tower, text=_text),
}
