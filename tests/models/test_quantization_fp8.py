"""FP8 checkpoints: bytes of each layer on a rank, by GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.errors import Refused
from planner.models.quantization.fp8 import (
    FbgemmLinear,
    Fp8BlockLinear,
    Fp8TensorLinear,
    check_block_shape,
    read_fbgemm,
    read_fp8,
)
from planner.models.quantization.fp8_kernels import DEEP_GEMM_WORKSPACE
from planner.models.quantization.interface import Context, Place
from planner.models.tensors import LinearOnRank, Tensor

H100, B200, L4, A100, RTX = (
    ParallelLayout(compute_capability=capability)
    for capability in ((9, 0), (10, 0), (8, 9), (8, 0), (12, 0))
)


def linear(
    rows: tuple[int, ...], columns: int, *, ranks: int = 1, has_bias: bool = False
) -> LinearOnRank:
    """A layer whose inputs are divided over `ranks`."""
    return LinearOnRank(
        name="layer",
        input_size=columns * ranks,
        output_size=sum(rows),
        input_size_per_partition=columns,
        output_partition_sizes=rows,
        has_bias=has_bias,
    )


def test_one_scale_is_left_of_a_merged_layer() -> None:
    """Query, key and value get the largest of their three scales."""
    made = Fp8TensorLinear(has_input_scale=True).tensors(
        linear((4096, 1024, 1024), 4096), H100
    )
    assert made == (
        Tensor(6144 * 4096, "float8_e4m3fn"),
        Tensor(1, "float32"),
        Tensor(1, "float32"),
    )


def test_cutlass_pads_to_sixteens_and_flashinfer_does_not() -> None:
    """100 x 72 becomes 112 x 80 on H100; one scale each way suits B200's kernel."""
    method = Fp8TensorLinear(has_input_scale=True)
    assert 112 * 80 == method.tensors(linear((100,), 72), H100)[0].elements
    assert 100 * 72 == method.tensors(linear((100,), 72), B200)[0].elements


def test_before_ada_weights_are_repacked_with_a_scale_per_row() -> None:
    """Marlin: rows to 64 and columns to 128, or the reverse; the bias follows."""
    made = Fp8TensorLinear(has_input_scale=True).tensors(
        linear((100,), 256, has_bias=True), A100
    )
    assert made == (Tensor(128 * 256, "float8_e4m3fn"), Tensor(128), Tensor(28))


def test_blocks_keep_one_scale_on_hopper() -> None:
    """4,096 x 2,048: 32 x 16 blocks."""
    made = Fp8BlockLinear(model_type="llama").tensors(linear((4096,), 2048), H100)
    scales = Tensor(32 * 16, "float32")
    assert made == (Tensor(4096 * 2048, "float8_e4m3fn"), scales)


def test_deep_gemm_takes_its_workspace_where_it_serves_a_layer() -> None:
    """Rows in 64s and bfloat16, while loading from 0.11.1 to 0.29, on RTX from 0.24."""
    method = Fp8BlockLinear(model_type="llama")

    def takes(layout: ParallelLayout, version: tuple[int, int, int], rows: int) -> bool:
        there = replace(layout, release=Release(version))
        return DEEP_GEMM_WORKSPACE in method.tensors(linear((rows,), 2048), there)

    assert takes(H100, (0, 11, 1), 4096)
    assert not takes(H100, (0, 11, 1), 4128)
    assert not takes(replace(H100, dtype="float16"), (0, 29, 0), 4096)
    assert not takes(H100, (0, 11, 0), 4096)
    assert takes(H100, (0, 29, 0), 4096)
    assert not takes(H100, (0, 30, 0), 4096)
    assert not takes(L4, (0, 29, 0), 4096)
    assert takes(RTX, (0, 24, 0), 4096)
    assert not takes(RTX, (0, 23, 0), 4096)


def test_scales_are_packed_since_deep_gemm_serves_the_gpu() -> None:
    """4,096 x 2,048: 32 x 16 scales of a block, or 4 integers for each row."""
    method = Fp8BlockLinear(model_type="llama")
    for layout, since, before in (
        (B200, (0, 11, 1), (0, 11, 0)),
        (RTX, (0, 24, 0), (0, 23, 0)),
    ):
        new, old = (replace(layout, release=Release(v)) for v in (since, before))
        assert (
            Tensor(4 * 4096, "int32") == method.tensors(linear((4096,), 2048), new)[1]
        )
        assert Tensor(512, "float32") == method.tensors(linear((4096,), 2048), old)[1]


def test_deep_gemm_is_not_on_b300_before_0_13() -> None:
    """The compute capability had to be 10.0 itself, and B300 has 10.3."""
    method = Fp8BlockLinear(model_type="llama")
    b300 = ParallelLayout(compute_capability=(10, 3), release=Release((0, 12, 0)))
    assert Tensor(512, "float32") == method.tensors(linear((4096,), 2048), b300)[1]
    later = replace(b300, release=Release((0, 13, 0)))
    assert Tensor(4 * 4096, "int32") == method.tensors(linear((4096,), 2048), later)[1]


def test_blackwell_packs_a_byte_per_row_and_block() -> None:
    """16 blocks a row: four integers for each of 4,096 rows; not in float16."""
    method = Fp8BlockLinear(model_type="llama")
    assert method.tensors(linear((4096,), 2048), B200)[1] == Tensor(4 * 4096, "int32")
    half = ParallelLayout(compute_capability=(10, 0), dtype="float16")
    assert method.tensors(linear((4096,), 2048), half)[1] == Tensor(512, "float32")


def test_some_models_are_kept_from_deep_gemm() -> None:
    """Their scales stay as they are on Blackwell too."""
    method = Fp8BlockLinear(model_type="qwen3_5_text")
    assert method.tensors(linear((4096,), 2048), B200)[1] == Tensor(512, "float32")


