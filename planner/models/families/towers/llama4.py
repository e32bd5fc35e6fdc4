"""The vision tower of Llama 4; no quantisation reaches it."""

from __future__ import annotations

from collections.abc import Iterable

from planner.models.architecture import Tower
from planner.models.families.facts import Facts
from planner.models.families.towers import blocks, tiles
from planner.models.layers import ColumnParallelLinear, Module, RowParallelLinear


def llama4_towers(facts: Facts, text_size: int) -> tuple[Tower, ...]:
    """Return the vision model, and its projector, which is always cut by the ranks.

    Source: vLLM 0.33.0 `models/mllama4.py` Llama4VisionModel,
    Llama4MultiModalProjector.
    """
    projector = blocks.column(
        "multi_modal_projector.linear_1",
        facts.integer("vision_output_dim"),
        text_size,
        bias=False,
    )
    return (
        Tower(
            modalities=("image",),
            modules=blocks.unquantised(*_vision_model(facts, "vision_model")),
            items=tiles.llama4_items(facts),
            rotates_in_fp32=True,
            supports_data_parallel=True,
        ),
        Tower(modalities=("image",), modules=blocks.unquantised(projector)),
    )


def _vision_model(facts: Facts, name: str) -> Iterable[Module]:
    size, heads = facts.integer("hidden_size"), facts.integer("num_attention_heads")
    mlp_size, patch = facts.integer("intermediate_size"), facts.integer("patch_size")
    positions = (facts.integer("image_size") // patch) ** 2 + 1
    channels = facts.integer("num_channels")
    yield blocks.replicated(
        f"{name}.class_embedding", (size,), (positions, size)
    )  # with the positions' own
    yield blocks.column(
        f"{name}.patch_embedding.linear", channels * patch**2, size, bias=False
    )
    yield blocks.norms(f"{name}.layernorm", size, count=2, bias=True)
    # Complex numbers of 8 bytes, for half of a head's dimensions.
    yield blocks.replicated(
        f"{name}.rotary_emb", (positions, size // heads // 2, 2), dtype="float32"
    )
    for index in range(facts.integer("num_hidden_layers")):
        layer = f"{name}.model.layers.{index}"
        yield from (
            blocks.qkv(f"{layer}.self_attn.qkv_proj", size, heads, bias=True),
            blocks.row(f"{layer}.self_attn.o_proj", size, size, bias=True),
            blocks.norms(f"{layer}.layernorm", size, count=2, bias=True),
        )
        yield from blocks.plain_mlp(
            f"{layer}.mlp.fc1", f"{layer}.mlp.fc2", size, mlp_size
        )
    yield from _adapter(facts, f"{name}.vision_adapter.mlp")


def _adapter(
    facts: Facts, name: str
) -> tuple[ColumnParallelLinear | RowParallelLinear, ...]:
    """Return the layers after the pixel shuffle.

    Source: vLLM 0.33.0 `models/mllama4.py` Llama4VisionPixelShuffleMLP.
    """
    inner = facts.integer("projector_input_dim")
    bias = facts.flag("multi_modal_projector_bias")
    return (
        blocks.column(
            f"{name}.fc1", facts.integer("intermediate_size"), inner, bias=bias
        ),
        blocks.row(
            f"{name}.fc2", inner, facts.integer("projector_output_dim"), bias=bias
        ),
    )
