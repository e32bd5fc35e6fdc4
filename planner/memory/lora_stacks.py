"""What adapters keep beside the layers of a model, layer by layer.

Source: vLLM 0.33.0 `lora/layers/` create_lora_weights, `lora/punica_wrapper/`.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.layers import (
    ColumnParallelLinear,
    Part,
    QKVParallelLinear,
    ReplicatedLinear,
    RowParallelLinear,
    VocabParallelEmbedding,
    kv_heads_per_rank,
)
from planner.parallel import ParallelLayout, divide, pad_vocabulary
from planner.releases import Release
from planner.tensors import Tensor

_EXTRA_VOCABULARY = 256
HEAD_PADDING = 256
"""Of the head's vocabulary with adapters (lora_vocab_padding_size), until 0.11.2."""

Linear = QKVParallelLinear | ColumnParallelLinear | RowParallelLinear | ReplicatedLinear


@dataclass(frozen=True, slots=True, kw_only=True)
class LoRAConfig:
    """Adapters that a rank has room for.

    Source: vLLM 0.33.0 `config/lora.py` LoRAConfig.
    """

    max_loras: int = 1
    max_lora_rank: int = 16
    dtype: str | None = None
    """None: the model's."""
    is_fully_sharded: bool = False
    max_num_seqs: int = 0
    release: Release

    @property
    def extra_vocabulary(self) -> int:
        """Rows that each adapter may add to the word embeddings.

        Source: vLLM 0.11.2 `config/lora.py` lora_extra_vocab_size; gone in 0.12.0.
        """
        return 0 if self.release.since(0, 12) else _EXTRA_VOCABULARY

    def rank_per_gpu(self, layout: ParallelLayout) -> int:
        """Rows of the first factor of a layer that is cut along its outputs.

        Raises:
            Refused: when fully sharded adapters cannot be divided.
        """
        if not self.is_fully_sharded:
            return self.max_lora_rank
        return divide(self.max_lora_rank, layout.tensor_parallel_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearStacks:
    """Both factors of each adapter for one linear layer.

    One pair for each layer of the checkpoint that vLLM packs into it.

    Source: vLLM 0.33.0 `lora/layers/base_linear.py` and `column_parallel_linear.py`
    create_lora_weights.
    """

    base: Linear
    config: LoRAConfig
    part: Part = Part.LORA

    @property
    def name(self) -> str:
        """Of the layer."""
        return self.base.name

    def tensors(self, layout: ParallelLayout) -> tuple[Tensor, ...]:
        """Return the stacked first factors, then the second ones."""
        rank, slots = self.config.max_lora_rank, self.config.max_loras
        inputs, rank_rows, outputs = self._shape(layout)
        first = Tensor(slots * rank_rows * inputs, self.config.dtype)
        return (
            *((first,) * len(outputs)),
            *(Tensor(slots * rows * rank, self.config.dtype) for rows in outputs),
        )

    def _shape(self, layout: ParallelLayout) -> tuple[int, int, tuple[int, ...]]:
        """Return inputs, rows of the first factor, rows of each second factor."""
        base, ranks = self.base, layout.tensor_parallel_size
        rank = self.config.max_lora_rank
        if isinstance(base, RowParallelLinear):
            rows = base.output_size
            if self.config.is_fully_sharded:
                rows = divide(rows, ranks)
            return divide(base.input_size, ranks), rank, (rows,)
        if isinstance(base, ReplicatedLinear):
            return base.input_size, rank, (sum(base.output_sizes),)
        outputs: tuple[int, ...]
        if isinstance(base, QKVParallelLinear):
            kv_rows = kv_heads_per_rank(base.num_kv_heads, layout) * base.head_size
            outputs = (divide(base.num_heads, ranks) * base.head_size, kv_rows, kv_rows)
        else:
            outputs = tuple(divide(size, ranks) for size in base.output_sizes)
        if len(base.shards) != len(outputs):
            outputs = (sum(outputs),)
        return base.input_size, self.config.rank_per_gpu(layout), outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingStacks:
    """Both factors of each adapter for word embeddings, whole on every rank.

    Source: vLLM 0.33.0 `lora/layers/vocab_parallel_embedding.py`; 0.11.2
    `vocal_parallel_embedding.py` with rows for added words.
    """

    base: VocabParallelEmbedding
    config: LoRAConfig
    part: Part = Part.LORA

    @property
    def name(self) -> str:
        """Of the embeddings."""
        return self.base.name

    def tensors(self, layout: ParallelLayout) -> tuple[Tensor, ...]:  # noqa: ARG002
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitsStacks:
    """Both factors of each adapter for the head, and the order of its ranks' rows.

    Source: vLLM 0.33.0 `lora/layers/logits_processor.py` LogitsProcessorWithLoRA.
    """

    vocab_size: int
    hidden_size: int
    config: LoRAConfig
    name: str = "logits_processor"
    part: Part = Part.LORA

    def tensors(self, layout: ParallelLayout) -> tuple[Tensor, ...]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexBuffers:
    """Which adapter each token and each sequence of a step wants.

    Source: vLLM 0.33.0 `lora/punica_wrapper/punica_base.py` PunicaWrapperBase and
    `punica_gpu.py`, `lora/ops/triton_ops/lora_kernel_metadata.py` LoRAKernelMeta.make.
    """

    config: LoRAConfig
    name: str = "punica_wrapper"
    part: Part = Part.LORA

    def tensors(self, layout: ParallelLayout) -> tuple[Tensor, ...]:
        """Return each buffer on a rank."""
        release, slots = self.config.release, self.config.max_loras
        tokens, seqs = layout.max_num_batched_tokens, self.config.max_num_seqs
        # Embeddings had two rows of indices; long contexts (0.9.2) one of their own.
        embeddings = 1 if release.since(0, 29) else 2
        by_token = [tokens] * 3 + [embeddings * tokens]
        if not release.since(0, 10):
            by_token.append(tokens)
        prompts = tokens if release.since(0, 11, 1) else seqs
        small = (slots + 1, slots + 1, slots + 2)
        counts = (tokens, tokens, *small, prompts, prompts, *small)
        return (
            *(Tensor(elements, "int64") for elements in (*by_token, seqs, seqs, seqs)),
            *(Tensor(elements, "int32") for elements in counts),
        )


def round_up(value: int, multiple: int) -> int:
    """Return the multiple that is not below `value`."""
    return -(-value // multiple) * multiple
