"""SigLIP as the library timm has it, the tower of DeepSeek-VL2."""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.engine.layout import ParallelLayout
from planner.models.families.towers import blocks
from planner.models.layers import ColumnParallelLinear, Module, Part, RowParallelLinear
from planner.models.tensors import LinearMethod, Tensor

_SIZE, _MLP_SIZE, _LAYERS, _PATCH, _IMAGE = 1152, 4304, 27, 14, 384
"""Of vit_so400m_patch14_siglip_384, which is built whatever config.json says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DividedWhenSeveral:
    """A linear layer that is torch's own on one rank, and vLLM's on several.

    Source: vLLM 0.33.0 `models/deepseek_vl2.py` patch_vit_for_tp.
    """

    name: str
    layer: ColumnParallelLinear | RowParallelLinear
    part: Part = Part.TOWERS
    is_quantizable: bool = True
    method: LinearMethod | None = None

    @property
    def shards(self) -> tuple[str, ...]:
        """Names of the checkpoint's layers packed in it: none."""
        return self.layer.shards

    def tensors(self, layout: ParallelLayout) -> tuple[Tensor, ...]:
        """Return weight and bias on a rank."""
        method = None if layout.tensor_parallel_size == 1 else self.method
        return replace(self.layer, method=method).tensors(layout)


def timm_siglip(name: str) -> tuple[Module, ...]:
    """Return the vision model with the head that pools its output.

    Attention is whole on every rank; the names of the MLPs have no prefix, as the class
    passes none on.
    """
    square, vector = (_SIZE, _SIZE), (_SIZE,)
    attention = ((3 * _SIZE, _SIZE), (3 * _SIZE,), square, vector)
    patches = (_IMAGE // _PATCH) ** 2
    return (
        blocks.convolution(f"{name}.patch_embed", _SIZE, 3, _PATCH, _PATCH, bias=True),
        blocks.replicated(f"{name}.pos_embed", (1, patches, _SIZE)),
        *(
            module
            for index in range(_LAYERS)
            for module in (
                blocks.norms(f"{name}.blocks.{index}.norm", _SIZE, count=2, bias=True),
                blocks.replicated(f"{name}.blocks.{index}.attn", *attention),
                *_mlp(f"blocks.{index}.mlp"),
            )
        ),
        blocks.norms(f"{name}.norm", _SIZE, bias=True),
        blocks.replicated(f"{name}.attn_pool.latent", (1, 1, _SIZE)),
        blocks.norms(f"{name}.attn_pool.norm", _SIZE, bias=True),
        blocks.replicated(f"{name}.attn_pool.attn", *attention),
        *_mlp("attn_pool.mlp"),
    )


def _mlp(name: str) -> tuple[Module, ...]:
    return tuple(
        DividedWhenSeveral(name=layer.name, layer=layer)
        for layer in blocks.plain_mlp(f"{name}.fc1", f"{name}.fc2", _SIZE, _MLP_SIZE)
    )
