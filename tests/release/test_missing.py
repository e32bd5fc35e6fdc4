"""What the planner lacks of the names that a new release brings."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.models.families.names import FAMILIES
from tests.release.wheels import package
from tools.release import missing, sources

REGISTRY = """
_MODELS = {
    "Qwen3ForCausalLM": ("qwen3", "Qwen3ForCausalLM"),
    "AliasForCausalLM": ("qwen3", "Qwen3ForCausalLM"),
    "EmptyForCausalLM": ("empty", "EmptyForCausalLM"),
    "OwnForCausalLM": ("own", "OwnForCausalLM"),
}
"""
FILES = {
    "model_executor/models/registry.py": REGISTRY,
    "model_executor/models/empty.py": (
        "from .qwen3 import Qwen3ForCausalLM\n"
        "class EmptyForCausalLM(Qwen3ForCausalLM):\n    pass\n"
    ),
    "model_executor/models/own.py": (
        "from .qwen3 import Qwen3ForCausalLM\n"
        "class OwnForCausalLM(Qwen3ForCausalLM):\n    extra = 1\n"
    ),
    "envs.py": "",
    "v1/pool.py": "a = envs.VLLM_POOL_MB\n",
}


@pytest.fixture
def found(tmp_path: Path) -> dict[str, str]:
    """Return what is missing of each name of a small release."""
    after = dict.fromkeys(sources.NAMES, ())
    names = {
        **{kind: [*each] for kind, each in after.items()},
        "architectures": ["AliasForCausalLM", "EmptyForCausalLM", "OwnForCausalLM"],
        "arguments": ["max_model_len", "pool_size"],
        "variables": ["VLLM_POOL_MB"],
        "kv_cache_dtypes": ["auto", "int3"],
        "backends": ["NEW_ATTN"],
    }
    before = {"kv_cache_dtypes": ["auto"]}
    return dict(missing.missing(before, names, package(tmp_path, FILES)))


def test_an_architecture_with_a_known_class_needs_a_row(found: dict[str, str]) -> None:
    """By the registry, or as a class without a body; another needs a reader."""
    family = next(one for one, names in FAMILIES.items() if "Qwen3ForCausalLM" in names)
    for name in ("AliasForCausalLM", "EmptyForCausalLM"):
        assert found[name].startswith("a row: its class is Qwen3ForCausalLM's")
        assert f"families/{family}.py" in found[name]
    assert found["OwnForCausalLM"].startswith("a reader of `own.OwnForCausalLM`")


def test_every_other_name_that_came_says_what_it_needs(found: dict[str, str]) -> None:
    """What is known already needs nothing; a variable is named with who reads it."""
    assert found["max_model_len"].startswith("nothing")
    assert "not counted" in found["pool_size"]
    assert "read in v1/pool.py" in found["VLLM_POOL_MB"]
    assert "refusal" in found["int3"]
    assert "NEW_ATTN" in found
    assert "auto" not in found


def test_new_sentences_on_memory_are_listed(tmp_path: Path) -> None:
    """Those that the old release has not, and that are about memory."""
    texts = (
        'logger.info("KV cache of %s", a)\n',
        'logger.info(\n    "KV cache of %s", a)\nlogger.warning("No budget "\n'
        '    "for %s", b)\nlogger.info("Hello")\n',
    )
    old, new = (
        package(tmp_path / name, {"v1/a.py": text})
        for name, text in zip("on", texts, strict=True)
    )
    assert [("v1/a.py", "No budget for %s")] == [*missing.new_sentences(old, new)]
