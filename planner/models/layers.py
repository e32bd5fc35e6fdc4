"""The layers that vLLM builds models from, and the tensors each puts on one rank.

One class per vLLM layer class, under its name. `tensors(layout)` lists the tensors of a
rank; bytes follow from their dtypes. Every module names the part of the weights it
belongs to, as the breakdown shows them.

A linear layer gets its weight from its quantisation method, when it has one
(`planner.models.quantization` assigns them). The names in `shards` are the checkpoint's
layers that vLLM packs into one; checkpoints name exceptions by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, replace
from enum import StrEnum
from math import prod
from typing import Any, Protocol, TypeAlias

from planner.engine.generations import DATACENTER_BLACKWELL, HOPPER
from planner.engine.layout import ParallelLayout, divide, pad_vocabulary
from planner.errors import Refused
from planner.models.tensors import LinearMethod, LinearOnRank, Tensor, Tensors
from planner.values import frozen


class Part(StrEnum):
    """Parts of the weights, in the order a model uses them."""

    EMBEDDINGS = "embeddings"
    TOWERS = "encoder weights"
    ATTENTION = "attention"
    MIXERS = "state-space and linear attention"
    MLP = "mlp"
    ROUTER = "router"
    EXPERTS = "experts"
    SHARED_EXPERTS = "shared experts"
    HYPER_CONNECTIONS = "hyper-connections"
    NORMS = "norms"
    LM_HEAD = "lm_head"
    CLASSIFIER = "classifier"
    LORA = "LoRA adapters"
    DRAFT = "draft model"
    BUFFERS = "buffers"


class Module(Protocol):
    """Anything of a model that puts tensors on a rank."""

    @property
    def name(self) -> str:
        """Name within its layer, or in full outside of one, as in vLLM."""
        ...

    @property
    def part(self) -> Part:
        """Which part of the weights it counts to."""
        ...

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return each tensor on a rank."""
        ...


@frozen(kw_only=False)
class Replicated:
    """Tensors that every rank holds in full, never quantised: norms, scalars.

    Covers vLLM's RMSNorm, LayerNorm, nn.Embedding, buffers and unquantised gates.
    """

    name: str
    part: Part
    shapes: tuple[tuple[int, ...], ...]
    dtype: str | None = None
    """None: the model's dtype."""

    def tensors(self, layout: ParallelLayout) -> Tensors:  # noqa: ARG002
        """Return each tensor on a rank."""
        return tuple(Tensor(prod(shape), self.dtype) for shape in self.shapes)


@frozen
class Condition:
    """What a class requires of the layout; it holds nothing."""

    name: str
    part: Part
    check: Callable[[ParallelLayout], object]
    """Raises the refusal."""

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return nothing.

        Raises:
            Refused: or UnknownArchitecture, for a layout that does not meet it.
        """
        self.check(layout)
        return ()


@frozen(kw_only=False)
class TokenBuffer:
    """Buffers with a row for each token of a step, alike on every rank."""

    name: str
    columns: int
    count: int = 1
    part: Part = Part.BUFFERS
    dtype: str | None = None

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return each buffer on a rank."""
        rows = layout.max_num_batched_tokens
        return (Tensor(rows * self.columns, self.dtype),) * self.count


@frozen(kw_only=False)
class Sharded:
    """Tensors whose first dimension is divided over the ranks, never quantised.

    Covers the parameters of state-space mixers, sinks per head and the like.
    """

    name: str
    part: Part
    shapes: tuple[tuple[int, ...], ...]
    dtype: str | None = None

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return each tensor on a rank."""
        ranks = layout.tensor_parallel_size
        return tuple(
            Tensor(divide(shape[0], ranks) * prod(shape[1:]), self.dtype)
            for shape in self.shapes
        )


@frozen(kw_only=False)
class Linear:
    """What linear layers have in common."""

    name: str
    _: KW_ONLY
    bias: bool = False
    dtype: str | None = None
    shards: tuple[str, ...] = ()
    is_quantizable: bool = True
    """False where vLLM's class does not pass the quantisation on."""
    method: LinearMethod | None = None

    def on_rank(
        self, layout: ParallelLayout, *rows: int, inputs: tuple[int, int], outputs: int
    ) -> Tensors:
        """Return weight and bias on a rank, by the method or unquantised.

        `rows` are its outputs of each layer merged into this one, `outputs` those of
        all ranks; `inputs` are those of all ranks, and its own.
        """
        bias = (Tensor(sum(rows), self.dtype),) if self.bias else ()
        if self.method is None:
            return (Tensor(sum(rows) * inputs[1], self.dtype), *bias)
        on_rank = LinearOnRank(
            name=self.name,
            input_size=inputs[0],
            output_size=outputs,
            input_size_per_partition=inputs[1],
            output_partition_sizes=rows,
            has_bias=self.bias,
            is_replicated=isinstance(self, ReplicatedLinear),
        )
        return (*self.method.tensors(on_rank, layout), *bias)


