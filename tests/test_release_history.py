"""planner/data/release_history.json is what its tool would write."""

import json
from pathlib import Path

from planner.engine.releases import MODELLED
from planner.models.families.refused import known_model_types
from tools.model_type_history import history

KINDS = ("architectures", "arguments", "kv_cache_dtypes")


def test_every_entry_names_a_release_that_is_modelled(root: Path) -> None:
    """Later than the oldest, whose own are left out."""
    path = root / "planner" / "data" / "release_history.json"
    table = json.loads(path.read_text(encoding="utf-8"))
    assert KINDS == tuple(sorted(table))
    for firsts in table.values():
        assert set(firsts.values()) <= set(MODELLED[:-1])
        assert list(firsts) == sorted(firsts)


def test_every_model_type_names_a_release_and_is_known_today(root: Path) -> None:
    """A type that the newest release does not know is refused anyway."""
    path = root / "planner" / "data" / "model_type_history.json"
    firsts = json.loads(path.read_text(encoding="utf-8"))
    assert set(firsts.values()) <= set(MODELLED)
    assert set(firsts) <= known_model_types()
    assert list(firsts) == sorted(firsts)


def test_a_model_type_is_known_to_vllm_or_to_transformers(tmp_path: Path) -> None:
    """Qwen3 comes with Transformers, DeepSeek-V4 with vLLM, each in its own release."""
    auto = {
        "5.1": 'CONFIG_MAPPING_NAMES = {"llama": "LlamaConfig"}',
        "5.2": 'CONFIG_MAPPING_NAMES = OrderedDict([("qwen3", "Qwen3Config")])',
    }
    for version, text in auto.items():
        folder = tmp_path / version / "transformers" / "models" / "auto"
        folder.mkdir(parents=True)
        (folder / "configuration_auto.py").write_text(text)
    own = {
        "0.19.1": "_CONFIG_REGISTRY: dict = LazyConfigDict(chatglm='C')",
        "0.20.0": "",
        "0.21.0": "_CONFIG_REGISTRY: dict = LazyConfigDict(deepseek_v4='D')",
    }
    for release, text in own.items():
        folder = tmp_path / release / "vllm" / "transformers_utils"
        folder.mkdir(parents=True)
        (folder / "config.py").write_text(text)
    found = history(tmp_path, tmp_path, "0.20.0 5.2\n0.19.1 5.1\n0.21.0 5.2\n")
    assert {"qwen3": "0.20.0", "deepseek_v4": "0.21.0"} == found
