"""Kimi-Linear and Kimi-K3: states, projections that ranks divide in part, the tower."""

from __future__ import annotations

from typing import Any

import pytest

from planner.engine.layout import ParallelLayout
from planner.errors import UnknownArchitecture
from planner.models.caches import MLALayer
from planner.models.families.delta_attention import (
    FusedDecodeCopies,
    PartlyDividedLinear,
)
from planner.models.families.kimi_k3 import WidenedExperts
from planner.models.layers import Part
from planner.models.states import KimiDeltaAttentionState
from planner.models.tensors import Tensor
from tests.configs import architecture

LINEAR: dict[str, Any] = {
    "full_attn_layers": [2],
    "kda_layers": [1],
    "num_heads": 96,
    "head_dim": 128,
    "short_conv_kernel_size": 4,
    "use_full_rank_gate": True,
    "gate_lower_bound": -5.0,
}
TEXT: dict[str, Any] = {
    "architectures": ["KimiLinearForCausalLM"],
    "model_type": "kimi_linear",
    "dtype": "bfloat16",
    "hidden_size": 256,
    "intermediate_size": 512,
    "moe_intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 96,
    "kv_lora_rank": 512,
    "q_lora_rank": 128,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "mla_use_nope": True,
    "mla_use_output_gate": True,
    "num_experts": 8,
    "num_experts_per_token": 2,
    "num_shared_experts": 1,
    "first_k_dense_replace": 1,
    "attn_res_block_size": 12,
    "vocab_size": 128,
    "linear_attn_config": LINEAR,
}
K3: dict[str, Any] = {
    "architectures": ["KimiK3ForConditionalGeneration"],
    "model_type": "kimi_k3",
    "dtype": "bfloat16",
    "text_config": TEXT,
    "vision_config": {"vt_num_hidden_layers": 1},
}
BF16_ON_H100 = ParallelLayout(dtype="bfloat16", compute_capability=(9, 0))


def test_a_layer_keeps_either_a_state_or_a_latent_vector() -> None:
    """Layers are counted from one in linear_attn_config."""
    model = architecture(TEXT)
    first, second = (model.layer_kinds[i].caches[0] for i in model.layers)
    assert isinstance(first, KimiDeltaAttentionState)
    assert first.may_use_flash_kda
    assert isinstance(second, MLALayer)
    assert second.head_size == 512 + 64


def test_a_projection_is_divided_in_part() -> None:
    """On two ranks: 4 x 12,288 / 2 + 96 / 2 = 24,624, and 128 whole.

    24,752 rows are a multiple of 16 already; without the heads' 48 they would be filled
    up from 24,704 to itself, and 3 + 128 = 131 to 144.
    """
    linear = PartlyDividedLinear(
        name="in_proj",
        part=Part.MIXERS,
        input_size=256,
        divided=(12_288,) * 4 + (96,),
        whole=(128,),
        row_multiple=16,
    )
    layout = ParallelLayout(tensor_parallel_size=2)
    assert linear.tensors(layout) == (Tensor(24_752 * 256),)
    narrow = PartlyDividedLinear(
        name="in_proj",
        part=Part.MIXERS,
        input_size=10,
        divided=(6,),
        whole=(128,),
        row_multiple=16,
    )
    assert narrow.tensors(layout) == (Tensor(144 * 10),)


def test_one_kernel_of_decoding_reads_copies() -> None:
    """3 x 4 x 96 heads x 128 float32 and a norm; none in float16 or on an A100."""
    copies = FusedDecodeCopies(name="decode", num_heads=96, head_size=128, kernel=4)
    held = copies.tensors(BF16_ON_H100)
    assert held == (Tensor(3 * 4 * 96 * 128, "float32"), Tensor(128, "float32"))
    assert copies.tensors(ParallelLayout(dtype="float16")) == ()
    assert copies.tensors(ParallelLayout(compute_capability=(8, 0))) == ()


def test_experts_are_widened_where_ranks_cut_them_small() -> None:
    """512 columns on 4 ranks are 128 each, widened to 256; on 2 ranks they are 256.

    A rank holds 8 experts of 3 x 256 columns x 64.
    """
    experts = WidenedExperts(
        name="experts", num_experts=8, top_k=2, hidden_size=64, intermediate_size=512
    )
    four = experts.tensors(ParallelLayout(tensor_parallel_size=4))
    two = experts.tensors(ParallelLayout(tensor_parallel_size=2))
    assert four == two
    assert sum(t.elements for t in four) == 8 * 3 * 256 * 64


def test_the_tower_has_wider_heads_than_states() -> None:
    """Query, key and value of 1,536 each from 1,024, no biases."""
    (tower,) = architecture(K3).towers
    qkv = next(m for m in tower.modules if m.name.endswith("wqkv"))
    assert qkv.tensors(ParallelLayout()) == (Tensor(3 * 1_536 * 1_024),)
    assert tower.modalities == ("image",)


def test_kimi_k3_calls_its_experts_mxfp4() -> None:
    """compressed-tensors of that format become vLLM's method for MXFP4 experts."""
    settings = {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"}
    text = {**TEXT, "quantization_config": settings}
    assert architecture({**K3, "text_config": text}).quantization == "mxfp4"


@pytest.mark.parametrize("sides", [[1.5, 2], [2], "22", [0, 2], {"rows": 2}, [2, 2, 2]])
def test_the_tower_merges_whole_patches(sides: object) -> None:
    """Rows and columns of patches that become one token."""
    vision = {**K3["vision_config"], "merge_kernel_size": sides}
    with pytest.raises(UnknownArchitecture, match="merge_kernel_size"):
        architecture({**K3, "vision_config": vision})


def test_rotated_latent_attention_is_named() -> None:
    """vLLM's class asserts that positions are not rotated."""
    with pytest.raises(UnknownArchitecture, match="mla_use_nope"):
        architecture({**TEXT, "mla_use_nope": False})
