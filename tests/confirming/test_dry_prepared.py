"""What a dry run gives vLLM: folders in place of names and weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.confirming.dry import prepared
from planner.confirming.installation import Installation
from planner.engine.devices import gpu_named
from planner.engine.settings import settings_from
from planner.planning.inputs import Inputs


@pytest.fixture(autouse=True)
def _own_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANNER_CACHE_DIR", str(tmp_path / "caches"))


def checkpoint(tmp_path: Path, *names: str) -> Path:
    """Return a folder with these files."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for name in names:
        (folder / name).write_text("{}", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("names", "is_mistrals"),
    [
        (("config.json", "model.safetensors"), False),
        (("config.json", "params.json", "consolidated.safetensors"), True),
        (("config.json", "params.json", "consolidated-00001.safetensors"), True),
        (("params.json",), True),
    ],
)
def test_mistrals_own_format_is_known_without_the_weights(
    tmp_path: Path, names: tuple[str, ...], is_mistrals: bool
) -> None:
    """vLLM looks for their name; what stands for them holds no tensor."""
    folder = prepared._model_folder(str(checkpoint(tmp_path, *names)))

    found = {file.name for file in folder.iterdir()}
    assert {name for name in names if name.endswith(".json")} <= found
    assert ("consolidated.safetensors" in found) == is_mistrals
    if is_mistrals:
        content = (folder / "consolidated.safetensors").read_bytes()
        assert json.loads(content[8:]) == {}
        assert int.from_bytes(content[:8], "little") == len(content) - 8


def test_a_draft_model_of_the_catalogue_is_a_folder_too() -> None:
    """vLLM is offline: it would not find the name."""
    asked = {"method": "draft_model", "model": "Qwen/Qwen3-0.6B", "top": 1}

    given = prepared._with_draft(asked)["speculative_config"]

    config = json.loads(Path(given["model"], "config.json").read_text("utf-8"))
    assert config["num_hidden_layers"] == 28
    assert {**given, "model": asked["model"]} == asked


def test_a_copy_of_config_json_gets_what_it_left_out() -> None:
    """vLLM's class of Hy3 reads a field that its copy in the catalogue lacks."""
    file = Path(prepared._model_folder("tencent/Hy3"), "config.json")
    assert json.loads(file.read_text("utf-8"))["route_norm"] is True


@pytest.mark.parametrize("asked", [None, {"method": "ngram"}, {"model": "ngram"}])
def test_a_draft_without_a_model_stays(asked: object) -> None:
    """Guesses from the prompt, and heads of the target."""
    assert prepared._with_draft(asked) == {}


def test_a_start_is_offline_and_builds_no_kernels_beside_it(tmp_path: Path) -> None:
    """What vLLM compiles goes into the folder of caches; Humming builds nothing."""
    inputs = Inputs(model="Qwen/Qwen3-0.6B", gpu=gpu_named("L4"), engine_args={})
    start = prepared.Prepared(
        found=Installation(
            python="python", package="vllm", version="0.33.0", is_cpu_build=False
        ),
        inputs=inputs,
        gpu=gpu_named("L4"),
        settings=settings_from({}),
        libraries=tmp_path,
        estimate=None,
        unplanned="",
        driver=(),
    )
    _command, variables, _notes = prepared.launch(start, tmp_path, tmp_path / "caches")
    wanted = {
        "HF_HUB_OFFLINE": "1",
        "HUMMING_DISABLE_PARALLEL_BUILD": "1",
        "VLLM_CACHE_ROOT": str(tmp_path / "caches"),
    }
    assert wanted == {name: variables[name] for name in wanted}
