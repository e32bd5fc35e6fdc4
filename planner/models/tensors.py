"""What a quantisation method gets to know of a layer, and the tensors it returns.

Source: vLLM 0.33.0 `layers/linear.py` LinearMethodBase.create_weights,
`layers/fused_moe/fused_moe_method_base.py` FusedMoEMethodBase.create_weights.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeAlias

from planner.engine.layout import ParallelLayout
from planner.values import frozen


class Tensor(NamedTuple):
    """One tensor on one rank."""

    elements: int
    dtype: str | None = None
    """None: the model's dtype."""
    workspace: str | None = None
    """Name of a buffer that a kernel keeps once for all layers of a rank: allocated
    while the model is loaded, but not a weight of any part."""
    unpacked: int = 0
    """Weights that the kernel unpacks to 16 bits at once while it computes."""


Tensors: TypeAlias = tuple[Tensor, ...]


@frozen
class LinearOnRank:
    """A linear layer as vLLM's create_weights sees it on one rank."""

    name: str
    """Full prefix of the (first such) layer, for the texts of refusals."""
    input_size: int
    """Over all ranks."""
    output_size: int
    input_size_per_partition: int
    output_partition_sizes: tuple[int, ...]
    """Rows on this rank of each part merged into the layer (q, k, v; gate, up)."""
    has_bias: bool = False
    is_replicated: bool = False
    """Whether vLLM's class never divides it, whatever the ranks."""

    @property
    def output_size_per_partition(self) -> int:
        """Rows on this rank."""
        return sum(self.output_partition_sizes)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns on this rank."""
        return self.output_size_per_partition, self.input_size_per_partition

    @property
    def is_row_parallel(self) -> bool:
        """Whether the inputs are divided over ranks."""
        return self.input_size != self.input_size_per_partition


@frozen
class ExpertsOnRank:
    """Routed experts as vLLM's create_weights sees them on one rank."""

    name: str
    num_experts: int
    """On this rank."""
    global_num_experts: int
    top_k: int
    hidden_size: int
    intermediate_size: int
    """Before the ranks divide it."""
    intermediate_size_per_partition: int
    is_gated: bool = True
    """False: w13 is the up projection only."""
    has_bias: bool = False
    is_renormalized: bool = True
    activation: str = "silu"
    uses_expert_parallel: bool = False

    @property
    def w13_rows(self) -> int:
        """Rows of gate and up together, or of up only without a gate."""
        return (2 if self.is_gated else 1) * self.intermediate_size_per_partition

    def padded(self, columns: int, hidden_size: int | None = None) -> ExpertsOnRank:
        """Return the experts with the sizes to which a kernel pads them."""
        return replace(
            self,
            intermediate_size_per_partition=columns,
            hidden_size=self.hidden_size if hidden_size is None else hidden_size,
        )

    def each(self, *elements: int, dtype: str | None = None) -> Tensors:
        """Return tensors of which each expert has so many elements."""
        return tuple(Tensor(self.num_experts * n, dtype) for n in elements)

    def weights(self, dtype: str | None, per_element: int = 1) -> Tensors:
        """Return w13 and w2, `per_element` weights packed in an element of `dtype`."""
        return self.each(
            self.w13_rows * (self.hidden_size // per_element),
            self.hidden_size * (self.intermediate_size_per_partition // per_element),
            dtype=dtype,
        )

    def biases(self, dtype: str | None = None) -> Tensors:
        """Return the biases of w13 and w2, none where the model has none."""
        rows = (self.w13_rows, self.hidden_size) if self.has_bias else ()
        return self.each(*rows, dtype=dtype)


class ExpertsKernel(StrEnum):
    """Kernels that compute routed experts, distinguished by the buffers they need."""

    TRITON = "Triton"
    CUTLASS_FP4 = "CUTLASS FP4"
    DEEPGEMM = "DeepGEMM"
    MARLIN = "Marlin"
    HUMMING = "Humming"
    FLASHINFER_CUTLASS = "FlashInfer CUTLASS"
    FLASHINFER_BLOCKS = "FlashInfer block FP8"
    """CUTLASS too; it quantises inputs itself, in blocks, on Hopper."""
    TRTLLM = "FlashInfer TRT-LLM"
    OAI_TRITON = "OpenAI Triton"


class InputCopy(NamedTuple):
    """How a kernel's inputs are quantised: a row of numbers and its scales."""

    bits: int
    scale_bytes: int = 0
    group_size: int = 0
    """Inputs that share a scale; 0: one scale holds for the row."""

    def row_bytes(self, columns: int) -> int:
        """Return the bytes of a quantised row."""
        scales = -(-columns // self.group_size) if self.group_size else 1
        return -(-columns * self.bits // 8) + scales * self.scale_bytes


@frozen
class ServedExperts:
    """Which kernel computes routed experts on a rank, and on what sizes."""

    kernel: ExpertsKernel
    hidden_size: int
    intermediate_size: int
    """Columns of an expert on the rank, as the kernel pads them."""
    keeps_workspace: bool
    """Whether the release takes intermediate results from the shared workspace."""
    input_copy: InputCopy | None = None
    """None: the kernel reads inputs as they are."""
    has_fp4_weights: bool = False
    is_declared: bool = False
    """Whether vLLM's configuration of the layer has the padded sizes."""


class LinearMethod(Protocol):
    """How a linear layer's weight is held once loaded and processed."""

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight and scales; the bias is not the method's.

        Raises:
            Refused: in vLLM's words, for a shape that the method cannot hold.
        """
        ...


class ExpertsMethod(Protocol):
    """How the weights of routed experts are held once loaded and processed."""

    def tensors(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> Tensors:
        """Return weights, scales and biases of all experts on the rank.

        Raises:
            Refused: in vLLM's words, for a shape that the method cannot hold.
        """
        ...

    def served(self, on_rank: ExpertsOnRank, layout: ParallelLayout) -> ServedExperts:
        """Return the kernel that computes the experts, and its sizes."""
        ...
