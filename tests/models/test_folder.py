"""Models on disk."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from planner.errors import ModelNotFound, ModelUnavailable, PlannerError
from planner.models.files import ModelFiles
from planner.models.sources import folder
from tests.hub_server import safetensors_file

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder that holds a config.json and nothing else."""
    place = tmp_path / "tiny"
    place.mkdir()
    (place / "config.json").write_text(json.dumps(CONFIG))
    return place


def _read(path: Path) -> ModelFiles:
    return folder.read(path, str(path))


def _shard(path: Path, name: str, size: int = 4) -> None:
    path.write_bytes(safetensors_file({name: ("BF16", [size])}, size=0))


def test_a_folder_gives_its_config_under_its_own_name(model: Path):
    """The name is what the command line will say."""
    files = _read(model)
    assert (files.name, files.config) == (str(model), CONFIG)
    assert files.source == str(model / "config.json")


def test_config_json_stands_for_its_folder(model: Path):
    """vLLM takes the folder, so the command names that."""
    files = _read(model / "config.json")
    assert (files.name, files.config) == (str(model), CONFIG)


def test_a_config_of_another_name_stands_alone(model: Path):
    """What lies beside it may belong to another model."""
    (model / "hf_quant_config.json").write_text("{}")
    other = model / "my-model.json"
    other.write_text(json.dumps(CONFIG))
    files = _read(other)
    assert (files.name, files.hf_quant_config) == (str(other), None)


def test_side_files_are_read_where_they_lie(model: Path):
    """ModelOpt's, Mistral's and the image processor's."""
    (model / "hf_quant_config.json").write_text('{"quantization": {}}')
    (model / "params.json").write_text('{"dim": 8}')
    (model / "preprocessor_config.json").write_text('{"patch_size": 14}')
    files = _read(model)
    assert files.hf_quant_config == {"quantization": {}}
    assert files.params == {"dim": 8}
    assert files.preprocessor_config == {"patch_size": 14}


def test_headers_of_one_file_are_read(model: Path):
    """model.safetensors is the whole model; an adapter beside it is none of it."""
    _shard(model / "model.safetensors", "w")
    _shard(model / "adapter_model.safetensors", "lora")
    files = _read(model)
    assert files.tensor_shapes == {"w": ("BF16", (4,))}
    assert files.checkpoint_bytes == 8


def test_headers_of_every_shard_in_the_index_are_read(model: Path):
    """The index decides: the consolidated copy is not counted twice."""
    _shard(model / "model-1.safetensors", "a")
    _shard(model / "model-2.safetensors", "b")
    _shard(model / "consolidated.safetensors", "c", size=8)
    shards = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    index = {"weight_map": shards}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    assert _read(model).num_parameters_by_dtype == {"BF16": 8}


def test_without_an_index_every_file_of_the_model_counts(model: Path):
    """vLLM loads them all."""
    _shard(model / "part-1.safetensors", "a")
    _shard(model / "part-2.safetensors", "b")
    _shard(model / "consolidated.safetensors", "c")
    assert set(_read(model).tensor_shapes) == {"a", "b"}


def test_half_a_download_tells_nothing_about_the_weights(model: Path):
    """A sum over some shards would look like the whole."""
    _shard(model / "model-1.safetensors", "a")
    shards = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    index = {"weight_map": shards}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    assert _read(model).tensor_shapes == {}


def test_unchanged_files_give_the_same_object(model: Path):
    """So that what was derived from it can be kept."""
    assert _read(model) is _read(model)


@pytest.mark.parametrize("file", ["config.json", "hf_quant_config.json"])
def test_changed_files_are_read_again(model: Path, file: str):
    """Even where only a file beside config.json changes."""
    before = _read(model)
    (model / file).write_text(json.dumps({**CONFIG, "hidden_size": 8}))
    os.utime(model / file, ns=(1, 1))
    after = _read(model)
    changed = after.config if file == "config.json" else after.hf_quant_config
    assert before.config == CONFIG
    assert changed == {**CONFIG, "hidden_size": 8}


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("model.Q4.gguf", "GGUF"),
        ("adapter_config.json", "LoRA adapter"),
        ("notes.txt", r"it holds notes\.txt"),
        (None, "it holds nothing"),
    ],
)
def test_a_folder_without_config_json_says_what_it_holds(
    tmp_path: Path, file: str | None, words: str
):
    """Each case wants another next step."""
    if file:
        (tmp_path / file).write_text("")
    with pytest.raises(ModelNotFound, match=words):
        _read(tmp_path)


@pytest.mark.parametrize("file", ["model.safetensors", "weights.bin"])
def test_a_file_of_weights_is_no_model(tmp_path: Path, file: str):
    """The message asks for the folder."""
    (tmp_path / file).write_bytes(b"")
    with pytest.raises(PlannerError, match="Give the folder"):
        _read(tmp_path / file)


def test_a_config_that_is_no_json_is_refused_with_its_path(model: Path):
    """A cut-off download, or a web page saved under that name."""
    (model / "config.json").write_text("<html>")
    with pytest.raises(PlannerError, match=r"config\.json is not JSON"):
        _read(model)


def test_a_link_to_nowhere_counts_as_absent(model: Path):
    """Caches leave such links when their files are cleaned away."""
    (model / "params.json").symlink_to(model / "gone")
    assert _read(model).params is None


def test_a_file_that_may_not_be_read_says_so(
    model: Path, monkeypatch: pytest.MonkeyPatch
):
    """Permissions, or a disk that failed."""

    def refused(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("planner.user_files.os.open", refused)
    with pytest.raises(ModelUnavailable, match="Permission denied"):
        _read(model)
