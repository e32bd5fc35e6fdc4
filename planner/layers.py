"""The layers that vLLM builds models from, and the tensors each puts on one rank.

One class per vLLM layer class, under its name. `tensors(layout)` lists the tensors of a
rank as numbers of elements; bytes follow from the dtype. Every module names the part of
the weights it belongs to, which is what a reader sees in the breakdown.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod

from planner.errors import Refused
from planner.parallel import (
    DATACENTER_BLACKWELL,
    ParallelLayout,
    divide,
    pad_vocabulary,
)


class Part(StrEnum):
    """Parts of the weights, in the order a model uses them."""

    EMBEDDINGS = "embeddings"
    ATTENTION = "attention"
    MLP = "mlp"
    ROUTER = "router"
    EXPERTS = "experts"
    SHARED_EXPERTS = "shared experts"
    NORMS = "norms"
    LM_HEAD = "lm_head"
    CLASSIFIER = "classifier"
    BUFFERS = "buffers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicated:
    """Tensors that every rank holds in full: norms, router gates, scalars.

    Covers vLLM's RMSNorm, LayerNorm, ReplicatedLinear, nn.Embedding and buffers.
    """

    name: str
    part: Part
    shapes: tuple[tuple[int, ...], ...]
    dtype: str | None = None
    """None: the model's dtype."""

    def tensors(self, layout: ParallelLayout) -> tuple[int, ...]:  # noqa: ARG002
        """Elements of each tensor on a rank."""
        return tuple(prod(shape) for shape in self.shapes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnParallelLinear:
    """A linear layer cut along its outputs; several outputs may be merged in one.

    Source: vLLM 0.33.0 `layers/linear.py` ColumnParallelLinear and
    MergedColumnParallelLinear.
    """

    name: str
    part: Part
    input_size: int
    output_sizes: tuple[int, ...]
    bias: bool = False
    dtype: str | None = None

    def tensors(self, layout: ParallelLayout) -> tuple[int, ...]:
        """Elements of weight and bias on a rank."""
        rows = sum(
            divide(size, layout.tensor_parallel_size) for size in self.output_sizes
        )
        return (rows * self.input_size, *((rows,) if self.bias else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class QKVParallelLinear:
    """Query, key and value in one; KV heads are repeated when there are too few.

    Source: vLLM 0.33.0 `layers/linear.py` QKVParallelLinear.
    """

    name: str
    input_size: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    bias: bool = False
    part: Part = Part.ATTENTION
    dtype: str | None = None

    def tensors(self, layout: ParallelLayout) -> tuple[int, ...]:
        """Elements of weight and bias on a rank."""
        heads = divide(self.num_heads, layout.tensor_parallel_size)
        kv_heads = kv_heads_per_rank(self.num_kv_heads, layout)
        rows = (heads + 2 * kv_heads) * self.head_size
        return (rows * self.input_size, *((rows,) if self.bias else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowParallelLinear:
    """A linear layer cut along its inputs; every rank holds the whole bias.

    Source: vLLM 0.33.0 `layers/linear.py` RowParallelLinear.
    """

    name: str
    part: Part
    input_size: int
    output_size: int
    bias: bool = False
    dtype: str | None = None

    def tensors(self, layout: ParallelLayout) -> tuple[int, ...]:
        """Elements of weight and bias on a rank."""
        columns = divide(self.input_size, layout.tensor_parallel_size)
        return (columns * self.output_size, *((self.output_size,) if self.bias else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class QKNormPerRank:
    """Query and key norms over all heads, of which a rank holds its own.

    Source: vLLM 0.33.0 `models/minimax_m2.py` MiniMaxText01RMSNormTP and
    `models/commandr.py` CohereAttention (use_qk_norm).
    """

    name: str
    num_heads: int
    num_kv_heads: int
    head_size: int
    part: Part = Part.NORMS
    dtype: str | None = None

    def tensors(self, layout: ParallelLayout) -> tuple[int, ...]:
        """Elements of the query norm and the key norm on a rank."""
        heads = divide(self.num_heads, layout.tensor_parallel_size)
        kv_heads = kv_heads_per_rank(self.num_kv_heads, layout)
        return (heads * self.head_size, kv_heads * self.head_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabParallelEmbedding:
    """Word embeddings or the LM head: vocabulary padded to 64, cut by rows.

    Source: vLLM 0.33.0 `layers/vocab_parallel_embedding.py` VocabParallelEmbedding
    and ParallelLMHead.
    """

    name: str
    num_embeddings: int
    embedding_dim: int
    bias: bool = False
    part: Part = Part.EMBEDDINGS
    dtype: str | None = None

    def tensors(self, layout: ParallelLayout) -> tuple[int, ...]:
        """Elements of weight and bias on a rank."""
        padded = pad_vocabulary(self.num_embeddings)
        rows = divide(padded, layout.tensor_parallel_size)
        return (rows * self.embedding_dim, *((rows,) if self.bias else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedMoE:
    """The routed experts of a layer: w13 (gate and up) and w2 (down).

    Source: vLLM 0.33.0 `layers/fused_moe/routed_experts.py` and
    `layers/fused_moe/unquantized_fused_moe_method.py` create_weights.
    """

    name: str
    num_experts: int
    top_k: int
    hidden_size: int
    intermediate_size: int
    is_renormalized: bool = True
    """Whether the chosen experts' weights are scaled to add up to one."""
    bias: bool = False
    part: Part = Part.EXPERTS
    dtype: str | None = None

    def uses_trtllm(self, layout: ParallelLayout) -> bool:
        """Whether FlashInfer's TRT-LLM kernel serves the experts.

        Source: vLLM 0.33.0 `layers/fused_moe/oracle/unquantized.py`;
        `layers/fused_moe/experts/trtllm_bf16_moe.py`.
        """
        is_blackwell = layout.compute_capability[0] == DATACENTER_BLACKWELL
        return is_blackwell and self.is_renormalized

    def intermediate_size_per_rank(self, layout: ParallelLayout) -> int:
        """Columns of one expert on a rank, padded as its kernel wants them.

        Raises:
            Refused: when the ranks do not divide the intermediate size.
        """
        ranks = layout.experts_tensor_parallel_size
        if self.intermediate_size % ranks:
            # vLLM stops with a bare assertion here (fused_moe/config.py).
            raise Refused(
                f"AssertionError: intermediate_size {self.intermediate_size} "
                f"% tp_size {ranks} == 0"
            )
        columns = self.intermediate_size // ranks
        return -(-columns // 128) * 128 if self.uses_trtllm(layout) else columns

    def tensors(self, layout: ParallelLayout) -> tuple[int, ...]:
        """Elements of w13 and w2 (and their biases) on a rank."""
        experts = layout.local_num_experts(self.num_experts)
        columns = self.intermediate_size_per_rank(layout)
        weights = (
            experts * 2 * columns * self.hidden_size,
            experts * self.hidden_size * columns,
        )
        if not self.bias:
            return weights
        return (*weights, experts * 2 * columns, experts * self.hidden_size)


Module = (
    Replicated
    | ColumnParallelLinear
    | QKVParallelLinear
    | RowParallelLinear
    | QKNormPerRank
    | VocabParallelEmbedding
    | FusedMoE
)


def kv_heads_per_rank(num_kv_heads: int, layout: ParallelLayout) -> int:
    """KV heads on one rank: a share of them, or a copy of one.

    Raises:
        Refused: when neither divides the other.

    Source: vLLM 0.33.0 `layers/linear.py` QKVParallelLinear.__init__.
    """
    ranks = layout.tensor_parallel_size
    if ranks >= num_kv_heads:
        divide(ranks, num_kv_heads)
        return 1
    return divide(num_kv_heads, ranks)