@frozen(kw_only=False)
class ReplicatedLinear(Linear):
    """A linear layer that every rank holds in full.

    Source: vLLM 0.33.0 `layers/linear.py` ReplicatedLinear, MergedReplicatedLinear.
    """

    part: Part
    input_size: int
    output_sizes: tuple[int, ...]

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return weight and bias on a rank."""
        inputs, outputs = (self.input_size, self.input_size), sum(self.output_sizes)
        return self.on_rank(layout, *self.output_sizes, inputs=inputs, outputs=outputs)


@frozen(kw_only=False)
class ColumnParallelLinear(Linear):
    """A linear layer divided along its outputs, of which several may be merged.

    Source: vLLM 0.33.0 `layers/linear.py` ColumnParallelLinear and
    MergedColumnParallelLinear.
    """

    part: Part
    input_size: int
    output_sizes: tuple[int, ...]

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return weight and bias on a rank."""
        rows = (divide(size, layout.tensor_parallel_size) for size in self.output_sizes)
        inputs, outputs = (self.input_size, self.input_size), sum(self.output_sizes)
        return self.on_rank(layout, *rows, inputs=inputs, outputs=outputs)


@frozen
class QKVParallelLinear(Linear):
    """Query, key and value in one; KV heads are repeated when there are too few.

    Source: vLLM 0.33.0 `layers/linear.py` QKVParallelLinear.
    """

    input_size: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    head_size_v: int | None = None
    """Of the values, where it differs from that of the keys."""
    part: Part = Part.ATTENTION
    shards: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return weight and bias on a rank."""
        ranks = layout.tensor_parallel_size
        heads = divide(self.num_heads, ranks)
        kv_heads = kv_heads_per_rank(self.num_kv_heads, layout)
        size_v = self.head_size if self.head_size_v is None else self.head_size_v
        rows = (heads * self.head_size, kv_heads * self.head_size, kv_heads * size_v)
        inputs, outputs = (self.input_size, self.input_size), sum(rows) * ranks
        return self.on_rank(layout, *rows, inputs=inputs, outputs=outputs)


@frozen(kw_only=False)
class RowParallelLinear(Linear):
    """A linear layer divided along its inputs; every rank holds the whole bias.

    Source: vLLM 0.33.0 `layers/linear.py` RowParallelLinear.
    """

    part: Part
    input_size: int
    output_size: int

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return weight and bias on a rank."""
        inputs = self.input_size, divide(self.input_size, layout.tensor_parallel_size)
        size = self.output_size
        return self.on_rank(layout, size, inputs=inputs, outputs=size)


AnyLinear: TypeAlias = (
    ColumnParallelLinear | QKVParallelLinear | ReplicatedLinear | RowParallelLinear
)


@frozen
class LinearByLayout(Linear):
    """A linear layer whose class or sizes depend on the layout."""

    part: Part

    def as_linear(self, layout: ParallelLayout) -> AnyLinear:
        """Return vLLM's layer."""
        raise NotImplementedError

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return weight and bias on a rank."""
        return self.as_linear(layout).tensors(layout)


@frozen
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

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return the query norm and the key norm on a rank."""
        heads = divide(self.num_heads, layout.tensor_parallel_size)
        kv_heads = kv_heads_per_rank(self.num_kv_heads, layout)
        return (
            Tensor(heads * self.head_size, self.dtype),
            Tensor(kv_heads * self.head_size, self.dtype),
        )


@frozen(kw_only=False)
class VocabParallelEmbedding(Linear):
    """Word embeddings or the LM head: vocabulary padded to 64, cut by rows.

    Source: vLLM 0.33.0 `layers/vocab_parallel_embedding.py` VocabParallelEmbedding
    and ParallelLMHead.
    """

    num_embeddings: int
    embedding_dim: int
    part: Part = Part.EMBEDDINGS

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return weight and bias on a rank."""
        padded = pad_vocabulary(self.num_embeddings)
        rows = divide(padded, layout.tensor_parallel_size)
        inputs = (self.embedding_dim, self.embedding_dim)
        return self.on_rank(layout, rows, inputs=inputs, outputs=padded)


@frozen
class Float32Gate:
    """A router that computes in float32, in full on every rank and never quantised.

    Where no kernel computes in float32 from narrower weights, vLLM holds them in
    float32.

    Source: vLLM 0.33.0 `layers/fused_moe/router/gate_linear.py` GateLinear with
    force_fp32_compute.
    """

    name: str
    num_experts: int
    hidden_size: int
    part: Part = Part.ROUTER

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return the weight on a rank."""
        major, minor = layout.compute_capability
        has_kernel = (major, minor) == HOPPER or major == DATACENTER_BLACKWELL.major
        elements = self.num_experts * self.hidden_size
        return (Tensor(elements, None if has_kernel else "float32"),)

    def as_linear(
        self,
        layout: ParallelLayout,  # noqa: ARG002 - other gates depend on it
    ) -> ReplicatedLinear:
        """Return vLLM's layer."""
        return ReplicatedLinear(
            self.name, self.part, self.hidden_size, (self.num_experts,)
        )


def prefixed(modules: Iterable[Any], prefix: str) -> tuple[Module, ...]:
    """Return modules with a prefix put before their names."""
    return tuple(replace(one, name=f"{prefix}{one.name}") for one in modules)


def kv_heads_per_rank(num_kv_heads: int, layout: ParallelLayout) -> int:
    """Return the KV heads on one rank: a share of them, or a copy of one.

    Raises:
        Refused: when neither divides the other, which vLLM's classes assert without
            words.

    Source: vLLM 0.33.0 `layers/linear.py` QKVParallelLinear.__init__; before it,
    `models/llama.py` LlamaAttention and the class of most other models.
    """
    ranks = layout.tensor_parallel_size
    if ranks % num_kv_heads and num_kv_heads % ranks:
        raise Refused(
            f"AssertionError: (vLLM says no more: of {num_kv_heads} KV heads and "
            f"{ranks} ranks of tensor parallelism, neither divides the other)"
        )
    return max(1, num_kv_heads // ranks)
