"""The vision towers of Qwen2-VL, Qwen2.5-VL and Qwen3-VL."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planner.engine.releases.change import Change
from planner.models.architecture import MediaItem, Tower
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks, items
from planner.models.families.towers.blocks import IMAGE_AND_VIDEO
from planner.models.layers import Module, Part, TokenBuffer
from planner.models.passes import Held, Moment, TowerPass

_PASSES_RAW_PIXELS_OF_QWEN2 = Change(
    since=(0, 28),
    what=(
        "The GPU gets the pixels of Qwen2-VL and Qwen2.5-VL as bytes and normalises "
        "them."
    ),
    source=(
        "vLLM 0.28.0 `config/model.py` _resolve_mm_device_do_normalize, "
        "`models/interfaces.py`"
    ),
)
_PASSES_RAW_PIXELS_OF_QWEN3 = Change(
    since=(0, 32),
    what="The GPU gets the pixels of Qwen3-VL as bytes and normalises them.",
    source=(
        "vLLM 0.32.0 `config/model.py` _resolve_mm_device_do_normalize, "
        "`models/interfaces.py`"
    ),
)


def qwen2_vl_tower(facts: Facts) -> Tower:
    """Return Qwen2-VL's tower. Source: vLLM 0.33.0 `models/qwen2_vl.py`."""
    size, heads, depth, text_size = facts.integers(
        "embed_dim", "num_heads", "depth", "hidden_size"
    )
    mlp_size = int(size * facts.number("mlp_ratio"))
    modules = (
        _patch_embedding(facts, size, bias=False),
        blocks.input_norm("visual"),
        blocks.rotary_cache("visual.rotary_pos_emb", size // heads),
        *blocks.repeated(
            "visual.blocks",
            depth,
            blocks.norms("norm", size, count=2, bias=True),
            blocks.divided_heads("attn", heads),
            blocks.column("attn.qkv", size, 3 * size, bias=True),
            blocks.row("attn.proj", size, size, bias=True),
            *blocks.plain_mlp("mlp.fc1", "mlp.fc2", size, mlp_size),
        ),
        # The class leaves spatial_merge_size of the merger at its default.
        *merger("visual.merger", size, 4, text_size, bias=True),
    )
    return _tower(
        modules,
        items.qwen2_vl_items(facts),
        reads_raw_pixels_since=_PASSES_RAW_PIXELS_OF_QWEN2,
        forward=_qwen2_pass(size, size // heads, mlp_size),
    )


def _qwen2_pass(size: int, head_size: int, mlp_size: int) -> TowerPass:
    """Return the widest points; ranks gather queries, keys and values, and cut them.

    Source: vLLM 0.33.0 `models/qwen2_vl.py` Qwen2VisionAttention, Qwen2VisionBlock,
    `layers/activation.py` QuickGELU.forward_native.
    """
    tables = head_size  # cosines and sines of half a head
    return TowerPass(
        moments=(
            # The input, also as the norm's; of the rest each rank its part: projected,
            # concatenated, rotated, and the output.
            Moment(
                "attention",
                whole=3 * size + tables,
                cut=8 * size,
                reduced=3 * size + size,
            ),
            # What was gathered is copied once, into the order of its columns.
            Moment(
                "gathering", whole=2 * size + tables, cut=3 * size, reduced=2 * 3 * size
            ),
            # A sigmoid of the input lies beside it and the product: quick_gelu.
            Moment("MLP", whole=3 * size + tables, cut=2 * mlp_size, native=mlp_size),
        ),
        copies_share=True,
    )


def qwen2_5_vl_tower(facts: Facts, *, is_omni: bool = False) -> Tower:
    """Return Qwen2.5-VL's tower, or the same within Qwen2.5-Omni.

    Source: vLLM 0.33.0 `models/qwen2_5_vl.py`; `models/qwen2_5_omni_thinker.py`.
    """
    size, heads, wide = facts.integers("hidden_size", "num_heads", "intermediate_size")
    patches = facts.integer("spatial_merge_size") ** 2
    shards = ("q", "k", "v") if is_omni else ()
    modules = (
        _patch_embedding(facts, size, bias=False),
        blocks.rotary_cache("visual.rotary_pos_emb", size // heads),
        *(() if is_omni else (blocks.input_norm("visual"),)),
        *blocks.repeated(
            "visual.blocks",
            facts.integer("depth"),
            blocks.norms("norm", size, count=2, bias=False),
            blocks.qkv("attn.qkv", size, heads, bias=True, shards=shards),
            blocks.row("attn.proj", size, size, bias=True),
            *blocks.gated_mlp("mlp", size, wide, bias=True),
        ),
        *merger(
            "visual.merger",
            size,
            patches,
            facts.integer("out_hidden_size"),
            bias=False,
        ),
    )
    largest = items.omni_items if is_omni else items.qwen2_vl_items
    return _tower(
        modules,
        largest(facts),
        supports_data_parallel=not is_omni,
        reads_raw_pixels_since=None if is_omni else _PASSES_RAW_PIXELS_OF_QWEN2,
        forward=_qwen2_5_pass(size, size // heads, wide),
    )


def without_input_norm(tower: Tower) -> Tower:
    """Return Qwen's tower in a class that hands it no input_norm."""
    kept = (module for module in tower.modules if module.name != "visual.input_norm")
    return replace(tower, modules=tuple(kept), items=(), reads_raw_pixels_since=None)


def _qwen2_5_pass(size: int, head_size: int, mlp_size: int) -> TowerPass:
    """Return the widest points: the MLP has names for what its gate reads.

    Rotary tables of an item's size stay; those of all items are put together of them.

    Source: vLLM 0.33.0 `models/qwen2_5_vl.py` Qwen2_5_VisionBlock, Qwen2_5_VisionMLP,
    Qwen2_5_VisionAttention, get_rope_by_thw; `ir/ops/layernorm.py` fused_add_rms_norm;
    traced dry runs of the 7B and the 32B on four and two ranks.
    """
    tables = head_size
    return TowerPass(
        moments=(
            Moment(
                "MLP",
                whole=3 * size + tables,
                cut=3 * mlp_size,
                unfused=mlp_size,
                native_whole=size,
            ),
            Moment(
                "MLP's output",
                whole=3 * size + tables,
                cut=3 * mlp_size,
                reduced=size,
                native_whole=2 * size,
            ),
            # Natively the sum, the normed and the weighted one are in fp32.
            Moment("sum and norm", whole=3 * size + tables, native_whole=6 * size),
            Moment(
                "attention's output",
                whole=3 * size + tables,
                cut=8 * size,
                reduced=size,
            ),
        ),
        stays=tables,
        copies_share=True,
    )


def qwen3_vl_tower(facts: Facts, *, deepstack_columns: int) -> Tower:
    """Return Qwen3-VL's tower.

    Deepstack passes features of some blocks to the first decoder layers: a merger for
    each and, with `deepstack_columns`, a buffer for the tokens of a step.

    Source: vLLM 0.33.0 `models/qwen3_vl.py` Qwen3_VisionTransformer and
    Qwen3VLForConditionalGeneration.
    """
    size, heads, positions = facts.integers(
        "hidden_size", "num_heads", "num_position_embeddings"
    )
    levels = len(facts.value("deepstack_visual_indexes") or ())
    merged = size * facts.integer("spatial_merge_size") ** 2
    modules = (
        _patch_embedding(facts, size, bias=True),
        blocks.replicated("visual.pos_embed", (positions, size)),
        blocks.rotary_cache("visual.rotary_pos_emb", size // heads),
        blocks.input_norm("visual"),
        *_qwen3_merger(facts, "visual.merger", norm_size=size),
        *(
            module
            for level in range(levels)
            for module in _qwen3_merger(
                facts, f"visual.deepstack_merger_list.{level}", norm_size=merged
            )
        ),
        *_qwen3_blocks(facts),
        *_deepstack_buffers(levels, deepstack_columns),
    )
    return _tower(
        modules,
        items.qwen3_vl_items(facts),
        reads_raw_pixels_since=_PASSES_RAW_PIXELS_OF_QWEN3,
        forward=_qwen3_pass(facts, levels),
    )


def _qwen3_pass(facts: Facts, levels: int) -> TowerPass:
    """Return the widest points: positions stay, and features of the deepstack.

    Source: vLLM 0.33.0 `models/qwen3_vl.py` Qwen3_VisionTransformer,
    Qwen3_VisionBlock; `models/qwen2_5_vl.py` Qwen2_5_VisionAttention.
    """
    size, mlp_size = facts.integers("hidden_size", "intermediate_size")
    merged = facts.integer("spatial_merge_size") ** 2
    features = levels * facts.integer("out_hidden_size") // merged
    beside = size // facts.integer("num_heads") + features
    return TowerPass(
        moments=(
            Moment(
                "attention's output",
                whole=4 * size + beside,
                cut=8 * size,
                reduced=size,
            ),
            Moment("MLP", whole=4 * size + beside, cut=2 * mlp_size),
            Moment("MLP's output", whole=5 * size + beside, cut=mlp_size, reduced=size),
        ),
        copies_share=True,
        steps=_qwen3_steps(facts, levels),
    )


def _qwen3_steps(facts: Facts, levels: int) -> tuple[Held, ...]:
    """Return what the blocks allocate, two before each feature and two after the last.

    A feature takes a block that the one before it freed: of 65,536 patches, 128 MiB of
    Qwen3-VL-8B take 144.

    Source: vLLM 0.33.0 `models/qwen3_vl.py` Qwen3_VisionTransformer.forward,
    Qwen3_VisionBlock, Qwen3_VisionPatchMerger; `models/qwen2_5_vl.py`
    Qwen2_5_VisionAttention; traced dry runs of Qwen3-VL-8B on one rank and on eight.
    """
    size, mlp_size = facts.integers("hidden_size", "intermediate_size")
    feature = facts.integer("out_hidden_size")
    feature //= facts.integer("spatial_merge_size") ** 2
    steps = [Held("positions", size), Held("input", size)]
    for level in range(levels + 1):
        for number in range(2 * level, 2 * level + 2):
            steps += _qwen3_block(size, mlp_size, number)
        if level < levels:
            steps += [Held("normed", size), Held("merged", cut=size)]
            steps += [Held("activation", cut=size), Held("merged")]
            steps += _added_up(f"feature {level}", feature)
            steps += [Held("activation"), Held("normed")]
    return tuple(steps)


def _qwen3_block(size: int, mlp_size: int, number: int) -> list[Held]:
    """Return the steps of one block; its caller keeps the input until it returns."""
    before, after = f"states {number - 1}", f"states {number}"
    return [
        Held("normed", size),
        Held("projected", cut=3 * size),
        Held("in order", cut=2 * size),
        Held("rotated", cut=2 * size),
        Held("attention", cut=size),
        *_added_up("output", size),
        *map(Held, ("projected", "in order", "rotated", "attention", "normed")),
        Held("sum", size),
        Held("output"),
        Held("normed", size),
        Held("wide", cut=mlp_size),
        Held("activation", cut=mlp_size),
        Held("wide"),
        *_added_up("output", size),
        *map(Held, ("activation", "normed")),
        Held(after, size),
        *map(Held, ("output", "sum", before if number else "input")),
    ]


def _added_up(name: str, values: int) -> list[Held]:
    """Return the steps of an output, and with ranks of its sum, which is another."""
    return [Held("part", reduced=values), Held(name, values), Held("part")]


def qwen3_omni_vision_tower(facts: Facts, *, deepstack_columns: int) -> Tower:
    """Return Qwen3-Omni's tower: Qwen3-VL's under other names, never held whole.

    Source: vLLM 0.33.0 `models/qwen3_omni_moe_thinker.py` Qwen3Omni_VisionTransformer.
    """
    size, heads, output = facts.integers("hidden_size", "num_heads", "out_hidden_size")
    positions = (facts.integer("image_size") // facts.integer("patch_size")) ** 2
    levels = len(facts.value("deepstack_visual_indexes") or ())
    patches, mergers = facts.integer("spatial_merge_size") ** 2, "visual.merger_list"
    modules = (
        _patch_embedding(facts, size, bias=True),
        blocks.replicated("visual.pos_embed", (positions, size)),
        blocks.rotary_cache("visual.rotary_pos_emb", size // heads),
        *_qwen3_blocks(facts),
        *merger("visual.merger", size, patches, output, bias=True),
        *(
            module
            for level in range(levels)
            for module in merger(
                f"{mergers}.{level}", size * patches, 1, output, bias=True
            )
        ),
        *_deepstack_buffers(levels, deepstack_columns),
    )
    return _tower(
        modules,
        items.omni_items(facts),
        supports_data_parallel=False,
        forward=_qwen3_pass(facts, levels),
    )


def _qwen3_blocks(facts: Facts) -> tuple[Module, ...]:
    names = ("hidden_size", "num_heads", "intermediate_size", "depth")
    parts = replace(blocks.VIT, mlp=("mlp.linear_fc1", "mlp.linear_fc2"))
    return blocks.layers("visual.blocks", blocks.Sizes(*facts.integers(*names)), parts)


def _deepstack_buffers(levels: int, columns: int) -> tuple[Module, ...]:
    if not levels or not columns:
        return ()
    name = "deepstack_input_embeds"
    return (TokenBuffer(name, columns, part=Part.TOWERS, count=levels),)


def _patch_embedding(facts: Facts, size: int, *, bias: bool) -> Module:
    channels, times, patch = facts.integers(
        "in_channels", "temporal_patch_size", "patch_size"
    )
    name, kernel = "visual.patch_embed.proj", (times, patch, patch)
    return blocks.convolution(name, size, channels, *kernel, bias=bias)


def merger(
    name: str, size: int, patches: int, output_size: int, *, bias: bool
) -> tuple[Module, ...]:
    """Return what joins neighbouring patches; `bias` is that of its norm."""
    merged = size * patches
    return (
        blocks.norms(f"{name}.ln_q", size, bias=bias),
        blocks.column(f"{name}.mlp.0", merged, merged, bias=True),
        blocks.row(f"{name}.mlp.2", merged, output_size, bias=True),
    )


def _qwen3_merger(facts: Facts, name: str, *, norm_size: int) -> tuple[Module, ...]:
    size, output = facts.integers("hidden_size", "out_hidden_size")
    merged = size * facts.integer("spatial_merge_size") ** 2
    return (
        blocks.norms(f"{name}.norm", norm_size, bias=True),
        blocks.column(f"{name}.linear_fc1", merged, merged, bias=True),
        blocks.row(f"{name}.linear_fc2", merged, output, bias=True),
    )


def _tower(
    modules: tuple[Module, ...],
    largest: tuple[MediaItem, ...],
    *,
    supports_data_parallel: bool = True,
    **facts: Any,  # noqa: ANN401 - fields of Tower
) -> Tower:
    return Tower(
        IMAGE_AND_VIDEO,
        modules,
        items=largest,
        supports_data_parallel=supports_data_parallel,
        **facts,
    )
