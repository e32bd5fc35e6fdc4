"""GPTQ and AWQ checkpoints: integers packed into words, by kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.errors import Refused, UnknownArchitecture
from planner.models.quantization.awq import AWQLinear, read_awq
from planner.models.quantization.gptq import GPTQConfig, GPTQLinear, read_gptq
from planner.models.quantization.interface import Context, Place
from planner.models.quantization.packed_ints import Kernel, choose, repacked
from planner.models.quantization.padding import Packing, padded_nk
from planner.models.tensors import LinearOnRank, Tensor

H100, A100, L4 = (
    ParallelLayout(compute_capability=capability, num_sms=100)
    for capability in ((9, 0), (8, 0), (8, 9))
)
DOWN = Place(prefix="model.layers.3.mlp.down_proj")


def linear(
    rows: int, columns: int, *, ranks: int = 1, has_bias: bool = False
) -> LinearOnRank:
    """A layer whose inputs are divided over `ranks`."""
    return LinearOnRank(
        name="layer",
        input_size=columns * ranks,
        output_size=rows,
        input_size_per_partition=columns,
        output_partition_sizes=(rows,),
        has_bias=has_bias,
    )


def gptq(**changes: Any) -> GPTQConfig:
    """4 bits in groups of 128, with some settings replaced."""
    given = {"bits": 4, "group_size": 128, "desc_act": False, "sym": True, **changes}
    return read_gptq(given, Context())


def test_machete_leaves_the_zero_points_of_gptq_lying() -> None:
    """1,024 x 256: 4 bit weights, two scales a row, and zeros nobody reads."""
    method = GPTQLinear(packing=Packing(num_bits=4, group_size=128))
    assert method.tensors(linear(1024, 256), H100) == (
        Tensor(1024 * 256 // 8, "int32"),
        Tensor(1024 * 2),
        Tensor(1024 // 8 * 2, "int32"),
    )


def test_marlin_drops_them() -> None:
    """The same layer on A100."""
    method = GPTQLinear(packing=Packing(num_bits=4, group_size=128))
    assert method.tensors(linear(1024, 256), A100) == (
        Tensor(1024 * 256 // 8, "int32"),
        Tensor(1024 * 2),
    )


def test_marlin_pads_to_the_cheaper_tile() -> None:
    """80 rows by 192 columns: 128 by 192, rather than 128 by 256."""
    assert padded_nk(80, 192) == (128, 192)
    assert padded_nk(64, 100) == (64, 128)
    assert padded_nk(64, 100, 256) == (64, 256)


def test_humming_serves_what_machete_cannot_on_hopper() -> None:
    """Groups of 32: rows to 256, columns to 128, a second bias, eight locks an SM."""
    method = GPTQLinear(packing=Packing(num_bits=4, group_size=32))
    made = method.tensors(linear(200, 96, has_bias=True), H100)
    assert made == (
        Tensor(256 * 128 // 8, "int32"),
        Tensor(256 * 4),
        Tensor(800, "int32"),
        Tensor(256 - 200 + 256),
    )


def test_what_marlin_cannot_stays_as_published() -> None:
    """Groups on two ranks: Exllama in float16; groups of 256: Triton; else Humming."""
    packing = Packing(num_bits=8, group_size=128)
    half = ParallelLayout(compute_capability=(8, 0), num_sms=100, dtype="float16")
    straddling = linear(64, 192, ranks=2)
    assert repacked(packing, straddling, half) == (
        Tensor(64 * 192 // 4, "int32"),
        Tensor(64),
        Tensor(64 // 4, "int32"),
    )
    assert choose(packing, straddling, A100) is Kernel.HUMMING
    wide = Packing(num_bits=4, group_size=256)
    assert repacked(wide, linear(64, 512), A100) == (
        Tensor(64 * 512 // 8, "int32"),
        Tensor(64 * 2),
    )


def test_machete_multiplies_the_zero_points_of_awq_with_the_scales() -> None:
    """They grow from 4 bits to the model's dtype; elsewhere they stay packed."""
    packing = Packing(num_bits=4, group_size=128, has_zero_points=True)
    method = AWQLinear(packing=packing, uses_marlin=True)
    assert method.tensors(linear(1024, 256), H100)[2] == Tensor(2048)
    assert method.tensors(linear(1024, 256), L4)[2] == Tensor(1024 * 2 // 8, "int32")


def test_marlin_served_awq_on_hopper_until_0_19() -> None:
    """Where rows and columns fill its tiles; other layers stayed as published."""
    packing = Packing(num_bits=4, group_size=128, has_zero_points=True)
    method = AWQLinear(packing=packing, uses_marlin=True)
    older, newer = (replace(H100, release=Release((0, minor, 0))) for minor in (18, 19))
    weight, scales = Tensor(1024 * 256 // 8, "int32"), Tensor(1024 * 2)
    zeros = Tensor(1024 * 2 // 8, "int32")
    assert method.tensors(linear(1024, 256), older) == (weight, scales, zeros)
    assert method.tensors(linear(1024, 256), newer) == (weight, scales, scales)
    # 96 rows are no whole tile of 64: two groups of 128 columns, four weights a byte.
    assert method.tensors(linear(96, 256), older) == (
        Tensor(96 * 256 // 8, "int32"),
        Tensor(96 // 8 * 2, "int32"),
        Tensor(96 * 2),
    )


def test_ranks_may_not_cut_through_a_group_of_awq() -> None:
    """7,392 = 57.75 x 128 columns on each of four ranks."""
    packing = Packing(num_bits=4, group_size=128, has_zero_points=True)
    method = AWQLinear(packing=packing, uses_marlin=True)
    with pytest.raises(Refused, match="The input size is not aligned with the quanti"):
        method.tensors(linear(8192, 7392, ranks=4), H100)


def test_the_order_of_activations_is_refused_but_for_whole_rows() -> None:
    """One group a row has no order; rules may switch it on as well."""
    later = gptq(desc_act=True).refused_later
    assert later.since.since == (0, 30)
    assert "(desc_act=True) is no longer supported. Use" in str(later)
    assert gptq(desc_act=True, group_size=-1).refused_later is None
    by_rule = gptq(dynamic={"+:.*mlp": {"desc_act": True}}).refused_later
    assert "is enabled by dynamic rule '+:.*mlp'" in str(by_rule)


def on_release(version: tuple[int, int, int], gpu: ParallelLayout) -> ParallelLayout:
    """Return the layout of a GPU under a release."""
    return replace(gpu, release=Release(version))


def test_the_order_of_columns_is_held_until_0_30() -> None:
    """`g_idx` of 256 columns: Machete leaves it, Marlin drops it unless it is used."""
    plain, ordered = gptq().linear(DOWN), gptq(desc_act=True).linear(DOWN)
    layer, order = linear(1024, 256), Tensor(256, "int32")
    zeros = Tensor(1024 * 2 // 8, "int32")

    hopper, ampere = on_release((0, 29, 0), H100), on_release((0, 29, 0), A100)
    assert plain.tensors(layer, hopper)[2:] == (zeros, order)
    assert plain.tensors(layer, on_release((0, 30, 0), H100))[2:] == (zeros,)
    assert order not in plain.tensors(layer, ampere)
    assert ordered.tensors(layer, hopper)[2:] == (zeros, order, order)
    assert ordered.tensors(layer, ampere)[2:] == (order, order)


def test_ordered_scales_are_whole_on_every_rank() -> None:
    """512 columns on two ranks of 256: four groups of 128, not two."""
    ordered = gptq(desc_act=True).linear(DOWN)
    half = linear(1024, 256, ranks=2)

    assert ordered.tensors(half, on_release((0, 29, 0), A100))[1] == Tensor(1024 * 4)
    with pytest.raises(Refused, match="Failed to find a kernel"):
        ordered.tensors(linear(1000, 256), on_release((0, 29, 0), A100))


def test_rules_change_or_leave_out_layers() -> None:
    """The first rule that matches decides."""
    config = gptq(
        dynamic={r"-:.*\.2\..*": {}, r"+:.*down_proj": {"bits": 8, "group_size": 64}}
    )
    assert config.linear(Place(prefix="model.layers.2.mlp.down_proj")) is None
    assert config.linear(DOWN) == GPTQLinear(packing=Packing(num_bits=8, group_size=64))


def test_only_listed_layers_are_quantised() -> None:
    """By parts of their names, lists of lists included."""
    config = gptq(modules_in_block_to_quantize=[["mlp.up_proj"], ["mlp.gate_proj"]])
    assert config.linear(DOWN) is None
    merged = Place(prefix="a.mlp.gate_up_proj", shards=("gate_proj", "up_proj"))
    assert config.linear(merged) is not None
    with pytest.raises(Refused, match="some but not all shards"):
        config.linear(Place(prefix="mlp.x", shards=("up_proj", "down_proj")))


def test_the_head_is_quantised_on_demand() -> None:
    """`lm_head: true`, rare as it is."""
    head = Place(prefix="lm_head")
    assert gptq().head(head) is None
    assert gptq(lm_head=True).head(head) is not None


def test_what_vllm_has_no_kernel_for_is_refused() -> None:
    """3 bits, asymmetric weights, groups of 256, 8 bits of AWQ."""
    for wrong in ({"bits": 3}, {"sym": False}):
        with pytest.raises(Refused, match="Unsupported quantization config: bits="):
            gptq(**wrong)
    with pytest.raises(Refused, match="Marlin does not support group_size = 256"):
        gptq(group_size=256).linear(DOWN)
    with pytest.raises(Refused, match=r"Unsupported num_bits = 8\. Supported: 4\."):
        read_awq({"bits": 8, "group_size": 128, "zero_point": True}, Context())


def test_a_missing_or_odd_setting_is_named() -> None:
    """vLLM looks for either name."""
    with pytest.raises(Refused, match=r"Cannot find any of \['w_bit', 'bits'\]"):
        read_awq({}, Context())
    with pytest.raises(UnknownArchitecture, match="group_size is '128'"):
        gptq(group_size="128")


def test_parts_of_names_leave_layers_of_awq_out() -> None:
    """`modules_to_not_convert`, such as the vision tower."""
    given = {
        "bits": 4,
        "group_size": 128,
        "zero_point": True,
        "modules_to_not_convert": ["visual"],
    }
    config = read_awq(given, Context())
    assert config.linear(Place(prefix="visual.blocks.0.mlp.fc1")) is None
    assert isinstance(config.linear(DOWN), AWQLinear)
