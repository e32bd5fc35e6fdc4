"""Which model runner serves a model, by release."""

import pytest

from planner.engine.releases import MODELLED, NEWEST_RELEASE, Release, number_of
from planner.memory.runner import uses_v2_runner
from tests.configs import BERT, LLAMA_8B, QWEN3_MOE, QWEN3_SMALL, architecture
from tests.hybrids import QWEN3_NEXT


def first_release(config: dict[str, object]) -> str | None:
    """Return the oldest release that runs a model with the second runner."""
    model = architecture(config)
    serving = [
        version
        for version in MODELLED
        if uses_v2_runner(model, Release(number_of(version)))
    ]
    return serving[-1] if serving else None


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (QWEN3_SMALL, "0.22.0"),
        (LLAMA_8B, "0.23.0"),
        (QWEN3_MOE, "0.29.0"),
        (QWEN3_NEXT, "0.29.0"),
        (BERT, "0.29.0"),
        ({**QWEN3_SMALL, "architectures": ["Qwen2ForCausalLM"]}, "0.25.0"),
        ({**QWEN3_MOE, "architectures": ["Qwen2MoeForCausalLM"]}, "0.24.0"),
    ],
)
def test_models_moved_to_the_second_runner_one_kind_after_another(
    config: dict[str, object], expected: str
) -> None:
    """Qwen3 first, then dense models, some experts by name, at last all."""
    assert expected == first_release(config)


def test_quantised_models_came_a_release_later() -> None:
    """Llama in FP8: named from 0.23.0 on, but not when quantised until 0.24.0."""
    config = {**LLAMA_8B, "quantization_config": {"quant_method": "fp8"}}
    assert "0.24.0" == first_release(config)


def test_the_environment_decides_where_there_are_two() -> None:
    """VLLM_USE_V2_MODEL_RUNNER, from 0.12.0 on."""
    model = architecture(LLAMA_8B)
    assert not uses_v2_runner(model, NEWEST_RELEASE, forced=False)
    assert uses_v2_runner(model, Release((0, 12, 0)), forced=True)
    assert not uses_v2_runner(model, Release((0, 11, 2)), forced=True)
