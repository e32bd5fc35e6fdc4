"""Quantised experts: what each GPU's kernel holds of them, on small numbers.

Unless a test says otherwise: 4 experts of 256 inputs and 64 columns on the rank, so
w13 has 2 x 64 rows of 256 and w2 256 rows of 64.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.engine.dtypes import element_bytes
from planner.engine.layout import ParallelLayout
from planner.errors import Refused, UnknownArchitecture
from planner.models.quantization.experts.fp8 import (
    Fp8BlockExperts,
    Fp8ChannelExperts,
    Fp8TensorExperts,
    Mxfp8Experts,
    fp8_experts,
)
from planner.models.quantization.experts.int8 import (
    Int8ChannelExperts,
    Int8OnlineExperts,
    W4A8Fp8Experts,
    W4A8Int8Experts,
)
from planner.models.quantization.experts.mxfp4 import Mxfp4Experts, Mxfp4Source
from planner.models.quantization.experts.nvfp4 import NvFp4Experts, NvFp4OnlineExperts
from planner.models.quantization.experts.wna16 import (
    AWQExperts,
    GPTQExperts,
    MoeWNA16Experts,
    PackedExperts,
)
from planner.models.tensors import ExpertsMethod, ExpertsOnRank, Tensor

A100, L4, H100, B200, RTX = (
    ParallelLayout(compute_capability=capability)
    for capability in ((8, 0), (8, 9), (9, 0), (10, 0), (12, 0))
)
FP8, E8M0 = "float8_e4m3fn", "float8_e8m0fnu"


def block(**changes: Any) -> ExpertsOnRank:
    """Four experts on a rank."""
    facts: dict[str, Any] = {
        "name": "experts",
        "num_experts": 4,
        "global_num_experts": 4,
        "top_k": 2,
        "hidden_size": 256,
        "intermediate_size": 64,
        "intermediate_size_per_partition": 64,
    }
    return ExpertsOnRank(**{**facts, **changes})


def size_bytes(method: ExpertsMethod, layout: ParallelLayout, **changes: Any) -> int:
    """Return the bytes of all tensors, those of the model's dtype in bfloat16."""
    return sum(
        tensor.elements * element_bytes(tensor.dtype or "bfloat16")
        for tensor in method.tensors(block(**changes), layout)
    )


def test_one_fp8_scale_an_expert_is_left_of_gate_and_up() -> None:
    """On L4 the tensors stay as they are: two scales for each of four experts."""
    assert Fp8TensorExperts().tensors(block(), L4) == (
        Tensor(4 * 128 * 256, FP8),
        Tensor(4 * 256 * 64, FP8),
        Tensor(4, "float32"),
        Tensor(4, "float32"),
    )


def test_static_scales_of_inputs_shrink_to_one() -> None:
    """FlashInfer on H100 adds a product of scales for each expert and weight."""
    made = Fp8TensorExperts(is_static=True).tensors(block(), H100)
    assert made[2:] == (Tensor(4, "float32"),) * 4 + (Tensor(1, "float32"),) * 2


def test_flashinfer_pads_fp8_columns() -> None:
    """With a gate to 16, so 40 become 48; without one to 128."""
    method = Fp8TensorExperts(is_static=True)
    made = method.tensors(block(intermediate_size_per_partition=40), H100)
    assert made[:2] == (Tensor(4 * 96 * 256, FP8), Tensor(4 * 256 * 48, FP8))
    plain = block(is_gated=False, activation="relu2_no_mul")
    assert method.tensors(plain, H100)[0] == Tensor(4 * 128 * 256, FP8)


@pytest.mark.parametrize("method", [Fp8TensorExperts(), Fp8ChannelExperts()])
def test_marlin_wants_a_scale_for_each_row(method: ExpertsMethod) -> None:
    """A100 has no FP8 arithmetic: scales come by row, in the model's dtype."""
    assert method.tensors(block(), A100)[2:] == (Tensor(4 * 128), Tensor(4 * 256))


def test_scales_by_row_stay_float32_on_gpus_with_fp8() -> None:
    """128 rows of w13, 256 of w2."""
    made = Fp8ChannelExperts().tensors(block(), H100)
    assert made[2:] == (Tensor(4 * 128, "float32"), Tensor(4 * 256, "float32"))


def test_vllm_makes_no_scales_by_row_for_marlin() -> None:
    """While loading, that is; a checkpoint may bring them."""
    with pytest.raises(Refused, match="FP8 PTPC online MoE quant"):
        Fp8ChannelExperts(is_online=True).tensors(block(), A100)


