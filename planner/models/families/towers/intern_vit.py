"""A layer of InternViT, and of RADIO, which has the same."""

from __future__ import annotations

from dataclasses import replace

from planner.models.families.towers import blocks
from planner.models.layers import Module
from planner.values import frozen


@frozen
class InternShape:
    """A layer of InternViT: dummy heads fill up to the tensor-parallel size."""

    sizes: blocks.Sizes
    num_dummy_heads: int = 0
    qkv_bias: bool = True
    has_qk_norm: bool = False
    norm_bias: bool = True


def intern_layer(name: str, shape: InternShape) -> tuple[Module, ...]:
    """Return a layer; ranks that do not divide its heads hold its attention whole."""
    size, mlp = shape.sizes.width, shape.sizes.mlp
    heads = shape.sizes.heads + shape.num_dummy_heads
    head_size = size // shape.sizes.heads
    wide = heads * head_size
    qkv = replace(
        blocks.qkv(f"{name}.attn.qkv", size, heads, bias=shape.qkv_bias),
        head_size=head_size,
    )
    proj = blocks.row(f"{name}.attn.proj", wide, size, bias=True)
    norm = blocks.norms(f"{name}.attn.qk_norm", wide, count=2, bias=False)
    return (
        blocks.WholeUnlessDivided(name=qkv.name, layer=qkv, num_heads=heads),
        blocks.WholeUnlessDivided(name=proj.name, layer=proj, num_heads=heads),
        *blocks.plain_mlp(f"{name}.mlp.fc1", f"{name}.mlp.fc2", size, mlp),
        blocks.norms(f"{name}.norm", size, count=2, bias=shape.norm_bias),
        blocks.replicated(f"{name}.ls", (size,), (size,)),
        *((norm,) if shape.has_qk_norm else ()),
    )
