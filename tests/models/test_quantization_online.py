"""Quantisation while loading, by engine argument."""

from __future__ import annotations

import pytest

from planner import plan
from planner.engine.layout import ParallelLayout
from planner.errors import Refused
from planner.models.families import read
from planner.models.files import ModelFiles
from planner.models.quantization.interface import Place
from planner.models.quantization.linear_kernels import Mxfp8Linear
from planner.models.quantization.methods import Fp8ChannelLinear, online_config
from planner.models.tensors import LinearOnRank, Tensor
from tests.configs import LLAMA_8B, architecture, gpu

H100, B200, A100 = (
    ParallelLayout(compute_capability=capability, num_sms=100)
    for capability in ((9, 0), (10, 0), (8, 0))
)
PLACE = Place(prefix="model.layers.0.mlp.down_proj")


def linear(rows: int, columns: int) -> LinearOnRank:
    """A layer on one rank."""
    return LinearOnRank(
        name="layer",
        input_size=columns,
        output_size=rows,
        input_size_per_partition=columns,
        output_partition_sizes=(rows,),
    )


def test_a_scale_for_each_row() -> None:
    """1,000 rows are padded to 1,008 for CUTLASS, their scales with them."""
    made = Fp8ChannelLinear().tensors(linear(1000, 256), H100)
    assert made == (Tensor(1008 * 256, "float8_e4m3fn"), Tensor(1008, "float32"))


def test_a_scale_for_each_row_needs_fp8_arithmetic() -> None:
    """A100 has none; Marlin would compute something else."""
    with pytest.raises(Refused, match=r"^FP8 PTPC online quant requires a kernel"):
        Fp8ChannelLinear().tensors(linear(1024, 256), A100)


def test_mxfp8_lies_in_tiles_on_blackwell() -> None:
    """200 rows of 256 columns: 256 x 8 bytes of scales."""
    made = Mxfp8Linear().tensors(linear(200, 256), B200)
    assert made == (Tensor(200 * 256, "float8_e4m3fn"), Tensor(256 * 8, "uint8"))


def test_mxfp8_is_repacked_elsewhere() -> None:
    """Marlin's tile on A100, Humming's with its locks on H100."""
    scales = "float8_e8m0fnu"
    assert Mxfp8Linear().tensors(linear(200, 256), A100) == (
        Tensor(256 * 256, "float8_e4m3fn"),
        Tensor(256 * 8, scales),
    )
    assert Mxfp8Linear().tensors(linear(200, 256), H100) == (
        Tensor(256 * 256 // 4, "int32"),
        Tensor(256 * 8, scales),
        Tensor(800, "int32"),
    )


def test_mxfp8_needs_whole_groups() -> None:
    """32 columns share a scale."""
    with pytest.raises(Refused, match=r"input_size_per_partition \(100\) to be div"):
        Mxfp8Linear().tensors(linear(64, 100), B200)


def test_some_methods_touch_experts_only() -> None:
    """Linear layers stay as they are."""
    config = online_config("int8_per_channel_weight_only", "llama")
    assert config.linear(PLACE) is None
    assert config.experts(PLACE) is not None


def test_embeddings_and_head_stay() -> None:
    """Llama-3.1-8B: 6,979,321,856 weights become one byte, 1,050,673,152 keep two."""
    files = ModelFiles(name="org/model", config=LLAMA_8B)
    made = plan(read(files, "fp8_per_tensor"), gpu(), kv_cache_memory_bytes=1 << 33)
    layers = 32 * (6144 * 4096 + 4096 * 4096 + 3 * 14336 * 4096)
    scales = 32 * (4 * 4 + 4 * 4)  # of linear layers and attention
    rest = 2 * 2 * 128256 * 4096 + 2 * 65 * 4096 + 2 * 131072 * 128
    assert layers + rest + scales == made.ranks[0].weights_bytes


def test_the_argument_reaches_an_architecture_in_hand() -> None:
    """As it reaches a model that is still to be read."""
    model = architecture(LLAMA_8B)
    made, asked = (
        plan(model, gpu(), kv_cache_memory_bytes=1 << 33, **arguments)
        for arguments in ({}, {"quantization": "fp8_per_tensor"})
    )
    assert asked.ranks[0].weights_bytes < 0.6 * made.ranks[0].weights_bytes
    assert "fp8_per_tensor" == asked.resolved.quantization  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("rows", "columns", "held"),
    [
        (528, 2816, 640 * 2816),  # 5 blocks of rows; the weight is a view of them
        (2816, 264, 2816 * 264),  # columns end inside a block: copied, as they are
        (512, 2816, 512 * 2816),
    ],
)
def test_blocks_filled_while_loading_stay_filled(
    rows: int, columns: int, held: int
) -> None:
    """Gemma 4 26B-A4B at tensor parallel 8: 2 x 264 rows of gate and up."""
    config = online_config("fp8_per_block", "gemma4")
    method = config.linear(PLACE)
    assert method is not None
    weight = method.tensors(linear(rows, columns), H100)[0]
    assert Tensor(held, "float8_e4m3fn") == weight
