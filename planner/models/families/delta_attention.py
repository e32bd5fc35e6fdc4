"""Kimi delta attention: linear attention with a state per head, and its projections."""

from __future__ import annotations

from planner.engine.generations import (
    DATACENTER_BLACKWELL,
    HOPPER,
    WORKSTATION_BLACKWELL,
)
from planner.engine.layout import ParallelLayout, divide
from planner.models.layers import Linear, Module, Part, Replicated, Sharded
from planner.models.tensors import Tensor, Tensors
from planner.values import frozen

_FUSED_HEADS = (12, 24, 48, 96)
_FUSED_HEAD_SIZE = 128
_FUSED_KERNEL = 4


@frozen(kw_only=False)
class PartlyDividedLinear(Linear):
    """Several projections in one, of which ranks divide some and hold the others whole.

    Source: vLLM 0.33.0 `layers/mamba/gdn/kimi_gdn_linear_attn.py`
    _KimiGDNMergedColumnParallelLinear; `models/kimi_k3/nvidia/mla.py`
    KimiK3MergedQKVGateLinear.
    """

    part: Part
    input_size: int
    divided: tuple[int, ...]
    """Outputs of each projection that the ranks divide."""
    whole: tuple[int, ...]
    """Outputs of each that every rank holds."""
    row_multiple: int = 1
    """Of which the rows on a rank are filled up to a multiple."""

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return the weight on a rank."""
        ranks = layout.tensor_parallel_size
        rows = (*(divide(size, ranks) for size in self.divided), *self.whole)
        padding = -sum(rows) % self.row_multiple
        parts = (*rows, padding) if padding else rows
        inputs, outputs = (self.input_size, self.input_size), sum(parts) * ranks
        return self.on_rank(layout, *parts, inputs=inputs, outputs=outputs)


def delta_parameters(
    name: str, heads: int, *convolutions: tuple[int, int], head_size: int
) -> tuple[Module, ...]:
    """Return the biases of steps and decays with the convolutions, and the norm."""
    wide = heads * head_size
    shapes = ((wide,), (heads,), *convolutions)
    return (
        Sharded(f"{name}.dt_bias", Part.MIXERS, shapes, dtype="float32"),
        Replicated(f"{name}.o_norm", Part.NORMS, ((head_size,),)),
    )


@frozen
class FusedDecodeCopies:
    """The convolution and the norm once more, as one kernel of decoding reads them.

    Source: vLLM 0.33.0 `models/kimi_k3/nvidia/kda.py` is_fused_kda_decode_supported,
    KimiK3DeltaAttention.
    """

    name: str
    num_heads: int
    head_size: int
    kernel: int
    part: Part = Part.BUFFERS

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return the copies on a rank, none where the kernel is not used."""
        heads = divide(self.num_heads, layout.tensor_parallel_size)
        is_fused = (
            heads in _FUSED_HEADS
            and self.head_size == _FUSED_HEAD_SIZE
            and self.kernel == _FUSED_KERNEL
            and layout.dtype == "bfloat16"
            and layout.compute_capability[0]
            in (HOPPER.major, DATACENTER_BLACKWELL.major, WORKSTATION_BLACKWELL.major)
        )
        if not is_fused:
            return ()
        convolution = 3 * self.kernel * heads * self.head_size
        return (Tensor(convolution, "float32"), Tensor(self.head_size, "float32"))
