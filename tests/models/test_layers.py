"""vLLM's layer classes: the tensors that one rank holds."""

import pytest

from planner.engine.layout import ParallelLayout
from planner.errors import Refused
from planner.models.experts import FusedMoE
from planner.models.layers import (
    ColumnParallelLinear,
    Module,
    Part,
    QKNormPerRank,
    QKVParallelLinear,
    Replicated,
    RowParallelLinear,
    VocabParallelEmbedding,
)

ONE, TWO, EIGHT = (ParallelLayout(tensor_parallel_size=size) for size in (1, 2, 8))


def elements(module: Module, layout: ParallelLayout) -> tuple[int, ...]:
    """The elements of each tensor on a rank."""
    return tuple(tensor.elements for tensor in module.tensors(layout))


def qkv(**changes: object) -> QKVParallelLinear:
    """Return Llama-3.1-8B's projection."""
    facts = {"num_heads": 32, "num_kv_heads": 8, "head_size": 128, **changes}
    return QKVParallelLinear(name="qkv", input_size=4096, **facts)  # type: ignore[arg-type]


def test_query_key_value_share_one_tensor() -> None:
    """(32 + 2 x 8) heads x 128 = 6,144 rows of 4,096."""
    assert (6144 * 4096,) == elements(qkv(), ONE)


def test_kv_heads_are_repeated_beyond_their_number() -> None:
    """16 ranks, 8 KV heads: 2 query heads and one copy each of K and V a rank."""
    layout = ParallelLayout(tensor_parallel_size=16)
    assert ((2 + 2) * 128 * 4096,) == elements(qkv(), layout)


def test_kv_heads_that_divide_neither_way_are_refused() -> None:
    """6 KV heads on 4 ranks: vLLM's classes assert it without a message."""
    layout = ParallelLayout(tensor_parallel_size=4)
    with pytest.raises(Refused, match=r"^AssertionError: .*6 KV heads and 4 ranks"):
        qkv(num_kv_heads=6).tensors(layout)


def test_a_column_bias_is_cut_and_a_row_bias_is_not() -> None:
    """Column: rows / 2 with their bias. Row: columns / 2, the whole bias."""
    column = ColumnParallelLinear(
        name="up", part=Part.MLP, input_size=10, output_sizes=(8, 8), bias=True
    )
    row = RowParallelLinear(
        name="down", part=Part.MLP, input_size=8, output_size=10, bias=True
    )
    assert (8 * 10, 8) == elements(column, TWO)
    assert (4 * 10, 10) == elements(row, TWO)


def test_a_vocabulary_is_padded_before_it_is_cut() -> None:
    """100 rows become 128, of which a rank of eight holds 16."""
    words = VocabParallelEmbedding(name="words", num_embeddings=100, embedding_dim=4)
    assert (16 * 4,) == elements(words, EIGHT)


def test_replicated_tensors_do_not_shrink() -> None:
    """Norms and router gates are whole on every rank."""
    gate = Replicated(name="gate", part=Part.ROUTER, shapes=((128, 2048),))
    assert elements(gate, ONE) == elements(gate, EIGHT) == (128 * 2048,)


def experts(**changes: object) -> FusedMoE:
    """Return Qwen3-30B-A3B's experts."""
    facts = {"num_experts": 128, "top_k": 8, "intermediate_size": 768, **changes}
    return FusedMoE(name="experts", hidden_size=2048, **facts)  # type: ignore[arg-type]


def test_tensor_parallel_cuts_every_expert() -> None:
    """768 / 8 = 96 columns: w13 128 x 2 x 96 x 2048, w2 128 x 2048 x 96."""
    assert (128 * 192 * 2048, 128 * 2048 * 96) == elements(experts(), EIGHT)


def test_expert_parallel_keeps_experts_whole() -> None:
    """16 of 128 experts on each of eight ranks, and where each of all 128 lies."""
    layout = ParallelLayout(tensor_parallel_size=8, enable_expert_parallel=True)
    assert (16 * 1536 * 2048, 16 * 2048 * 768, 128) == elements(experts(), layout)


def test_blackwell_pads_experts_to_128_columns() -> None:
    """FlashInfer's TRT-LLM kernel on compute capability 10: 96 become 128."""
    layout = ParallelLayout(tensor_parallel_size=8, compute_capability=(10, 0))
    assert 128 == experts().intermediate_size_per_rank(layout)
    assert 96 == experts(is_renormalized=False).intermediate_size_per_rank(layout)


def test_expert_columns_that_do_not_divide_are_refused() -> None:
    """1,408 columns on 3 ranks: vLLM stops with a bare assertion."""
    with pytest.raises(Refused, match="AssertionError"):
        experts(intermediate_size=1408).tensors(ParallelLayout(tensor_parallel_size=3))


def test_norms_over_all_heads_are_cut_with_them() -> None:
    """MiniMax-M2 on two ranks: 24 x 128 and 4 x 128."""
    norm = QKNormPerRank(name="qk", num_heads=48, num_kv_heads=8, head_size=128)
    assert (3072, 512) == elements(norm, TWO)
