"""A layer of InternViT, and of RADIO, which has the same."""

from __future__ import annotations

from dataclasses import replace

from planner.models.families.towers import blocks
from planner.models.layers import Module
from planner.values import frozen


@frozen
class InternShape:
    """A layer of InternViT: dummy heads fill up to the tensor-parallel size."""

    hidden_size: int
    num_heads: int
    num_dummy_heads: int
    intermediate_size: int
    qkv_bias: bool
    has_qk_norm: bool
    norm_bias: bool

    @property
    def total_heads(self) -> int:
        """Heads with the dummies, each a full head of weights."""
        return self.num_heads + self.num_dummy_heads

    @property
    def head_size(self) -> int:
        """A head's share of the hidden size."""
        return self.hidden_size // self.num_heads


def intern_layer(name: str, shape: InternShape) -> tuple[Module, ...]:
    """Return a layer; ranks that do not divide its heads hold its attention whole."""
    size, heads = shape.hidden_size, shape.total_heads
    qkv = replace(
        blocks.qkv(f"{name}.attn.qkv", size, heads, bias=shape.qkv_bias),
        head_size=shape.head_size,
    )
    proj = blocks.row(f"{name}.attn.proj", heads * shape.head_size, size, bias=True)
    modules: tuple[Module, ...] = (
        blocks.WholeUnlessDivided(name=qkv.name, layer=qkv, num_heads=heads),
        blocks.WholeUnlessDivided(name=proj.name, layer=proj, num_heads=heads),
        *blocks.plain_mlp(
            f"{name}.mlp.fc1", f"{name}.mlp.fc2", size, shape.intermediate_size
        ),
        blocks.norms(f"{name}.norm", size, count=2, bias=shape.norm_bias),
        blocks.replicated(f"{name}.ls", (size,), (size,)),
    )
    if not shape.has_qk_norm:
        return modules
    wide = heads * shape.head_size
    return (*modules, blocks.norms(f"{name}.attn.qk_norm", wide, count=2, bias=False))