def test_blocks_of_fp8_have_a_scale_each() -> None:
    """256 columns a rank: w13 2 x 2 by 2 blocks, w2 2 by 2."""
    whole = block(intermediate_size_per_partition=256)
    made = Fp8BlockExperts().tensors(whole, H100)
    assert made[2:] == (Tensor(4 * 8, "float32"), Tensor(4 * 4, "float32"))


def test_ranks_that_cut_through_blocks_share_finer_ones() -> None:
    """192 columns in blocks of 128: scales are repeated for blocks of 64."""
    layout = ParallelLayout(tensor_parallel_size=4)
    cut = block(intermediate_size_per_partition=192)
    made = Fp8BlockExperts().tensors(cut, layout)
    assert made[2:] == (Tensor(4 * 6 * 4, "float32"), Tensor(4 * 4 * 3, "float32"))


def test_columns_that_no_block_fits_are_refused() -> None:
    """24 columns share no block of 32 or more with 128."""
    layout = ParallelLayout(tensor_parallel_size=4)
    with pytest.raises(Refused, match="= 24 is not divisible by weight quantization"):
        Fp8BlockExperts().tensors(block(intermediate_size_per_partition=24), layout)


def test_no_kernel_before_ada_takes_finer_blocks() -> None:
    """Marlin knows 128 x 128 only, Triton needs FP8 arithmetic."""
    cut = block(intermediate_size_per_partition=192)
    with pytest.raises(Refused, match="No FP8 MoE backend supports"):
        Fp8BlockExperts().tensors(cut, A100)


def test_blocks_quantised_while_loading_are_filled_up() -> None:
    """64 columns become 128, in one block."""
    made = Fp8BlockExperts(is_online=True).tensors(block(), H100)
    assert made[0] == Tensor(4 * 256 * 256, FP8)
    assert made[2:] == (Tensor(4 * 2 * 2, "float32"), Tensor(4 * 2, "float32"))


def test_deepgemm_packs_scales_row_by_row_on_workstations() -> None:
    """256 inputs are 2 blocks, in one word for each of 512 rows; B200 has TRT-LLM."""
    whole = block(intermediate_size_per_partition=256)
    assert Fp8BlockExperts().tensors(whole, RTX)[2] == Tensor(4 * 512, "int32")
    assert Fp8BlockExperts().tensors(whole, B200)[2] == Tensor(4 * 8, "float32")
    kept = Fp8BlockExperts(model_type="qwen3_5_moe_text").tensors(whole, RTX)
    assert kept[2] == Tensor(4 * 8, "float32")


def test_marlin_spreads_block_scales_over_rows() -> None:
    """128 columns: 256 rows by 2 groups of w13, 256 rows by 1 of w2."""
    made = Fp8BlockExperts().tensors(block(intermediate_size_per_partition=128), A100)
    assert made[2:] == (Tensor(4 * 256 * 2), Tensor(4 * 256 * 1))


def test_an_fp8_checkpoint_may_store_mxfp4() -> None:
    """store_dtype decides, then the block size."""
    kinds = {"is_static": False, "model_type": "any"}
    assert Mxfp4Experts() == fp8_experts(is_block=True, stores_mxfp4=True, **kinds)  # type: ignore[arg-type]
    assert Fp8TensorExperts() == fp8_experts(
        is_block=False, stores_mxfp4=False, is_static=False, model_type="any"
    )


@pytest.mark.parametrize("method", [Int8ChannelExperts(), Int8OnlineExperts()])
def test_int8_has_a_scale_for_each_row(method: ExpertsMethod) -> None:
    """A byte a weight: 4 x (128 x 256 + 256 x 64), and four for 384 rows."""
    assert 4 * (49152 + 4 * 384) == size_bytes(method, A100)


