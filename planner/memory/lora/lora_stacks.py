"""The adapters' tensors beside the layers of a model, layer by layer.

Source: vLLM 0.33.0 `lora/layers/` create_lora_weights, `lora/punica_wrapper/`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

from planner.engine.layout import ParallelLayout, divide, pad_vocabulary
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.models.layers import (
    ColumnParallelLinear,
    Part,
    QKVParallelLinear,
    ReplicatedLinear,
    RowParallelLinear,
    VocabParallelEmbedding,
    kv_heads_per_rank,
)
from planner.models.tensors import Tensor, Tensors
from planner.values import frozen

_EXTRA_VOCABULARY = 256
HEAD_PADDING = 256
"""Padding of a head with room for added words (lora_vocab_padding_size)."""

_PAIR = 2
_ADDS_WORDS = Change(
    until=(0, 12),
    what=(
        "Each adapter may add 256 words to the vocabulary (lora_extra_vocab_size), for "
        "which embeddings and head have room."
    ),
    source="vLLM 0.11.2 `config/lora.py` lora_extra_vocab_size",
)
_SPLITS_MANY_OUTPUTS = Change(
    since=(0, 15),
    what=(
        "For adapters, each output of a layer that merges three or more has its own "
        "pair of factors, unless adapters are fully sharded."
    ),
)
_ADAPTS_CLASSIFIERS = Change(
    since=(0, 31),
    what="Each adapter may have a classification head of its own.",
    source="vLLM 0.31.0 `lora/layers/classifier.py` BaseClassificationHeadWithLoRA",
)
_INDEXES_EMBEDDINGS_TWICE = Change(
    until=(0, 29),
    what="The index buffers of adapters have two rows for word embeddings, not one.",
)
_INDEXES_LONG_CONTEXTS = Change(
    until=(0, 10),
    what="Adapters have an index buffer for long contexts.",
)
_INDEXES_PROMPTS_BY_TOKEN = Change(
    since=(0, 11, 1),
    what=(
        "The index buffers of adapters for prompts have an entry for each token of a "
        "step. Before, one for each request."
    ),
)

Linear = QKVParallelLinear | ColumnParallelLinear | RowParallelLinear | ReplicatedLinear


@runtime_checkable
class PackedLinear(Protocol):
    """A family's own linear layer, which can return vLLM's layer on given ranks."""

    @property
    def name(self) -> str:
        """Name within its layer."""
        ...

    def as_linear(self, layout: ParallelLayout) -> Linear:
        """Return vLLM's layer."""
        ...


class Pieces(NamedTuple):
    """Sizes of the two factors of a linear layer on a rank."""

    inputs: int
    rank_rows: int
    """Rows of each first factor."""
    outputs: tuple[int, ...]
    """Rows of each second factor."""


def plain_linear(base: Linear | PackedLinear, layout: ParallelLayout) -> Linear:
    """Return the layer as an instance of one of vLLM's general classes."""
    return base if isinstance(base, Linear) else base.as_linear(layout)


@frozen
class LoRAConfig:
    """The adapter slots of a rank.

    Source: vLLM 0.33.0 `config/lora.py` LoRAConfig.
    """

    max_loras: int = 1
    max_lora_rank: int = 16
    dtype: str | None = None
    """None: the model's."""
    is_fully_sharded: bool = False
    max_num_seqs: int = 0
    is_on_cpu: bool = False
    """Whether PyTorch applies the factors, without the index buffers of kernels."""
    targets: tuple[str, ...] | None = None
    """lora_target_modules: names of the only layers to change; None: all."""
    forces_2d_experts: bool = False
    """enable_mixed_moe_lora_format: gate and up projections of experts are separate."""
    shares_expert_factors: bool = False
    """enable_moe_shared_loras: one outer factor for all experts of a layer."""
    has_graphs_by_count: bool = False
    """specialize_active_lora: CUDA graphs by the number of adapters in a batch."""
    reaches_towers: bool = False
    """enable_tower_connector_lora: adapters may change encoders as well."""
    max_cls_labels: int | None = None
    """max_lora_cls_labels: outputs of an adapter's own classification head."""
    release: Release

    @property
    def extra_vocabulary(self) -> int:
        """Rows that each adapter may add to the word embeddings."""
        return _EXTRA_VOCABULARY if self.release.has(_ADDS_WORDS) else 0

    def rank_per_gpu(self, layout: ParallelLayout) -> int:
        """Rows of the first factor of a layer that is sharded along its outputs.

        Raises:
            Refused: when fully sharded adapters cannot be divided.
        """
        if not self.is_fully_sharded:
            return self.max_lora_rank
        return divide(self.max_lora_rank, layout.tensor_parallel_size)


