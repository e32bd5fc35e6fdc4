"""MiniMax-M3: block-sparse attention with an indexer, experts, and a vision tower."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from planner.engine.layout import ParallelLayout, divide
from planner.models.architecture import LayerKind, ModelArchitecture, Tower
from planner.models.caches import BlockSparseAttentionLayer, CacheLayer, IndexKeysLayer
from planner.models.families.assembly import Frame, Label, Reader, assemble
from planner.models.families.composite import Tie, composed, sub_config, text_facts
from planner.models.families.decoder import (
    AttentionShape,
    ExpertsShape,
    attention,
    attention_shape,
    experts,
    gated_mlp,
    kv_of,
    norms,
)
from planner.models.families.facts import Facts, own_defaults
from planner.models.families.towers import blocks, items
from planner.models.layers import (
    Linear,
    Module,
    Part,
    Replicated,
    kv_heads_per_rank,
)
from planner.models.passes import Moment, TowerPass
from planner.models.tensors import Tensor, Tensors
from planner.values import frozen

_AXES = 3


def minimax_m3_tower(
    facts: Facts, *, text_size: int, projector_size: int | None
) -> Tower:
    """Return the tower with its projector and the merger of its patches.

    `projector_size` is the width between the projector's two layers; None: the language
    model's.

    Source: vLLM 0.33.0 `models/minimax_m3/common/vision_tower.py`
    MiniMaxVLVisionModel, MiniMaxVLMultiModalProjector.
    """
    middle, size = projector_size or text_size, facts.integer("hidden_size")
    return Tower(
        modalities=blocks.IMAGE_AND_VIDEO,
        modules=tuple(_modules(facts, text_size, middle)),
        items=items.minimax_m3_items(facts),
        supports_data_parallel=True,
        forward=TowerPass(
            moments=(
                # The projector's first layer and its activation, then its output, for
                # each patch, as wide as the language model.
                Moment("projecting", whole=size, cut=2 * middle),
                Moment(
                    "projected", whole=size + text_size, cut=middle, reduced=text_size
                ),
                # Queries and keys in fp32 before and after, and cast back.
                Moment("rotating", whole=2 * size, cut=15 * size),
            )
        ),
    )


def _modules(facts: Facts, text_size: int, middle: int) -> Iterator[Module]:
    compression = facts.mapping("img_token_compression_config")
    sizes, patch = blocks.Sizes.of(facts), facts.integer("patch_size")
    frames = int(compression.get("temporal_patch_size", 2))
    merged = int(compression.get("spatial_merge_size", 2)) ** 2
    size, channels = sizes.width, facts.integer("num_channels", default=3)
    # Rotary angles are shared out among time, height and width.
    angles = ((2 * (size // sizes.heads // 2 // _AXES) // 2,),) * _AXES
    model, kernel = "vision_tower.vision_model", (frames, patch, patch)
    embedding = f"{model}.embeddings.patch_embedding"
    yield blocks.convolution(embedding, size, channels, *kernel, bias=False)
    yield blocks.norms(f"{model}.pre_layrnorm", size, bias=True)
    yield blocks.replicated(f"{model}.inv_freq", *angles, dtype="float32")
    parts = replace(blocks.CLIP, mlp=("fc1", "fc2"))
    yield from blocks.layers(f"{model}.encoder.layers", sizes, parts)
    merged_size = text_size * merged
    for part, width in (
        ("multi_modal_projector", size),
        ("patch_merge_mlp", merged_size),
    ):
        name = f"vision_tower.{part}"
        yield blocks.column(f"{name}.linear_1", width, middle, bias=True)
        yield blocks.row(f"{name}.linear_2", middle, text_size, bias=True)


_DEFAULTS = own_defaults("MiniMaxM3TextConfig")


@frozen
class QKVParallelLinearWithIndexer(Linear):
    """Query, key and value with the indexer's queries and its one key.

    The indexer has as many query heads as there are KV heads, and is cut as they are.

    Source: vLLM 0.33.0 `layers/linear.py` MinimaxM3QKVParallelLinearWithIndexer.
    """

    attention: AttentionShape
    index_head_size: int
    part: Part = Part.ATTENTION
    shards: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return the weight on a rank."""
        shape, ranks = self.attention, layout.tensor_parallel_size
        heads = divide(shape.num_heads, ranks)
        kv_heads = kv_heads_per_rank(shape.num_kv_heads, layout)
        kv = kv_heads * shape.head_size
        rows = (
            heads * shape.head_size,
            kv,
            kv,
            kv_heads * self.index_head_size,
            self.index_head_size,
        )
        inputs = (shape.hidden_size, shape.hidden_size)
        return self.on_rank(layout, *rows, inputs=inputs, outputs=sum(rows) * ranks)


