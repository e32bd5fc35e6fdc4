"""How releases before the newest hold quantised layers, on small numbers.

Unless a test says otherwise: 4 experts of 256 inputs and 64 columns on the rank, so
w13 has 2 x 64 rows of 256 and w2 256 rows of 64.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.errors import Refused, UnknownArchitecture
from planner.models.experts import FusedMoE
from planner.models.quantization.compressed_schemes import Fp8Linear, PackedLinear
from planner.models.quantization.compressed_tensors import read_compressed_tensors
from planner.models.quantization.experts.fp8 import Fp8BlockExperts, Fp8TensorExperts
from planner.models.quantization.experts.mxfp4 import Mxfp4Experts, Mxfp4Source
from planner.models.quantization.experts.nvfp4 import NvFp4Experts
from planner.models.quantization.experts.wna16 import GPTQExperts
from planner.models.quantization.fp8 import Fp8TensorLinear
from planner.models.quantization.interface import Context, Place
from planner.models.quantization.linear_kernels import ModelOptNvFp4Linear, Mxfp4Linear
from planner.models.quantization.packed_ints import Kernel, choose
from planner.models.quantization.padding import Packing
from planner.models.tensors import LinearOnRank, Tensor
from tests.models.test_quantised_experts import block, size_bytes

FP8 = "float8_e4m3fn"
GPT_OSS = Mxfp4Experts(source=Mxfp4Source.GPT_OSS)
OSS: dict[str, Any] = {
    "hidden_size": 288,
    "intermediate_size": 192,
    "intermediate_size_per_partition": 192,
    "activation": "swigluoai",
    "has_bias": True,
}
"""9 groups of 32 inputs in w13's 384 rows, 6 in w2's 288."""


def on(capability: tuple[int, int], *version: int) -> ParallelLayout:
    """Ranks on a GPU under a release."""
    major, minor, patch = (*version, 0)[:3]
    release = Release((major, minor, patch))
    return ParallelLayout(compute_capability=capability, release=release)


def linear(rows: int, columns: int) -> LinearOnRank:
    """A layer in full."""
    return LinearOnRank(
        name="layer",
        input_size=columns,
        output_size=rows,
        input_size_per_partition=columns,
        output_partition_sizes=(rows,),
    )


H100, B200, RTX, A100 = (9, 0), (10, 0), (12, 0), (8, 0)


def test_gpt_oss_on_hopper_kept_what_was_published() -> None:
    """Scales of 384 x 9 and 288 x 6 groups, rows to 256s, groups to 2 and later 4.

    0.26.0: 512 x 12 + 512 x 8. 0.25.0: 512 x 10 + 512 x 6. 0.24.0: also as published.
    """
    weights = 384 * 160 + 288 * 96  # half a byte a weight, inputs to 64s
    rest = weights + 4 * (384 + 288)  # biases in float32
    expected = {
        26: rest + 512 * 12 + 512 * 8,
        25: rest + 512 * 10 + 512 * 6,
        24: rest + 512 * 10 + 512 * 6 + 384 * 9 + 288 * 6,
    }
    for minor, one_expert in expected.items():
        assert 4 * one_expert == size_bytes(GPT_OSS, on(H100, 0, minor), **OSS)


def test_trtllm_padded_mxfp4_to_256_columns() -> None:
    """300 columns become 384 since 0.27.0, 512 before; 256 inputs stay."""
    sizes: dict[str, Any] = {"intermediate_size_per_partition": 300}
    for minor, columns in ((27, 384), (26, 512)):
        weights = 3 * columns * 256
        held = size_bytes(GPT_OSS, on(B200, 0, minor), **sizes)
        assert 4 * (weights // 2 + weights // 32) == held


@pytest.mark.parametrize(
    ("capability", "minor"), [((12, 0), 11), ((12, 1), 10), ((10, 3), 12)]
)
def test_gpus_that_took_triton_early_are_not_modelled(
    capability: tuple[int, int], minor: int
) -> None:
    """Its layout there is another; the releases after took other kernels."""
    with pytest.raises(UnknownArchitecture, match="mxfp4"):
        GPT_OSS.tensors(block(**OSS), on(capability, 0, minor))
    later = on(capability, 0, minor + 1)
    assert GPT_OSS.tensors(block(**OSS), replace(later, release=Release((0, 13, 0))))


def test_marlin_served_hopper_before_humming() -> None:
    """Experts and layers of Hopper are those of other GPUs before 0.32.0."""
    marlin = size_bytes(Mxfp4Experts(), on(A100, 0, 31))
    assert marlin == size_bytes(Mxfp4Experts(), on(H100, 0, 31))
    assert Mxfp4Linear().tensors(linear(64, 128), on(H100, 0, 31)) == (
        Tensor(64 * 128 // 8, "int32"),
        Tensor(64 * 4, "float8_e8m0fnu"),
    )
    odd = linear(64, 96)  # no shape for Machete
    packing = Packing(num_bits=4, group_size=32)
    assert Kernel.HUMMING is choose(packing, odd, on(H100, 0, 32))
    assert Kernel.MARLIN is choose(packing, odd, on(H100, 0, 31))


def test_shapes_had_to_fill_marlins_tiles() -> None:
    """96 inputs are no multiple of 128: padded since 0.24.0, Triton in 0.23.

    Before, there was no other kernel for them.
    """
    packing = Packing(num_bits=4, group_size=32)
    assert Kernel.MARLIN is choose(packing, linear(64, 96), on(A100, 0, 24))
    assert Kernel.TRITON is choose(packing, linear(64, 96), on(A100, 0, 23))
    with pytest.raises(Refused, match=r"^Failed to find a kernel .* WNA16 linear"):
        choose(packing, linear(64, 96), on(A100, 0, 22))


def test_ranks_that_cut_through_groups_met_an_assertion() -> None:
    """48 of 96 columns in groups of 32: words since 0.25.0."""
    half = replace(linear(64, 96), input_size_per_partition=48)
    method = PackedLinear(packing=Packing(num_bits=4, group_size=32), layer="down")
    with pytest.raises(Refused, match=r"^Weight input_size_per_partition=48 for"):
        method.tensors(half, on(A100, 0, 25))
    with pytest.raises(Refused, match=r"^AssertionError: "):
        method.tensors(half, on(A100, 0, 24))


def test_experts_had_to_fill_marlins_tiles() -> None:
    """96 columns in groups of 32: padded to 128 since 0.25.0, else held in bytes."""
    method = GPTQExperts(num_bits=4, group_size=32)
    odd = block(intermediate_size=96, intermediate_size_per_partition=96)
    new, old = (method.tensors(odd, on(A100, 0, minor)) for minor in (25, 24))
    assert Tensor(4 * 256 * 128 // 8, "int32") in new
    assert Tensor(4 * 256 * 96 // 2, "uint8") in old


def test_cutlass_took_fp8_of_any_shape() -> None:
    """100 x 72 becomes 112 x 80 since 0.21.0."""
    method = Fp8TensorLinear(has_input_scale=True)
    new, old = (method.tensors(linear(100, 72), on(H100, 0, m)) for m in (21, 20))
    assert (112 * 80, 100 * 72) == (new[0].elements, old[0].elements)


def test_marlin_unpacked_fp8_of_compressed_tensors() -> None:
    """On A100 100 x 256: padded to 128 rows for Marlin, to 256 for Humming."""
    method = Fp8Linear(
        strategy="channel", is_static=False, is_weight_only=False, model_type="llama"
    )
    new, old = (method.tensors(linear(100, 256), on(A100, 0, m)) for m in (25, 24))
    assert Tensor(256 * 256 // 4, "int32") == new[0]
    assert (Tensor(128 * 256, FP8), Tensor(128)) == old


def test_ranks_could_not_cut_through_blocks() -> None:
    """64 columns of blocks of 128: refused before 0.29.0."""
    method = Fp8BlockExperts()
    assert method.tensors(block(), on(H100, 0, 29))
    with pytest.raises(Refused, match="is not divisible by weight quant"):
        method.tensors(block(), on(H100, 0, 28))


def test_flashinfer_had_to_be_asked_for() -> None:
    """FP8 experts on H100: padded from 40 to 48 columns since 0.15.0."""
    odd = block(intermediate_size=40, intermediate_size_per_partition=40)
    method = Fp8TensorExperts(is_static=True)
    new, old = (method.tensors(odd, on(H100, 0, minor)) for minor in (15, 14))
    assert Tensor(4 * 256 * 48, FP8) in new
    assert Tensor(4 * 256 * 40, FP8) in old


def test_b200_gave_blocks_of_fp8_to_deepgemm() -> None:
    """128 columns: 2 + 1 words for 256 and 256 rows until 0.14, scales by block since.

    Before 0.11.1 nothing laid them out.
    """
    even = block(intermediate_size=128, intermediate_size_per_partition=128)
    words = (Tensor(4 * 256, "int32"), Tensor(4 * 256, "int32"))
    plain = (Tensor(4 * 2 * 2, "float32"), Tensor(4 * 2, "float32"))
    for version, scales in (
        ((0, 15), plain),
        ((0, 14), words),
        ((0, 11, 1), words),
        ((0, 11), plain),
    ):
        held = Fp8BlockExperts().tensors(even, on(B200, *version))
        assert scales == held[2:]


def test_nvfp4_experts_of_b200_went_to_cutlass() -> None:
    """Scales in tiles of 128 x 4 until 0.14, without TRT-LLM's 256 hidden inputs."""
    sizes = block(hidden_size=320)
    new, old = (NvFp4Experts().tensors(sizes, on(B200, 0, m)) for m in (15, 14))
    assert Tensor(4 * 128 * 512 // 2, "uint8") == new[0]
    assert Tensor(4 * 128 * 320 // 2, "uint8") == old[0]
    assert Tensor(4 * 384 * 4, FP8) in old


def test_modelopt_kept_nvfp4_scales_twice() -> None:
    """128 x 64: 128 x 4 scales in tiles, until 0.10.1 also as published."""
    method = ModelOptNvFp4Linear(has_input_scale=True)
    new, old = (
        method.tensors(linear(128, 64), on(B200, *version))
        for version in ((0, 10, 2), (0, 10, 1))
    )
    assert (*new, Tensor(128 * 4, FP8)) == old
    experts = NvFp4Experts()
    new, old = (
        experts.tensors(block(), on(B200, *version))
        for version in ((0, 10, 2), (0, 10, 1))
    )
    raw = [Tensor(4 * 128 * 16, FP8), Tensor(4 * 256 * 4, FP8)]
    assert len(new) + 2 == len(old)
    assert set(raw) <= set(old)


def test_nvfp4_was_not_padded_before_0_16() -> None:
    """40 x 48 becomes 64 x 64."""
    method = ModelOptNvFp4Linear(has_input_scale=True)
    new, old = (method.tensors(linear(40, 48), on(B200, 0, m)) for m in (16, 15))
    assert Tensor(64 * 64 // 2, "uint8") == new[0]
    assert Tensor(40 * 48 // 2, "uint8") == old[0]


def test_plain_experts_of_b200_are_padded_since_0_24() -> None:
    """64 columns become 128; TRT-LLM had to be asked for before 0.20.0."""
    layer = FusedMoE(
        name="experts", num_experts=4, top_k=2, hidden_size=8, intermediate_size=64
    )
    found = [
        (layer.uses_trtllm(there), layer.intermediate_size_per_rank(there))
        for there in (on(B200, 0, minor) for minor in (24, 23, 20, 19))
    ]
    assert [(True, 128), (True, 64), (True, 64), (False, 64)] == found
    plain = replace(layer, activation="relu2_no_mul", is_gated=False)
    assert plain.uses_trtllm(on(B200, 0, 24))
    assert not plain.uses_trtllm(on(B200, 0, 23))


def test_rtx_had_no_deepgemm_for_experts() -> None:
    """Scales by block until 0.23, by row since."""
    even = block(intermediate_size=128, intermediate_size_per_partition=128)
    new, old = (Fp8BlockExperts().tensors(even, on(RTX, 0, m)) for m in (24, 23))
    assert ("int32", "float32") == (new[2].dtype, old[2].dtype)


@pytest.mark.parametrize(
    ("release", "tensor_parallel_size", "gib"),
    [
        # Logged by 0.17 to 0.21 on one, two and four H100: 13.64, 7.01 and 3.63 GiB.
        ("0.19.1", 1, 13.65),
        ("0.19.1", 2, 7.02),
        ("0.19.1", 4, 3.62),
        ("0.16.0", 1, 13.46),
        ("0.22.0", 1, 13.58),
    ],
)
def test_triton_pads_gpt_oss_to_64_in_some_releases(
    release: str, tensor_parallel_size: int, gib: float
) -> None:
    """1,440 packed inputs become 1,472 from 0.17 to 0.21."""
    made = planner.plan(
        "openai/gpt-oss-20b",
        gpu="H100",
        vllm_version=release,
        tensor_parallel_size=tensor_parallel_size,
    )

    assert round(made.ranks[0].allocated_weights_bytes / 2**30, 2) == gib


def test_experts_are_looked_for_by_the_names_of_the_checkpoint_from_0_32_on() -> None:
    """A target of gate, up and down misses experts called w1, w3 and w2.

    4 experts: w13 of 2 x 64 rows of 256 and w2 of 256 rows of 64 in 4 bits, and a
    scale for 16 columns.
    """
    group = {
        "targets": ["re:.*ffn.*(gate|up|down)_proj$"],
        "weights": {
            "num_bits": 4,
            "type": "float",
            "strategy": "tensor_group",
            "group_size": 16,
        },
        "format": "nvfp4-pack-quantized",
    }
    config = read_compressed_tensors(
        {"format": "mixed-precision", "config_groups": {"group_0": group}}, Context()
    )
    own = Place(prefix="model.layers.0.ffn.experts", projections=("w1", "w3", "w2"))
    usual = Place(
        prefix="model.layers.0.ffn.experts",
        projections=("gate_proj", "up_proj", "down_proj"),
    )

    found, named = config.experts(own), config.experts(usual)

    assert found is not None
    assert named is not None
    before, since = on(H100, 0, 31), on(H100, 0, 32)
    assert named.tensors(block(), before) == found.tensors(block(), before)
    four_bits = 4 * (128 * 256 + 256 * 64) // 2
    assert four_bits < size_bytes(found, before) < 2 * four_bits
    with pytest.raises(Refused, match="names the routed experts' layers w1, w3, w2"):
        found.tensors(block(), since)
    assert named.tensors(block(), since)
