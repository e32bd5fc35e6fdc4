"""The gates of gated delta nets under quantisation."""

from dataclasses import dataclass

import pytest

from planner.engine.layout import ParallelLayout
from planner.models.families.gdn import GateProjection
from planner.models.quantization.choosing import apply
from planner.models.quantization.interface import BaseConfig
from planner.models.tensors import Tensor
from tests.configs import architecture
from tests.hybrids import QWEN3_NEXT

QWEN3_5 = {
    **QWEN3_NEXT,
    "architectures": ["Qwen3_5ForCausalLM"],
    "model_type": "qwen3_5_text",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Untouched(BaseConfig):
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