def test_ada_unpacks_blocks_with_marlin() -> None:
    """A scale in the model's dtype for each row and 128 columns."""
    made = Fp8BlockLinear(model_type="llama").tensors(linear((4096,), 2048), L4)
    assert made == (Tensor(4096 * 2048, "float8_e4m3fn"), Tensor(4096 * 16))


def test_ranks_may_not_cut_through_a_block() -> None:
    """2,736 = 21.4 x 128 columns on each of two ranks."""
    layout = ParallelLayout(tensor_parallel_size=2)
    with pytest.raises(Refused) as caught:
        check_block_shape(linear((4096,), 2736, ranks=2), layout)
    assert str(caught.value) == (
        "Weight input_size_per_partition = 2736 is not divisible by weight "
        "quantization block_k = 128."
    )
    check_block_shape(linear((2736, 2736), 4096), layout)


def test_layers_are_left_out_by_name() -> None:
    """A list of vLLM's or the checkpoint's names; packed layers by their parts."""
    config = read_fp8(
        {
            "quant_method": "fp8",
            "activation_scheme": "dynamic",
            "weight_block_size": [128, 128],
            "modules_to_not_convert": [
                "model.layers.0.self_attn.q_proj",
                "model.layers.0.self_attn.k_proj",
                "model.layers.0.self_attn.v_proj",
            ],
        },
        Context(),
    )
    shards = ("q_proj", "k_proj", "v_proj")
    first, second = (
        config.linear(
            Place(prefix=f"model.layers.{layer}.self_attn.qkv_proj", shards=shards)
        )
        for layer in (0, 1)
    )
    assert first is None
    assert isinstance(second, Fp8BlockLinear)
    with pytest.raises(Refused, match="some but not all shards"):
        config.linear(
            Place(
                prefix="model.layers.0.self_attn.qkv_proj", shards=("q_proj", "x_proj")
            )
        )


FBGEMM = {"modules_to_not_convert": ["model.layers.0.mlp.up_proj"]}


def test_fbgemm_scales_rows_and_keeps_the_activations_limit() -> None:
    """100 x 72: from 0.21 on padded to 112 x 80 for CUTLASS, whose rows are scaled."""
    made = FbgemmLinear().tensors(linear((100,), 72), H100)
    assert made == (
        Tensor(112 * 80, "float8_e4m3fn"),
        Tensor(112, "float32"),
        Tensor(1, "float32"),
    )


def test_fbgemm_leaves_out_the_layers_that_are_named() -> None:
    """A merged layer by the names packed in it, all or none; experts always."""
    config = read_fbgemm(FBGEMM | {"activation_scale_ub": 1200.0}, Context())
    mlp = "model.layers.0.mlp."
    assert config.linear(Place(prefix=mlp + "up_proj")) is None
    assert config.linear(Place(prefix=mlp + "down_proj")) == FbgemmLinear()
    assert config.experts(Place(prefix=mlp + "experts")) is None
    with pytest.raises(Refused, match="some but not all shards"):
        config.linear(
            Place(prefix=mlp + "gate_up_proj", shards=("gate_proj", "up_proj"))
        )


def test_fbgemm_needs_its_limit() -> None:
    """vLLM reads activation_scale_ub without a default."""
    with pytest.raises(Refused, match="activation_scale_ub"):
        read_fbgemm(FBGEMM, Context())


def test_fbgemm_before_ada_depends_on_the_release() -> None:
    """A100: Marlin to 0.14 and in 0.19; from 0.20 it is repacked twice, which fails."""

    def on_a100(*version: int) -> tuple[Tensor, ...]:
        there = replace(A100, release=Release((version[0], version[1], version[2])))
        return FbgemmLinear().tensors(linear((128,), 256), there)

    marlin = (Tensor(128 * 256, "float8_e4m3fn"), Tensor(128))
    assert marlin == on_a100(0, 14, 1) == on_a100(0, 19, 1)
    with pytest.raises(Refused, match="Failed to find a kernel"):
        on_a100(0, 18, 0)
    with pytest.raises(Refused, match="twice"):
        on_a100(0, 20, 0)


@pytest.mark.parametrize("name", ["VLLM_USE_DEEP_GEMM", "VLLM_MOE_USE_DEEP_GEMM"])
def test_a_variable_keeps_layers_from_deep_gemm(name: str) -> None:
    """One all layers, the other experts: on Blackwell scales stay one for a block.

    Qwen3-235B on four ranks has 94 layers of 128 experts, with matrices of 768 x 4,096
    and 4,096 x 384. DeepGEMM has a byte for a row and 128 columns, four in an integer;
    others have four bytes for 128 x 128 weights.
    """

    def weights_bytes(**env: str) -> int:
        plan = planner.plan(
            "Qwen/Qwen3-235B-A22B-FP8",
            "RTXPRO6000",
            vllm_version="0.27.1",
            env=env,
            tensor_parallel_size=4,
        )
        return plan.ranks[0].weights_bytes

    by_row = 4 * (768 * 8 + 4_096 * 1)
    by_block = 4 * (6 * 32 + 32 * 3)
    experts = 94 * 128 * (by_row - by_block)
    # Queries, keys and values: 2,304 x 4,096. The output: 4,096 x 2,048.
    by_row = 4 * (2_304 * 8 + 4_096 * 4)
    by_block = 4 * (18 * 32 + 32 * 16)
    attention = 94 * (by_row - by_block)
    spared = experts + (attention if name == "VLLM_USE_DEEP_GEMM" else 0)
    assert weights_bytes() - weights_bytes(**{name: "0"}) == spared
