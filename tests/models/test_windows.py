"""Which layers look back over a window only."""

import pytest

from planner.errors import Refused
from planner.models.families.facts import Facts
from planner.models.families.windows import layer_windows


def windows(
    config: dict[str, object], model_type: str, *, told: bool = True
) -> list[int | None]:
    """Return the windows of a model of four layers."""
    facts = Facts(config, model_type)
    return list(layer_windows(facts, 4, has_layer_windows=told))


def test_a_window_without_layer_types_is_every_layers() -> None:
    """Mistral."""
    assert [4096] * 4 == windows({"sliding_window": 4096}, "mistral")


def test_windows_on_some_layers_are_heeded_by_classes_that_are_told() -> None:
    """Others keep full attention everywhere."""
    config = {
        "sliding_window": 512,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    }
    assert [512, None, 512, None] == windows(config, "llama")
    assert [None] * 4 == windows(config, "phi3", told=False)


def test_qwen_forgets_a_window_that_is_not_switched_on() -> None:
    """Its configuration class does; for other classes the field means nothing."""
    config = {"sliding_window": 512, "use_sliding_window": False}
    assert [None] * 4 == windows(config, "qwen2")
    assert [None] * 4 == windows(config, "qwen3_moe")
    assert [512] * 4 == windows(config, "mistral")


def test_qwen_refuses_windows_from_some_layer_on() -> None:
    """max_window_layers 2 of 4."""
    config = {
        "sliding_window": 512,
        "use_sliding_window": True,
        "max_window_layers": 2,
    }
    with pytest.raises(Refused, match="Sliding window for some but all layers"):
        windows(config, "qwen2")
    everywhere = {**config, "max_window_layers": 0}
    assert [512] * 4 == windows(everywhere, "qwen2")