@frozen
class ChosenBlocks:
    """Which blocks each token attends to: a buffer for the tokens of a step.

    Source: vLLM 0.33.0 `models/minimax_m3/nvidia/model.py` MiniMaxM3Model.
    """

    name: str
    num_heads: int
    topk: int
    part: Part = Part.BUFFERS

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return the buffer on a rank, its tokens rounded up to four."""
        heads = max(1, self.num_heads // layout.tensor_parallel_size)
        tokens = -(-layout.max_num_batched_tokens // 4) * 4
        return (Tensor(tokens * heads * self.topk, "int32"),)


def read_minimax_m3_text(facts: Facts, label: Label) -> ModelArchitecture:
    """Read MiniMax-M3's language model.

    Source: vLLM 0.33.0 `models/minimax_m3/nvidia/model.py` MiniMaxM3Model.
    """
    facts = Facts(facts.config, facts.model_type, _DEFAULTS)
    shape = attention_shape(facts)
    size = shape.head_size
    layers = range(facts.integer("num_hidden_layers"))
    rotated = int(size * facts.number("partial_rotary_factor"))
    rope = Replicated(
        "rotary_emb.cos_sin_cache",
        Part.BUFFERS,
        ((facts.integer("max_position_embeddings"), rotated),),
    )
    frame = Frame(shape.hidden_size, (rope, *_chosen_blocks(facts)), is_tied=False)
    kinds = (_layer(facts, shape, layer) for layer in layers)
    return assemble(facts, label, frame, kinds)


def read_minimax_m3(facts: Facts, label: Label) -> ModelArchitecture:
    """Read MiniMax-M3 with its vision tower.

    Source: vLLM 0.33.0 `models/minimax_m3/nvidia/model.py`
    MiniMaxM3SparseForConditionalGeneration.
    """
    text = text_facts(facts, "minimax_m3_text", tie=Tie.INNER)
    model = read_minimax_m3_text(text, label)
    tower = minimax_m3_tower(
        sub_config(facts, "vision_config", "minimax_m3_vision"),
        text_size=model.hidden_size,
        projector_size=facts.optional_integer("projector_hidden_size"),
    )
    renames = tuple(
        (name, f"vision_tower.{name}")
        for name in ("multi_modal_projector.", "patch_merge_mlp.")
    )
    return composed(facts, label, model, tower, renames=renames)


def _sparse(facts: Facts) -> Mapping[str, Any]:
    return facts.mapping("sparse_attention_config")


def _chosen_blocks(facts: Facts) -> tuple[Module, ...]:
    sparse = _sparse(facts)
    if not sparse:
        return ()
    return (
        ChosenBlocks(
            name="model.topk_indices_buffer",
            num_heads=sparse["sparse_num_index_heads"],
            topk=sparse["sparse_topk_blocks"],
        ),
    )


def _layer(facts: Facts, shape: AttentionShape, layer: int) -> LayerKind:
    frequency = _sparse(facts).get("sparse_attention_freq") or ()
    is_sparse = layer < len(frequency) and frequency[layer] != 0
    caches: tuple[CacheLayer, ...] = (kv_of(shape),)
    modules = attention(shape)
    if is_sparse:
        caches, modules = _sparse_attention(facts, shape)
    mixed = facts.value("moe_layer_freq")
    is_moe = mixed is None or mixed[layer] != 0
    mlp = (
        _experts(facts)
        if is_moe
        else gated_mlp(shape.hidden_size, facts.integer("dense_intermediate_size"))
    )
    head_norms = Replicated(
        "self_attn.qk_norm", Part.NORMS, ((shape.head_size,), (shape.head_size,))
    )
    return LayerKind(caches, (*modules, head_norms, norms(shape.hidden_size), *mlp))


def _sparse_attention(
    facts: Facts, shape: AttentionShape
) -> tuple[tuple[CacheLayer, ...], tuple[Module, ...]]:
    """Source: vLLM 0.33.0 `models/minimax_m3/nvidia/model.py`."""
    sparse = _sparse(facts)
    size = int(sparse["sparse_index_dim"])
    if sparse["sparse_num_index_heads"] != shape.num_kv_heads:
        raise facts.unsupported(
            "sparse_attention_config", "the indexer needs as many heads as KV heads."
        )
    kept = BlockSparseAttentionLayer(
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_kv_heads,
        head_size=shape.head_size,
        topk_blocks=int(sparse["sparse_topk_blocks"]),
    )
    modules: tuple[Module, ...] = (
        QKVParallelLinearWithIndexer(
            name="self_attn.qkv_proj", attention=shape, index_head_size=size
        ),
        *attention(shape)[1:],
        Replicated("self_attn.index_norm", Part.NORMS, ((size,), (size,))),
    )
    return (IndexKeysLayer(head_size=size), kept), modules


def _experts(facts: Facts) -> tuple[Module, ...]:
    """Source: vLLM 0.33.0 `models/minimax_m3/nvidia/model.py` MiniMaxM3MoE."""
    hidden, size = facts.integers("hidden_size", "intermediate_size")
    return experts(
        ExpertsShape(
            hidden_size=hidden,
            num_experts=facts.integer("num_local_experts"),
            top_k=facts.integer("num_experts_per_tok"),
            intermediate_size=size,
            shared_intermediate_size=size
            * (facts.optional_integer("n_shared_experts") or 0),
            router_dtype="float32",
            has_correction_bias=facts.flag("use_routing_bias"),
            correction_bias_name="e_score_correction_bias",
            activation="swigluoai_uninterleave",
            name="block_sparse_moe",
        )
    )


READERS: dict[str, Reader] = {
    "MiniMaxM3SparseForCausalLM": read_minimax_m3_text,
    "MiniMaxM3SparseForConditionalGeneration": read_minimax_m3,
}