@frozen
class Stacks:
    """What each adapter has beside a module of the model."""

    base: Any
    config: LoRAConfig
    part: Part = Part.LORA

    @property
    def name(self) -> str:
        """Name of the module."""
        name: str = self.base.name
        return name


@frozen
class LinearStacks(Stacks):
    """Both factors of each adapter for a linear layer, for each of its pieces.

    Source: vLLM 0.33.0 `lora/layers/base_linear.py` and `column_parallel_linear.py`
    create_lora_weights.
    """

    base: Linear | PackedLinear
    num_packed: int = 0
    """Layers of an adapter that vLLM's class packs into this one; 0: not declared."""

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return the stacked first factors, then the second ones; none if unwrapped."""
        pieces = self.pieces(layout)
        if pieces is None:
            return ()
        rank, slots = self.config.max_lora_rank, self.config.max_loras
        inputs, rank_rows, outputs = pieces
        first = Tensor(slots * rank_rows * inputs, self.config.dtype)
        return (
            *((first,) * len(outputs)),
            *(Tensor(slots * rows * rank, self.config.dtype) for rows in outputs),
        )

    def pieces(self, layout: ParallelLayout) -> Pieces | None:
        """Return the sizes of the factors; None where vLLM does not wrap the layer."""
        base = plain_linear(self.base, layout)
        rank = self.config.max_lora_rank
        if isinstance(base, RowParallelLinear):
            ranks, rows = layout.tensor_parallel_size, base.output_size
            if self.config.is_fully_sharded:
                rows = divide(rows, ranks)
            return Pieces(divide(base.input_size, ranks), rank, (rows,))
        if isinstance(base, QKVParallelLinear):
            return self._of_attention(base, layout)
        if isinstance(base, ColumnParallelLinear):
            return self._of_columns(base, layout)
        if len(base.output_sizes) == 1:
            return Pieces(base.input_size, rank, base.output_sizes)
        # vLLM's class for several columns, none of which is sharded.
        return self._of_columns(
            ColumnParallelLinear(
                base.name, base.part, base.input_size, base.output_sizes
            ),
            replace(layout, tensor_parallel_size=1),
        )

    def _of_attention(
        self, base: QKVParallelLinear, layout: ParallelLayout
    ) -> Pieces | None:
        """Return one pair for each of query, key and value, or one for all three."""
        heads = divide(base.num_heads, layout.tensor_parallel_size)
        kv_heads = kv_heads_per_rank(base.num_kv_heads, layout)
        rank_rows = self.config.rank_per_gpu(layout)
        # vLLM assumes that the values are as wide as the keys.
        kv_rows = kv_heads * base.head_size
        outputs: tuple[int, ...] = (heads * base.head_size, kv_rows, kv_rows)
        if self.num_packed == 1:
            size_v = base.head_size if base.head_size_v is None else base.head_size_v
            outputs = (outputs[0] + kv_rows + kv_heads * size_v,)
        elif self.num_packed != len(outputs):
            return None
        return Pieces(base.input_size, rank_rows, outputs)

    def _of_columns(
        self, base: ColumnParallelLinear, layout: ParallelLayout
    ) -> Pieces | None:
        """Return one pair for each output merged in the layer, or one for all."""
        ranks, config = layout.tensor_parallel_size, self.config
        outputs = tuple(divide(size, ranks) for size in base.output_sizes)
        sizes = Pieces(base.input_size, config.rank_per_gpu(layout), outputs)
        if len(outputs) == 1:
            return sizes
        whole = sizes._replace(outputs=(sum(outputs),))
        splits_many = config.release.has(_SPLITS_MANY_OUTPUTS)
        if self.num_packed == _PAIR:
            return sizes
        if len(outputs) > _PAIR and splits_many:
            return None if config.is_fully_sharded else sizes
        return whole if self.num_packed == 1 else None


@frozen
class ClassifierStacks(Stacks):
    """Both factors of each adapter for a classification head, and its own head.

    Source: vLLM 0.33.0 `lora/layers/classifier.py` BaseClassificationHeadWithLoRA.
    """

    base: ReplicatedLinear

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return the factors, then each adapter's own weight, bias and flag."""
        config, base = self.config, self.base
        factors = LinearStacks(base=base, config=config).tensors(layout)
        if not config.release.has(_ADAPTS_CLASSIFIERS):
            return factors
        labels = max(sum(base.output_sizes), config.max_cls_labels or 0)
        return (
            *factors,
            Tensor(config.max_loras * labels * base.input_size, config.dtype),
            Tensor(config.max_loras * labels, base.dtype),
            Tensor(config.max_loras, "uint8"),
        )


