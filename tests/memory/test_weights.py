"""Bytes of weights per stage, against sums one can do by hand."""

from hypothesis import given
from hypothesis import strategies as st

import planner
from planner.engine.layout import ParallelLayout
from planner.engine.releases import NEWEST_RELEASE, Release, resolve_version
from planner.memory.allocator import Segments, allocated_bytes
from planner.memory.weights import StageWeights, explain, stage_weights
from planner.units import MIB
from tests.configs import GPT2, LLAMA_8B, QWEN3_MOE, QWEN3_SMALL, architecture

SCALES_PER_LAYER = 4 * 4  # key, value, query and softmax scale, float32


def parts_of(config: dict[str, object], layout: ParallelLayout) -> list[dict[str, int]]:
    """Bytes by part of each stage, in bfloat16."""
    stages = stage_weights(architecture(config), layout, "bfloat16")
    return [{p.name: p.size_bytes for p in stage.parts} for stage in stages]


def test_llama_3_1_8b_adds_up() -> None:
    """8,030,261,248 parameters x 2 bytes, plus 32 MiB of cosines and the scales."""
    (stage,) = stage_weights(architecture(LLAMA_8B), ParallelLayout(), "bfloat16")
    parameters = (
        2 * 128256 * 4096  # embeddings and head
        + 32
        * (
            (32 + 2 * 8) * 128 * 4096  # query, key, value
            + 4096 * 4096  # output
            + 3 * 14336 * 4096  # gate, up, down
            + 2 * 4096  # norms
        )
        + 4096  # final norm
    )
    assert 8030261248 == parameters
    expected = 2 * parameters + 131072 * 128 * 2 + 32 * SCALES_PER_LAYER
    assert expected == stage.weights_bytes


def test_tensor_parallel_halves_all_but_the_replicated_parts() -> None:
    """Norms and buffers stay whole; the rest is cut in two."""
    (one,) = parts_of(LLAMA_8B, ParallelLayout())
    (two,) = parts_of(LLAMA_8B, ParallelLayout(tensor_parallel_size=2))
    for name in ("embeddings", "attention", "mlp", "lm_head"):
        assert one[name] == 2 * two[name]
    assert one["norms"] == two["norms"]
    assert one["buffers"] == two["buffers"]


def test_stages_share_layers_and_keep_their_ends() -> None:
    """Embeddings on the first stage, head and final norm on the last."""
    first, last = parts_of(LLAMA_8B, ParallelLayout(pipeline_parallel_size=2))
    assert "lm_head" not in first
    assert "embeddings" not in last
    assert 4096 * 2 == last["norms"] - first["norms"]
    assert first["mlp"] == last["mlp"] == 16 * 3 * 14336 * 4096 * 2


def test_tied_embeddings_stand_on_both_ends() -> None:
    """One matrix on one GPU; with two stages each end holds it."""
    (whole,) = parts_of(QWEN3_SMALL, ParallelLayout())
    first, last = parts_of(QWEN3_SMALL, ParallelLayout(pipeline_parallel_size=2))
    assert whole["embeddings"] == first["embeddings"] == last["embeddings"]


def test_a_class_that_ignores_stages_pays_on_each() -> None:
    """GPT-2: 50,304 x 1,280 word and 1,024 x 1,280 position embeddings twice."""
    first, last = parts_of(GPT2, ParallelLayout(pipeline_parallel_size=2))
    assert first == last
    assert (50304 + 1024) * 1280 * 2 == first["embeddings"]


def test_experts_shrink_under_expert_parallel_as_under_tensor_parallel() -> None:
    """128 experts / 4 ranks = 32 whole ones, or 128 quarters: the same bytes.

    With whole ones each layer also keeps a map of all 128, four bytes each.
    """
    cut = ParallelLayout(tensor_parallel_size=4)
    whole = ParallelLayout(tensor_parallel_size=4, enable_expert_parallel=True)
    (by_column,), (by_expert,) = parts_of(QWEN3_MOE, cut), parts_of(QWEN3_MOE, whole)
    assert 48 * 32 * 3 * 768 * 2048 * 2 == by_column["experts"]
    assert by_column["experts"] + 48 * 128 * 4 == by_expert["experts"]


def test_data_parallel_cuts_experts_only() -> None:
    """Attention is repeated in every engine, experts are shared by all of them."""
    (one,) = parts_of(QWEN3_MOE, ParallelLayout())
    (two,) = parts_of(
        QWEN3_MOE, ParallelLayout(data_parallel_size=2, enable_expert_parallel=True)
    )
    assert one["attention"] == two["attention"]
    maps = 48 * 128 * 4
    assert one["experts"] == 2 * (two["experts"] - maps)


def test_the_allocator_counts_in_512_bytes() -> None:
    """One byte costs 512, 513 cost 1,024."""
    assert 512 == allocated_bytes(1, NEWEST_RELEASE)
    assert 1024 == allocated_bytes(513, NEWEST_RELEASE)


def test_a_short_tail_of_a_large_segment_counts_as_allocated() -> None:
    """From 10 MiB segments are multiples of 2 MiB; a tail up to 1 MiB stays."""
    assert 12 * MIB == allocated_bytes(11 * MIB, NEWEST_RELEASE)
    assert 11 * MIB - 512 == allocated_bytes(11 * MIB - 512, NEWEST_RELEASE)
    assert 12 * MIB == allocated_bytes(12 * MIB - 512, NEWEST_RELEASE)


