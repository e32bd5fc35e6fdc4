"""The vision towers of Qwen2-VL, Qwen2.5-VL and Qwen3-VL."""

from __future__ import annotations

from planner.architectures.facts import Facts
from planner.architectures.towers import blocks
from planner.layers import Module, Part, TokenBuffer
from planner.model import Tower

IMAGE_AND_VIDEO = ("image", "video")


def qwen2_vl_tower(facts: Facts, name: str = "visual") -> Tower:
    """Return Qwen2-VL's tower. Source: vLLM 0.33.0 `models/qwen2_vl.py`."""
    size = facts.integer("embed_dim")
    heads = facts.integer("num_heads")
    mlp_size = int(size * facts.value("mlp_ratio"))
    modules: list[Module] = [
        _patch_embedding(facts, name, size, bias=False),
        blocks.input_norm(name),
        blocks.rotary_cache(f"{name}.rotary_pos_emb", size // heads),
    ]
    for index in range(facts.integer("depth")):
        block = f"{name}.blocks.{index}"
        modules += [
            blocks.norms(f"{block}.norm", size, count=2, bias=True),
            blocks.DividedHeads(name=f"{block}.attn", num_heads=heads),
            blocks.column(f"{block}.attn.qkv", size, 3 * size, bias=True),
            blocks.row(f"{block}.attn.proj", size, size, bias=True),
            *blocks.plain_mlp(f"{block}.mlp.fc1", f"{block}.mlp.fc2", size, mlp_size),
        ]
    # The class leaves spatial_merge_size of the merger at its default.
    modules += _merger(
        f"{name}.merger", size, 4, facts.integer("hidden_size"), bias=True
    )
    return _tower(modules)


def qwen2_5_vl_tower(
    facts: Facts, name: str = "visual", *, has_input_norm: bool = True
) -> Tower:
    """Return Qwen2.5-VL's tower. Source: vLLM 0.33.0 `models/qwen2_5_vl.py`."""
    size = facts.integer("hidden_size")
    heads = facts.integer("num_heads")
    modules: list[Module] = [
        _patch_embedding(facts, name, size, bias=False),
        blocks.rotary_cache(f"{name}.rotary_pos_emb", size // heads),
    ]
    if has_input_norm:
        modules.append(blocks.input_norm(name))
    for index in range(facts.integer("depth")):
        block = f"{name}.blocks.{index}"
        modules += [
            blocks.norms(f"{block}.norm", size, count=2, bias=False),
            blocks.qkv(f"{block}.attn.qkv", size, heads, bias=True),
            blocks.row(f"{block}.attn.proj", size, size, bias=True),
            *blocks.gated_mlp(
                f"{block}.mlp", size, facts.integer("intermediate_size"), bias=True
            ),
        ]
    modules += _merger(
        f"{name}.merger",
        size,
        facts.integer("spatial_merge_size") ** 2,
        facts.integer("out_hidden_size"),
        bias=False,
    )
    return _tower(modules)


def qwen3_vl_tower(
    facts: Facts,
    name: str = "visual",
    *,
    deepstack_columns: int,
    has_input_norm: bool = True,
) -> Tower:
    """Return Qwen3-VL's tower.

    Deepstack hands features of some blocks on to the first decoder layers: a merger for
    each and, with `deepstack_columns`, a buffer for the tokens of a step.

    Source: vLLM 0.33.0 `models/qwen3_vl.py` Qwen3_VisionTransformer and
    Qwen3VLForConditionalGeneration.
    """
    size = facts.integer("hidden_size")
    heads = facts.integer("num_heads")
    modules: list[Module] = [
        _patch_embedding(facts, name, size, bias=True),
        blocks.replicated(
            f"{name}.pos_embed", (facts.integer("num_position_embeddings"), size)
        ),
        blocks.rotary_cache(f"{name}.rotary_pos_emb", size // heads),
    ]
    if has_input_norm:
        modules.append(blocks.input_norm(name))
    modules += _qwen3_merger(facts, f"{name}.merger", norm_size=size)
    levels = len(facts.value("deepstack_visual_indexes") or ())
    merged = size * facts.integer("spatial_merge_size") ** 2
    for level in range(levels):
        merger = f"{name}.deepstack_merger_list.{level}"
        modules += _qwen3_merger(facts, merger, norm_size=merged)
    for index in range(facts.integer("depth")):
        block = f"{name}.blocks.{index}"
        modules += [
            blocks.norms(f"{block}.norm", size, count=2, bias=True),
            blocks.qkv(f"{block}.attn.qkv", size, heads, bias=True),
            blocks.row(f"{block}.attn.proj", size, size, bias=True),
            *blocks.plain_mlp(
                f"{block}.mlp.linear_fc1",
                f"{block}.mlp.linear_fc2",
                size,
                facts.integer("intermediate_size"),
            ),
        ]
    if levels and deepstack_columns:
        modules.append(
            TokenBuffer(
                name="deepstack_input_embeds",
                part=Part.TOWERS,
                columns=deepstack_columns,
                count=levels,
            )
        )
    return _tower(modules)


def _patch_embedding(facts: Facts, name: str, size: int, *, bias: bool) -> Module:
    patch = facts.integer("patch_size")
    return blocks.convolution(
        f"{name}.patch_embed.proj",
        size,
        facts.integer("in_channels"),
        facts.integer("temporal_patch_size"),
        patch,
        patch,
        bias=bias,
    )


def _merger(
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
    merged = facts.integer("hidden_size") * facts.integer("spatial_merge_size") ** 2
    return (
        blocks.norms(f"{name}.norm", norm_size, bias=True),
        blocks.column(f"{name}.linear_fc1", merged, merged, bias=True),
        blocks.row(
            f"{name}.linear_fc2", merged, facts.integer("out_hidden_size"), bias=True
        ),
    )


def _tower(modules: list[Module]) -> Tower:
    return Tower(
        modalities=IMAGE_AND_VIDEO,
        modules=tuple(modules),
        supports_data_parallel=True,
    )
