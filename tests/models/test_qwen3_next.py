"""Qwen3-Next and Qwen3.5: gated delta nets, also quantised, beside gated attention."""

import pytest

from planner.engine.layout import ParallelLayout
from planner.errors import UnknownArchitecture
from planner.models.caches import AttentionLayer
from planner.models.families.qwen3_next import GateProjection
from planner.models.quantization.choosing import apply
from planner.models.quantization.interface import QuantizationConfig
from planner.models.states import GatedDeltaNetState
from planner.models.tensors import Tensor
from planner.values import frozen
from tests.configs import architecture
from tests.hybrids import QWEN3_NEXT, parts

MIXERS = "state-space and linear attention"
QWEN3_5 = {
    **QWEN3_NEXT,
    "architectures": ["Qwen3_5ForCausalLM"],
    "model_type": "qwen3_5_text",
    "mamba_ssm_dtype": "float32",
}


def test_every_fourth_layer_attends_to_everything() -> None:
    """Layers 1 to 3 keep a state, layer 4 keys and values."""
    model = architecture(QWEN3_NEXT)
    kinds = [type(model.layer_kinds[layer].caches[0]) for layer in model.layers]
    assert [*[GatedDeltaNetState] * 3, AttentionLayer] == kinds


def test_a_gated_delta_net_by_hand() -> None:
    """Keys 2 x 4 = 8, values 4 x 8 = 32, hidden 8; three layers of them.

    Convolution 48 x 4 = 192, qkvz (8 + 8 + 32 + 32) x 8 = 640, ba 8 x 8 = 64, time
    steps 4, norm 8, out 32 x 8 = 256 of 2 bytes, and A 4 of 4.
    """
    assert 3 * (2 * (192 + 640 + 64 + 4 + 8 + 256) + 4 * 4) == parts(QWEN3_NEXT)[MIXERS]


def test_two_ranks_share_all_but_the_norm() -> None:
    """Half of each, and the norm of 8 whole."""
    expected = 2 * ((192 + 640 + 64 + 4 + 256) // 2 + 8) + 4 * 2
    assert 3 * expected == parts(QWEN3_NEXT, ranks=2)[MIXERS]


def test_the_query_brings_its_gate_along() -> None:
    """(2 x 4 + 2 x 2) heads x 16 x 8 = 1,536 and output 64 x 8 = 512."""
    assert 2 * (1536 + 512) == parts(QWEN3_NEXT)["attention"]
    ungated = parts(QWEN3_NEXT, attn_output_gate=False)["attention"]
    assert 2 * (1024 + 512) == ungated


def test_a_shared_expert_has_a_gate_of_its_own() -> None:
    """Per layer 3 x 8 x 6 = 144 and a gate of 8; routed 4 x 3 x 8 x 4 = 384."""
    found = parts(QWEN3_NEXT)
    assert 4 * 2 * (144 + 8) == found["shared experts"]
    assert 4 * 2 * 384 == found["experts"]


def test_a_quarter_of_each_head_is_rotated() -> None:
    """10 positions x 16 / 4 of 2 bytes, and 4 scales of 4 bytes."""
    assert 10 * 4 * 2 + 16 == parts(QWEN3_NEXT)["buffers"]


def test_layers_named_dense_have_no_experts() -> None:
    """Layer 0 alone: 3 x 8 x 16 of 2 bytes."""
    assert 2 * 384 == parts(QWEN3_NEXT, mlp_only_layers=[0])["mlp"]


def test_no_experts_at_all_make_it_dense() -> None:
    """Four MLPs, and vLLM counts it among dense models."""
    assert 4 * 2 * 384 == parts(QWEN3_NEXT, num_experts=0)["mlp"]
    assert not architecture(QWEN3_NEXT, num_experts=0).is_moe


def test_qwen3_5_names_the_dtype_of_its_state() -> None:
    """mamba_ssm_dtype of the config; without it the cache's own."""
    state = architecture(QWEN3_5).layer_kinds[0].caches[0]
    assert isinstance(state, GatedDeltaNetState)
    assert "float32" == state.recurrent_dtype
    silent = architecture(QWEN3_5, mamba_ssm_dtype=None).layer_kinds[0].caches[0]
    assert isinstance(silent, GatedDeltaNetState)
    assert silent.recurrent_dtype is None


def test_qwen3_5_is_dense_or_sparse_throughout_by_its_model_type() -> None:
    """The plain type has MLPs only, the other experts only."""
    assert "experts" not in parts(QWEN3_5)
    sparse = parts(QWEN3_5, model_type="qwen3_5_moe_text")
    assert "mlp" not in sparse
    assert 4 * 2 * 384 == sparse["experts"]


def test_qwen3_5_may_tie_its_head_and_qwen3_next_never_does() -> None:
    """64 tokens x 8 of 2 bytes."""
    assert "lm_head" not in parts(QWEN3_5, tie_word_embeddings=True)
    assert 64 * 8 * 2 == parts(QWEN3_NEXT, tie_word_embeddings=True)["lm_head"]


def test_another_kind_of_layer_is_not_guessed() -> None:
    """A sliding window is none of this family's."""
    with pytest.raises(UnknownArchitecture, match="layer_types"):
        architecture(QWEN3_NEXT, layer_types=["sliding_attention"] * 4)


def test_layer_scales_are_two_vectors() -> None:
    """Two more norms' worth of 8 values in each of 4 layers."""
    more = parts(QWEN3_NEXT, layer_scale=True)["norms"] - parts(QWEN3_NEXT)["norms"]
    assert 4 * 2 * 2 * 8 == more


@frozen
class Untouched(QuantizationConfig):
    """A method that quantises nothing, by whatever name."""


def gates(config: dict[str, object], method: str) -> tuple[Tensor, ...]:
    """The gates' weight on one of two ranks: 2 x 4 heads x 8 over all."""
    model = apply(architecture(config), Untouched(name=method))
    (gate,) = (
        module
        for module in model.layer_kinds[0].modules
        if isinstance(module, GateProjection)
    )
    return gate.tensors(ParallelLayout(tensor_parallel_size=2))


@pytest.mark.parametrize("method", ["auto_awq", "auto_gptq"])
def test_marlin_methods_leave_the_gates_whole(method: str) -> None:
    """Even where they do not quantise them; Qwen3-Next's are always divided."""
    assert (Tensor(64),) == gates(QWEN3_5, method)
    assert (Tensor(32),) == gates(QWEN3_NEXT, method)


def test_other_methods_divide_the_gates() -> None:
    """FP8 and the like."""
    assert (Tensor(32),) == gates(QWEN3_5, "fp8")