def test_since_0_21_any_tail_of_20_mib_or_more_counts_as_allocated() -> None:
    """Qwen2-VL-2B's gate and up: 17,920 x 1,536 x 2 bytes = 52.5 MiB, of 54 MiB."""
    size = 17920 * 1536 * 2
    assert 54 * MIB == allocated_bytes(size, resolve_version("0.21.0")[0])
    assert size == allocated_bytes(size, resolve_version("0.20.2")[0])


def test_weights_quantised_while_loading_take_what_others_left() -> None:
    """Qwen3-14B: 35 MiB of q, k and v take the 50 MiB of the last layer's o.

    The first layer's take 36 MiB; o 26 for 25, gate and up 170, down 86 for 85; the
    embeddings 1,484 twice, and buffers 10. The rest, in small pieces, is under 1 MiB.
    """
    plan = planner.plan("Qwen/Qwen3-14B", gpu="H100", quantization="fp8")
    mib = 36 + 39 * 50 + 40 * (26 + 170 + 86) + 2 * 1484 + 10
    assert mib * MIB <= plan.ranks[0].allocated_weights_bytes < (mib + 2) * MIB


def test_encoders_weights_have_ends_of_segments_too() -> None:
    """Qwen3-VL 8B: a dry run allocated so many bytes, 10.9 MiB of them such ends."""
    (rank,) = planner.plan(
        "Qwen/Qwen3-VL-8B-Instruct", gpu="H100", max_model_len=32768
    ).ranks
    assert 17_856_755_712 == rank.allocated_weights_bytes


def test_weights_take_the_blocks_of_rotary_tables_that_were_computed_before() -> None:
    """Gemma 4 E4B on H100: a dry run allocated 16,321,004,544 bytes.

    Two down projections of 50 MiB take blocks of 64 MiB, halves of a table in fp32.
    """
    with_tables = planner.plan("google/gemma-4-E4B-it", gpu="H100", max_model_len=8192)
    (rank,) = with_tables.ranks
    assert rank.allocated_weights_bytes - rank.weights_bytes >= 28 * MIB
    assert 0 <= 16_321_004_544 - rank.allocated_weights_bytes < 32 * MIB


def test_a_block_is_taken_again_by_a_tensor_of_its_size() -> None:
    """30 MiB for 30; 28 MiB leave it alone where a block of 28 is free."""
    segments = Segments()
    whole, less = segments.allocate(30 * MIB), segments.allocate(28 * MIB)
    segments.release(whole)
    segments.release(less)
    assert segments.allocate(28 * MIB) is less
    assert segments.allocate(30 * MIB) is whole


@given(st.integers(0, 1 << 36), st.sampled_from(["0.20.2", "0.21.0"]))
def test_allocation_never_loses_a_byte_nor_wastes_two_mebibytes(
    size: int, version: str
) -> None:
    """size <= allocated <= size + 2 MiB."""
    allocated = allocated_bytes(size, resolve_version(version)[0])
    assert size <= allocated <= size + 2 * MIB


@given(st.sampled_from([1, 2, 4, 8]), st.integers(1, 8))
def test_no_layout_loses_a_parameter(tensor: int, pipeline: int) -> None:
    """All ranks together hold at least the whole model."""
    layout = ParallelLayout(
        tensor_parallel_size=tensor, pipeline_parallel_size=pipeline
    )
    stages = stage_weights(architecture(LLAMA_8B), layout, "bfloat16")
    (whole,) = stage_weights(architecture(LLAMA_8B), ParallelLayout(), "bfloat16")
    assert tensor * sum(s.weights_bytes for s in stages) >= whole.weights_bytes


def test_a_quantised_model_says_so() -> None:
    """The dtype is that of what the method leaves alone."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100", quantization="fp8_per_tensor")
    why = plan.ranks[0].line("weights").why
    assert "quantised by fp8_per_tensor, what it leaves alone in bfloat16" in why


def test_a_workspace_counts_once_a_rank_and_for_no_part() -> None:
    """Layers of FP8 blocks on Hopper: DeepGEMM's 32 MiB, beside the weights."""
    config = {
        **LLAMA_8B,
        "quantization_config": {
            "quant_method": "fp8",
            "activation_scheme": "dynamic",
            "weight_block_size": [128, 128],
        },
    }

    def stage(version: tuple[int, int, int]) -> StageWeights:
        layout = ParallelLayout(release=Release(version))
        (made,) = stage_weights(architecture(config), layout, "bfloat16")
        return made

    without, beside = stage((0, 11, 0)), stage((0, 11, 1))
    assert without.weights_bytes == beside.weights_bytes
    assert 32 * MIB == beside.allocated_bytes - without.allocated_bytes
    assert [("DeepGEMM's workspace", 32 * MIB)] == [
        (kept.name, kept.size_bytes) for kept in beside.workspaces
    ]
    assert "and DeepGEMM's workspace 32.0 MiB" in explain(beside, "bfloat16")


def test_a_size_that_no_layer_has_is_not_divided() -> None:
    """Every layer has experts: that 6,144 / 5 is none matters to no layer."""
    config = {
        **QWEN3_MOE,
        "num_attention_heads": 40,
        "num_key_value_heads": 5,
        "vocab_size": 3200,
    }
    layout = ParallelLayout(tensor_parallel_size=5, enable_expert_parallel=True)

    (stage,) = stage_weights(architecture(config), layout, "bfloat16")

    # 128 experts / 5 = 26 on the fullest rank x 3 x 2,048 x 768 values x 2 bytes, and
    # a map of all 128.
    experts = 48 * (26 * 3 * 2048 * 768 * 2 + 128 * 4)
    assert experts == {p.name: p.size_bytes for p in stage.parts}["experts"]
