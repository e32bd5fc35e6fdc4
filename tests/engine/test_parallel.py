"""How ranks share layers, experts and vocabulary."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.engine.layout import ParallelLayout, divide, pad_vocabulary
from planner.errors import Refused


def test_a_remainder_is_refused_in_vllms_words() -> None:
    """vLLM stops with an assertion of this text."""
    with pytest.raises(Refused, match="12 is not divisible by 8"):
        divide(12, 8)


def test_a_vocabulary_is_padded_to_64_rows() -> None:
    """151,669 rows become 2,370 x 64 = 151,680."""
    assert 151680 == pad_vocabulary(151669)
    assert 128256 == pad_vocabulary(128256)


@pytest.mark.parametrize(
    ("num_layers", "num_stages", "expected"),
    [
        (32, 2, (16, 16)),
        (62, 4, (15, 16, 16, 15)),
        (61, 4, (15, 15, 16, 15)),
        (35, 2, (18, 17)),
        (64, 5, (13, 13, 13, 13, 12)),
    ],
)
def test_spare_layers_go_to_the_middle_stages(
    num_layers: int, num_stages: int, expected: tuple[int, ...]
) -> None:
    """The last stage holds the head and gets one only when all others have."""
    layout = ParallelLayout(pipeline_parallel_size=num_stages)
    assert expected == layout.stage_sizes(num_layers)


def test_a_given_partition_is_taken() -> None:
    """VLLM_PP_LAYER_PARTITION=20,28 for 48 layers on two stages."""
    layout = ParallelLayout(pipeline_parallel_size=2, pp_layer_partition="20,28")
    assert (20, 28) == layout.stage_sizes(48)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("20,28,4", r"len\(partitions\)=3 does not match pp_size=2"),
        ("20,20", r"sum\(partitions\)=40 does not match num_hidden_layers=48"),
        ("20;28", "Invalid partition string"),
    ],
)
def test_a_partition_that_does_not_fit_is_refused(text: str, message: str) -> None:
    """vLLM's three messages."""
    layout = ParallelLayout(pipeline_parallel_size=2, pp_layer_partition=text)
    with pytest.raises(Refused, match=message):
        layout.stage_sizes(48)


def test_experts_are_cut_over_tensor_and_data_parallel() -> None:
    """Without expert parallelism every rank holds a slice of every expert."""
    layout = ParallelLayout(tensor_parallel_size=4, data_parallel_size=2)
    assert 8 == layout.experts_tensor_parallel_size
    assert 128 == layout.local_num_experts(128)


def test_ranks_that_share_prompts_share_experts() -> None:
    """DeepSeek-V2-Lite's 64 experts: half of each on two ranks, or 32 whole ones."""
    layout = ParallelLayout(prefill_context_parallel_size=2)
    assert 2 == layout.experts_tensor_parallel_size
    whole = ParallelLayout(prefill_context_parallel_size=2, enable_expert_parallel=True)
    assert 32 == whole.local_num_experts(64)


def test_uneven_experts_put_one_more_on_the_first_ranks() -> None:
    """60 experts on 8 ranks: four ranks hold 8, four hold 7; the fullest counts."""
    layout = ParallelLayout(tensor_parallel_size=8, enable_expert_parallel=True)
    assert 8 == layout.local_num_experts(60)
    assert 1 == layout.experts_tensor_parallel_size


@given(st.integers(1, 200), st.integers(1, 16))
def test_every_layer_has_a_stage(num_layers: int, num_stages: int) -> None:
    """Stage sizes add up, and none differs from another by more than one."""
    sizes = ParallelLayout(pipeline_parallel_size=num_stages).stage_sizes(num_layers)
    assert num_layers == sum(sizes)
    assert max(sizes) - min(sizes) <= 1