def test_mxfp8_has_a_byte_for_32_inputs() -> None:
    """Marlin on A100: 49,152 weights and 1,536 scales an expert."""
    assert 4 * (49152 + 49152 // 32) == size_bytes(Mxfp8Experts(), A100)


def test_mxfp8_is_padded_on_b200() -> None:
    """TRT-LLM: 64 columns to 128, 256 inputs stay: twice the bytes."""
    assert 8 * (49152 + 49152 // 32) == size_bytes(Mxfp8Experts(), B200)


def test_mxfp8_goes_in_groups_of_32() -> None:
    """In vLLM's words, which differ while loading."""
    cut = block(intermediate_size_per_partition=48)
    with pytest.raises(Refused, match="MXFP8 MoE requires intermediate_size_per_par"):
        Mxfp8Experts().tensors(cut, H100)
    with pytest.raises(Refused, match="Online MXFP8 MoE requires hidden"):
        Mxfp8Experts(is_online=True).tensors(cut, H100)
    with pytest.raises(Refused, match="MXFP8 MoE requires hidden_size"):
        Mxfp8Experts().tensors(block(hidden_size=80), H100)


def test_nvfp4_has_half_a_byte_and_a_scale_for_16() -> None:
    """Marlin on A100 keeps a scale for each expert and weight on top."""
    assert 4 * (49152 // 2 + 49152 // 16 + 2 * 4) == size_bytes(NvFp4Experts(), A100)


def test_humming_pads_on_hopper() -> None:
    """Rows to 256 and inputs to 128: w13 256 x 256, w2 256 x 128."""
    weights = 256 * 256 + 256 * 128
    assert 4 * (weights // 2 + weights // 16 + 2 * 4) == size_bytes(
        NvFp4Experts(), H100
    )


def test_nvfp4_on_b200_is_padded_for_trtllm() -> None:
    """Without a gate 64 columns become 128, and five numbers stay for each expert."""
    weights = 128 * 256 + 256 * 128
    assert 4 * (weights // 2 + weights // 16 + 5 * 4) == size_bytes(
        NvFp4Experts(), B200, is_gated=False, activation="relu2_no_mul"
    )


def test_nvfp4_scales_lie_in_tiles_on_workstations() -> None:
    """w2's 64 columns are four groups, which is a tile; four numbers an expert."""
    assert 4 * (49152 // 2 + 49152 // 16 + 4 * 4) == size_bytes(NvFp4Experts(), RTX)


def test_gates_whose_rows_fill_no_tile_are_refused_on_workstations() -> None:
    """2 x 32 rows are no 128."""
    cut = block(intermediate_size_per_partition=32)
    with pytest.raises(Refused, match="Intermediate size padding for w1 and w3"):
        NvFp4Experts().tensors(cut, RTX)


def test_weight_only_nvfp4_goes_to_marlin_everywhere() -> None:
    """B200's own kernels scale activations too."""
    method = NvFp4Experts(has_input_scale=False)
    assert size_bytes(method, A100) == size_bytes(method, B200)


def test_nvfp4_is_made_while_loading_on_b200_only() -> None:
    """Inputs without a gate are padded to 512 there."""
    made = NvFp4OnlineExperts().tensors(
        block(is_gated=False, activation="relu2_no_mul"), B200
    )
    assert made[0] == Tensor(4 * 128 * 512 // 2, "uint8")
    with pytest.raises(Refused, match="requires a Blackwell"):
        NvFp4OnlineExperts().tensors(block(), H100)


GPT_OSS = {
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "intermediate_size_per_partition": 2880,
    "activation": "swigluoai",
    "has_bias": True,
}


def test_gpt_oss_on_hopper_pads_scales_for_triton() -> None:
    """90 groups to 92 and 5,760 rows to 5,888, 2,880 to 3,072; biases in 32 bits."""
    weights = (5760 + 2880) * 1440
    scales = (5888 + 3072) * 92
    biases = (5760 + 2880) * 4
    assert 4 * (weights + scales + biases) == size_bytes(
        Mxfp4Experts(source=Mxfp4Source.GPT_OSS), H100, **GPT_OSS
    )


@pytest.mark.parametrize(("layout", "bias_bytes"), [(A100, 2), (B200, 4), (RTX, 2)])
def test_gpt_oss_elsewhere_is_padded_to_whole_tiles(
    layout: ParallelLayout, bias_bytes: int
) -> None:
    """2,880 columns to 2,944 and inputs to 3,072; TRT-LLM reads biases in 32 bits."""
    weights = (5888 + 2944) * 3072
    assert 4 * (
        weights // 2 + weights // 32 + (5888 + 3072) * bias_bytes
    ) == size_bytes(Mxfp4Experts(source=Mxfp4Source.GPT_OSS), layout, **GPT_OSS)


def test_other_mxfp4_on_hopper_is_hummings() -> None:
    """w13 256 x 256 and w2 256 x 128, half a byte and a byte for 32."""
    weights = 256 * 256 + 256 * 128
    assert 4 * (weights // 2 + weights // 32) == size_bytes(Mxfp4Experts(), H100)


def test_mxfp4_of_compressed_tensors_stays_as_it_is() -> None:
    """Neither CUTLASS nor Marlin pads it."""
    method = Mxfp4Experts(source=Mxfp4Source.COMPRESSED_TENSORS)
    assert 4 * (49152 // 2 + 49152 // 32) == size_bytes(method, H100)


def test_gptq_keeps_zero_points_it_does_not_need() -> None:
    """Marlin on A100, 4 bits in groups of 32: a scale and half a byte for each."""
    groups = 49152 // 32
    method = GPTQExperts(num_bits=4, group_size=32)
    assert 4 * (49152 // 2 + 2 * groups + groups // 2) == size_bytes(method, A100)


def test_gptq_on_hopper_drops_them() -> None:
    """Humming: 98,304 weights after padding, no zero points for symmetric ones."""
    weights = 256 * 256 + 256 * 128
    method = GPTQExperts(num_bits=4, group_size=32)
    assert 4 * (weights // 2 + 2 * weights // 32) == size_bytes(method, H100)
    zeros = GPTQExperts(num_bits=4, group_size=32, has_zero_points=True)
    assert 4 * weights // 64 == size_bytes(zeros, H100) - size_bytes(method, H100)


def test_awq_always_has_zero_points_with_marlin() -> None:
    """The same bytes as GPTQ's."""
    assert size_bytes(AWQExperts(num_bits=4, group_size=32), A100) == size_bytes(
        GPTQExperts(num_bits=4, group_size=32), A100
    )


def test_groups_that_ranks_cut_are_halved_without_marlin() -> None:
    """96 columns in groups of 64: vLLM's own kernel takes groups of 32."""
    cut = {"intermediate_size_per_partition": 96}
    weights = 3 * 96 * 256
    held = size_bytes(AWQExperts(num_bits=4, group_size=64), A100, **cut)
    assert 4 * (weights // 2 + 2 * weights // 32 + weights // 64) == held
    with pytest.raises(Refused, match="AssertionError"):
        size_bytes(
            MoeWNA16Experts(num_bits=4, group_size=64),
            A100,
            intermediate_size_per_partition=48,
        )


def test_packed_integers_remember_their_shapes() -> None:
    """Two numbers for each expert and weight; no zero points when symmetric."""
    method = PackedExperts(num_bits=4, group_size=32)
    assert 4 * (49152 // 2 + 2 * 49152 // 32 + 2 * 4) == size_bytes(method, A100)


def test_packed_groups_that_ranks_cut_are_refused() -> None:
    """48 columns are no whole groups of 32."""
    with pytest.raises(Refused, match="static group scales requires the MoE"):
        size_bytes(
            PackedExperts(num_bits=4, group_size=32),
            H100,
            intermediate_size_per_partition=48,
        )
    with pytest.raises(Refused, match=r"requires hidden_size \(80\)"):
        size_bytes(PackedExperts(num_bits=4, group_size=32), H100, hidden_size=80)


def test_fp8_activations_with_four_bits_are_hoppers() -> None:
    """256 x 256: each FP8 scale eight times, one float32 for each row."""
    whole = {"intermediate_size_per_partition": 256}
    weights, rows = 3 * 256 * 256, 3 * 256
    assert 4 * (weights // 2 + 8 * weights // 128 + 4 * rows + 2 * 4) == size_bytes(
        W4A8Fp8Experts(), H100, **whole
    )
    with pytest.raises(UnknownArchitecture, match="Hopper"):
        size_bytes(W4A8Fp8Experts(), B200, **whole)
    with pytest.raises(Refused, match="must be divisible by 256"):
        size_bytes(W4A8Fp8Experts(), H100)


def test_int8_activations_with_four_bits_are_for_cpus() -> None:
    """vLLM has no kernel for GPUs."""
    with pytest.raises(Refused, match="only supported on CPU"):
        W4A8Int8Experts().tensors(block(), H100)


@given(
    st.sampled_from([A100, L4, H100, B200, RTX]),
    st.integers(1, 16),
    st.integers(1, 8),
    st.sampled_from(
        [
            Fp8TensorExperts(is_static=True),
            Fp8ChannelExperts(),
            Fp8BlockExperts(),
            Mxfp8Experts(),
            Mxfp4Experts(),
            NvFp4Experts(),
            GPTQExperts(num_bits=4, group_size=128),
            PackedExperts(num_bits=8, group_size=128),
        ]
    ),
)
def test_bytes_grow_with_experts(
    layout: ParallelLayout, experts: int, blocks: int, method: ExpertsMethod
) -> None:
    """Each expert of a rank costs the same, and no less than its weights."""
    columns = 128 * blocks
    one, all_ = (
        size_bytes(
            method, layout, num_experts=n, intermediate_size_per_partition=columns
        )
        for n in (experts, 2 * experts)
    )
    shared = 8  # two scales of inputs, where they are static
    assert 2 * one - shared <= all_ <= 2 * one
    assert one >= experts * 3 * columns * 256 // 2


def test_one_scale_a_row_is_refused_on_hopper() -> None:
    """vLLM's class for packed integers asserts groups where Marlin is not taken."""
    rows = PackedExperts(num_bits=8, group_size=-1)
    with pytest.raises(Refused, match="strategy == 'group'"):
        rows.tensors(block(), ParallelLayout(compute_capability=(9, 0)))
    assert rows.tensors(block(), ParallelLayout(compute_capability=(8, 0)))
