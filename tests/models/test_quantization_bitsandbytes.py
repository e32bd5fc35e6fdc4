"""bitsandbytes, in checkpoints and while loading."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.engine.layout import ParallelLayout
from planner.errors import Refused, UnknownArchitecture
from planner.models.quantization.bitsandbytes import (
    BitsAndBytesConfig,
    BitsAndBytesExperts,
    EightBitLinear,
    FourBitLinear,
    read_bitsandbytes,
)
from planner.models.quantization.interface import Context, Place
from planner.models.tensors import ExpertsOnRank, LinearOnRank, Tensor

ONE, TWO = (
    ParallelLayout(compute_capability=(8, 9), num_sms=142, tensor_parallel_size=ranks)
    for ranks in (1, 2)
)
QKV = LinearOnRank(
    name="model.layers.0.self_attn.qkv_proj",
    input_size=4096,
    output_size=6144,
    input_size_per_partition=4096,
    output_partition_sizes=(4096, 1024, 1024),
)
EXPERTS = ExpertsOnRank(
    name="model.layers.0.mlp.experts",
    num_experts=8,
    global_num_experts=8,
    top_k=2,
    hidden_size=64,
    intermediate_size=128,
    intermediate_size_per_partition=128,
)
PUBLISHED = {"quant_method": "bitsandbytes", "load_in_4bit": True}


def _read(**given: Any) -> BitsAndBytesConfig:
    return read_bitsandbytes({**PUBLISHED, **given}, Context())


def _plan(model: str = "Qwen/Qwen3-8B", **settings: Any) -> planner.Plan:
    return planner.plan(model, gpu="L40S", **settings)


def test_two_weights_share_a_byte_and_64_a_scale() -> None:
    """Each part has scales and the values of its codes; the largest is unpacked."""
    made = FourBitLinear(is_prequantised=False).tensors(QKV, TWO)
    code = Tensor(16, "float32")
    assert made == (
        Tensor(6144 * 4096 // 2, "uint8", unpacked=4096 * 4096),
        Tensor(4096 * 4096 // 64, "float32"),
        Tensor(1024 * 4096 // 64, "float32"),
        Tensor(1024 * 4096 // 64, "float32"),
        *(code, code, code),
    )


def test_eight_bits_have_a_scale_for_each_row() -> None:
    """As LLM.int8() publishes them."""
    made = EightBitLinear().tensors(QKV, ONE)
    assert made == (Tensor(6144 * 4096, "int8"), Tensor(6144, "float32"))


def test_experts_are_unpacked_together() -> None:
    """All of a layer, w13 and w2, whenever it computes."""
    method = BitsAndBytesExperts(is_prequantised=False, is_8bit=False)
    w13, w2 = 8 * 256 * 64, 8 * 64 * 128
    made = method.tensors(EXPERTS, ONE)
    assert made[0] == Tensor(w13 // 2, "uint8", unpacked=w13 + w2)
    assert made[1] == Tensor(w2 // 2, "uint8")
    assert sum(t.elements for t in made[2:4]) == (w13 + w2) // 64


@pytest.mark.parametrize("is_8bit", [False, True])
def test_a_quantised_checkpoint_is_not_divided(is_8bit: bool) -> None:
    """vLLM says so, and recommends pipeline parallelism."""
    method = EightBitLinear() if is_8bit else FourBitLinear(is_prequantised=True)
    with pytest.raises(Refused, match=r"^Prequant BitsAndBytes models with tensor"):
        method.tensors(QKV, TWO)


def test_experts_have_no_eight_bits() -> None:
    """The loader refuses them."""
    method = BitsAndBytesExperts(is_prequantised=True, is_8bit=True)
    with pytest.raises(Refused, match="8bit models with RoutedExperts"):
        method.tensors(EXPERTS, ONE)


def test_float32_is_not_modelled() -> None:
    """vLLM packs its weights by the width of the dtype."""
    layout = ParallelLayout(
        compute_capability=(8, 9), num_sms=142, tensor_parallel_size=1, dtype="float32"
    )
    with pytest.raises(UnknownArchitecture, match="dtype"):
        FourBitLinear(is_prequantised=False).tensors(QKV, layout)


@pytest.mark.parametrize(
    ("prefix", "is_left"),
    [
        ("model.layers.3.mlp.gate_up_proj", True),
        ("model.layers.30.mlp.gate_up_proj", False),
        ("model.layers.0.self_attn.o_proj", True),
        ("model.layers.0.self_attn.qkv_proj", False),
        ("visual.blocks.0.attn.qkv", True),
    ],
)
def test_the_list_names_parts_or_beginnings(prefix: str, is_left: bool) -> None:
    """A merged layer goes by its own name, not by those of its parts."""
    names = ["model.layers.3.mlp", "o_proj", "q_proj", "visual"]
    config = _read(llm_int8_skip_modules=names)
    assert (config.linear(Place(prefix=prefix)) is None) is is_left


def test_weights_are_stored_in_bytes() -> None:
    """In vLLM's words."""
    with pytest.raises(Refused, match=r"^Unsupported bnb_4bit_quant_storage: bfloat16"):
        _read(bnb_4bit_quant_storage="bfloat16")


def test_while_loading_it_takes_about_a_third() -> None:
    """Qwen3-8B: vLLM's own code holds 3,472,883,712 bytes of packed weights.

    An eighth as much again are scales; embeddings and head stay as they are.
    """
    weights = _plan(quantization="bitsandbytes").ranks[0].lines[0]
    packed, plain = 3_472_883_712, 2_489_935_872
    buffers, codes = 10 << 20, 7 * 36 * 512
    expected = packed + packed // 8 + plain + buffers + codes
    # The allocator rounds large tensors up, and what the tables of rotations left is
    # taken by smaller ones: up to the 10 MiB of such a table.
    assert expected <= weights.size_bytes < expected + (4 << 20) + buffers


def test_the_package_is_named_where_vllm_lacks_the_method() -> None:
    """vLLM held it itself up to 0.27.1."""
    newest = " ".join(_plan(quantization="bitsandbytes").notes)
    older = _plan(quantization="bitsandbytes", vllm_version="0.27.1")
    assert "vllm-bnb-plugin" in newest
    assert "vllm-bnb-plugin" not in " ".join(older.notes)
    assert older.resolved is not None
    assert older.resolved.quantization == "bitsandbytes"


def test_eight_bits_run_without_cuda_graphs() -> None:
    """vLLM turns them off itself, and says so."""
    config = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    made = _plan(hf_overrides={"quantization_config": config})
    assert made.resolved is not None
    assert made.resolved.enforce_eager
    assert any("fallback to the eager mode" in note for note in made.notes)


def test_unpacked_weights_count_in_the_peak() -> None:
    """All experts of a layer of Qwen3-30B-A3B: 128 x 3 x 2,048 x 768, 2 bytes each."""
    lines = _plan("Qwen/Qwen3-30B-A3B", quantization="bitsandbytes").ranks[0].lines
    (peak,) = [line for line in lines if line.name == "peak activation"]
    assert "unpacked weights 1.12 GiB" in peak.why
    assert peak.size_bytes > 128 * 3 * 2048 * 768 * 2
