"""SigLIP 2 for images of any shape, as Liquid's and Phi's models have it."""

from __future__ import annotations

from planner.models.families.facts import Facts
from planner.models.families.towers import blocks
from planner.models.layers import Module, Part, ReplicatedLinear


def siglip2_vision(
    facts: Facts,
    name: str,
    *,
    num_layers: int | None = None,
    has_post_norm: bool = True,
) -> tuple[Module, ...]:
    """Return the vision model, with fewer layers than it has where configured.

    Source: vLLM 0.33.0 `models/lfm2_siglip2.py` Siglip2Model.
    """
    size, patch = facts.integer("hidden_size"), facts.integer("patch_size")
    channels, heads = (
        facts.integer("num_channels"),
        facts.integer("num_attention_heads"),
    )
    name = f"{name}.vision_model"
    modules: list[Module] = [
        ReplicatedLinear(
            name=f"{name}.embeddings.patch_embedding",
            part=Part.TOWERS,
            input_size=channels * patch * patch,
            output_sizes=(size,),
            bias=True,
            is_quantizable=False,
        ),
        blocks.replicated(
            f"{name}.embeddings.position_embedding",
            (facts.integer("num_patches"), size),
        ),
    ]
    built = facts.integer("num_hidden_layers") if num_layers is None else num_layers
    for index in range(built):
        layer = f"{name}.encoder.layers.{index}"
        modules += [
            blocks.norms(f"{layer}.layer_norm", size, count=2, bias=True),
            blocks.qkv(
                f"{layer}.self_attn.qkv_proj",
                size,
                heads,
                bias=True,
                shards=blocks.QKV_SHARDS,
            ),
            blocks.row(f"{layer}.self_attn.out_proj", size, size, bias=True),
            *blocks.plain_mlp(
                f"{layer}.mlp.fc1",
                f"{layer}.mlp.fc2",
                size,
                facts.integer("intermediate_size"),
            ),
        ]
    if has_post_norm:
        modules.append(blocks.norms(f"{name}.post_layernorm", size, bias=True))
    return tuple(modules)
