"""Models that bring their own configuration class."""

from __future__ import annotations

import pytest

from planner.errors import Refused
from planner.models.families.refused import check_custom_code, known_model_types

AUTO_MAP = {"AutoConfig": "configuration_internvl_chat.InternVLChatConfig"}


def test_code_of_its_own_needs_leave() -> None:
    """InternVL2's type is neither vLLM's nor Transformers'."""
    config = {"model_type": "internvl_chat", "auto_map": AUTO_MAP}
    with pytest.raises(Refused, match="trust_remote_code=True"):
        check_custom_code("org/model", config, is_trusted=False)
    check_custom_code("org/model", config, is_trusted=True)


@pytest.mark.parametrize("model_type", ["deepseek_v3", "chatglm", "kimi_k2"])
def test_a_type_that_vllm_knows_needs_none(model_type: str) -> None:
    """Transformers' own (deepseek_v3) or vLLM's (chatglm, kimi_k2)."""
    assert model_type in known_model_types()
    config = {"model_type": model_type, "auto_map": AUTO_MAP}
    check_custom_code("org/model", config, is_trusted=False)


def test_a_config_without_code_is_left_to_its_reader() -> None:
    """No auto_map, nothing to run."""
    check_custom_code("org/model", {"model_type": "mimo"}, is_trusted=False)