@frozen
class EmbeddingStacks(Stacks):
    """Both factors of each adapter for word embeddings, unsharded on every rank.

    Source: vLLM 0.33.0 `lora/layers/vocab_parallel_embedding.py`; 0.11.2
    `vocal_parallel_embedding.py` with rows for added words.
    """

    base: VocabParallelEmbedding

    def tensors(self, layout: ParallelLayout) -> Tensors:  # noqa: ARG002
        """Return the stacked factors (and the added words)."""
        config, width = self.config, self.base.embedding_dim
        extra = config.extra_vocabulary
        rows = config.max_loras * config.max_lora_rank
        factors = (
            Tensor(rows * (self.base.num_embeddings + extra), config.dtype),
            Tensor(rows * width, config.dtype),
        )
        added = Tensor(config.max_loras * extra * width)
        return (*factors, added) if extra else factors


@frozen
class LogitsStacks:
    """Both factors of each adapter for the head, and the order of the ranks' rows.

    Source: vLLM 0.33.0 `lora/layers/logits_processor.py` LogitsProcessorWithLoRA.
    """

    vocab_size: int
    hidden_size: int
    config: LoRAConfig
    name: str = "logits_processor"
    part: Part = Part.LORA

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return the stacked factors (and the added words), then the order."""
        config, width, words = self.config, self.hidden_size, self.vocab_size
        extra = config.extra_vocabulary
        rows = config.max_loras * config.max_lora_rank
        padded = pad_vocabulary(words)
        tensors = [Tensor(rows * width, config.dtype)]
        if extra:
            outputs = round_up(words + extra, HEAD_PADDING)
            padded = round_up(words, HEAD_PADDING) + extra
            tensors += [
                Tensor(rows * outputs, config.dtype),
                Tensor(config.max_loras * extra * width),
            ]
        else:
            tensors.append(Tensor(rows * words, config.dtype))
        if layout.tensor_parallel_size > 1:
            tensors.append(Tensor(padded, "int64"))
        return tuple(tensors)


@frozen
class IndexBuffers:
    """Index buffers: which adapter each token and each sequence of a step uses.

    Source: vLLM 0.33.0 `lora/punica_wrapper/punica_base.py` PunicaWrapperBase and
    `punica_gpu.py`, `lora/ops/triton_ops/lora_kernel_metadata.py` LoRAKernelMeta.make.
    """

    config: LoRAConfig
    tokens: int | None = None
    """Rows of a step; None: max_num_batched_tokens."""
    name: str = "punica_wrapper"
    part: Part = Part.LORA

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return each buffer on a rank."""
        release, slots = self.config.release, self.config.max_loras
        tokens, seqs = self.tokens, self.config.max_num_seqs
        if tokens is None:
            tokens = layout.max_num_batched_tokens
        embeddings = 2 if release.has(_INDEXES_EMBEDDINGS_TWICE) else 1
        by_token = [tokens] * 3 + [embeddings * tokens]
        if release.has(_INDEXES_LONG_CONTEXTS):
            by_token.append(tokens)
        prompts = tokens if release.has(_INDEXES_PROMPTS_BY_TOKEN) else seqs
        indices = (*by_token, seqs, seqs, seqs)
        if self.config.is_on_cpu:
            return tuple(Tensor(elements, "int64") for elements in indices)
        small = (slots + 1, slots + 1, slots + 2)
        counts = (tokens, tokens, *small, prompts, prompts, *small)
        return (
            *(Tensor(elements, "int64") for elements in indices),
            *(Tensor(elements, "int32") for elements in counts),
        )


def round_up(value: int, multiple: int) -> int:
    """Return the smallest multiple that is not below `value`."""
    return -(-value // multiple) * multiple
