"""The tool that adds models to the bundled catalogue."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub_server import Hub, HubServer, Repo, close_session, safetensors_file
from tools import build_catalogue, configs

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 512,
    "torch_dtype": "bfloat16",
}
KEPT = ("Qwen/Qwen3-8B", "microsoft/phi-2")
RELATIVE = {
    "model": "nobody/eight",
    "like": "Qwen/Qwen3-8B",
    "changes": {"max_position_embeddings": 4096},
    "source": "same shape as Qwen/Qwen3-8B",
}
QUANTISED = {"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Two of the models that are kept, and one of the same shape, to change."""
    small, folder = tmp_path / "small", tmp_path / "folder"
    rows = [row for row in configs.index() if row["model"] in KEPT]
    for row in rows:
        configs.write(folder / row["dir"], configs.files(row["dir"]))
    (folder / configs.INDEX).write_text("\n".join(map(json.dumps, rows)))
    configs.pack(folder, small)
    (small / configs.RELATIVES).write_text(json.dumps(RELATIVE) + "\n")
    shutil.copy(configs.DATA / configs.POPULARITY, small)
    monkeypatch.setattr(configs, "DATA", small)
    monkeypatch.setattr(build_catalogue, "DATA", tmp_path / "models.jsonl")
    _forget()
    yield tmp_path
    _forget()


def _forget() -> None:
    for remembered in (configs.index, configs.relatives, configs.popularity):
        remembered.cache_clear()
    configs._packed.cache_clear()


def _lines(kept: Path) -> dict[str, dict]:
    text = (kept / "models.jsonl").read_text(encoding="utf-8")
    return {line["id"]: line for line in map(json.loads, text.splitlines())}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A Hub on this machine, and an empty cache."""
    pytest.importorskip("huggingface_hub")
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    close_session()
    with HubServer() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running
    close_session()


def test_a_folder_of_configs_is_added(kept: Path):
    """Each model with its side files, under the source that is given."""
    folder = kept / "new"
    configs.write(
        folder / "nobody--tiny",
        {
            "config.json": CONFIG,
            "hf_quant_config.json": QUANTISED,
            "modules.json": [{"type": "sentence_transformers.models.Pooling"}],
        },
    )
    build_catalogue.main([str(folder), "--source", "a test"])

    line = _lines(kept)["nobody/tiny"]
    assert line["source"] == "a test"
    assert line["certain"]
    assert line["config"]["hidden_size"] == 64
    assert line["hf_quant_config"] == QUANTISED
    assert line["modules"] == ["Pooling"]


def test_a_folder_without_a_source_is_refused(kept: Path):
    """Every entry says from where it is."""
    configs.write(kept / "new" / "nobody--tiny", {"config.json": CONFIG})
    with pytest.raises(SystemExit, match="say --source TEXT"):
        build_catalogue.main([str(kept / "new")])


def test_models_of_the_hub_are_added(kept: Path, hub: Hub):
    """With their side files, parameters and bytes, and the commit as the source.

    16 x 16 numbers of two bytes.
    """
    weights = safetensors_file({"embed": ("BF16", [16, 16])}, 0)
    files = {"config.json": CONFIG, "hf_quant_config.json": QUANTISED}
    encoded = {name: json.dumps(content).encode() for name, content in files.items()}
    hub.repos["nobody/one"] = Repo(
        files={**encoded, "model.safetensors": weights}, parameters={"BF16": 256}
    )
    hub.repos["nobody/two"] = Repo(files={"config.json": encoded["config.json"]})
    names = kept / "names.txt"
    names.write_text("nobody/one\nnobody/two\n")

    build_catalogue.main([f"@{names}"])

    lines = _lines(kept)
    one, two = lines["nobody/one"], lines["nobody/two"]
    assert (one["parameters"], one["checkpoint_bytes"]) == (256, 512)
    assert one["hf_quant_config"] == QUANTISED
    assert "aaaaaaaa" in one["source"]
    assert one["certain"]
    assert two["config"] == one["config"]


@pytest.fixture
def listed(kept: Path, hub: Hub) -> Path:
    """A list of models on the Hub: two good ones, and three that cannot be taken."""
    config = json.dumps(CONFIG).encode()
    weights = safetensors_file({"embed": ("BF16", [16, 16])}, 0)
    hub.repos["nobody/one"] = Repo(
        files={"config.json": config, "model.safetensors": weights}, downloads=4_321
    )
    modules = [{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]
    hub.repos["nobody/two"] = Repo(
        files={"config.json": config, "modules.json": json.dumps(modules).encode()}
    )
    hub.repos["nobody/gated"] = Repo(files={"config.json": config}, is_gated=True)
    strange = json.dumps(CONFIG | {"never_seen": 1, "nor_this": 2}).encode()
    hub.repos["nobody/strange"] = Repo(files={"config.json": strange})
    unread = json.dumps(CONFIG | {"architectures": ["Nobodys"]}).encode()
    hub.repos["nobody/unread"] = Repo(files={"config.json": unread})
    hub.repos["nobody/tiny-FP8"] = Repo(files={"config.json": config})
    path = kept / "names.txt"
    path.write_text(
        "# the next hundred\nnobody/one\nnobody/gated  # perhaps\n\n"
        "nobody/strange\nnobody/unread\nnobody/tiny-FP8\nnobody/missing\nnobody/two\n"
    )
    return path


def test_what_cannot_be_taken_does_not_keep_the_others_out(
    kept: Path, listed: Path
) -> None:
    """Each is named at the end with its reason, and the status is that of a failure."""
    with pytest.raises(SystemExit) as ended:
        build_catalogue.main([f"@{listed}"])
    lines, said = _lines(kept), str(ended.value)

    assert {"nobody/one", "nobody/two"} <= lines.keys()
    assert said.startswith("5 left out:")
    assert "nobody/gated: 'nobody/gated' is gated" in said
    assert "nobody/missing: No model 'nobody/missing' on the Hub" in said
    assert "nobody/strange: config.json has the keys 'never_seen', 'nor_this'" in said
    assert "nobody/unread: " in said
    assert "nobody/tiny-FP8: its name says FP8" in said
    assert lines["nobody/one"]["downloads"] == 4_321
    assert lines["nobody/two"]["modules"] == ["Pooling"]


def test_the_same_command_again_reads_only_what_is_missing(
    kept: Path, hub: Hub, listed: Path
) -> None:
    """What is kept is not asked for; what was mended meanwhile is added."""
    with pytest.raises(SystemExit):
        build_catalogue.main([f"@{listed}"])
    hub.asked.clear()
    hub.repos["nobody/gated"].is_gated = False
    with pytest.raises(SystemExit, match="4 left out"):
        build_catalogue.main([f"@{listed}"])

    assert "nobody/gated" in _lines(kept)
    assert not [path for path in hub.paths() if "nobody/one" in path]


def test_releases_of_each_name_are_added(kept: Path, hub: Hub) -> None:
    """The most downloaded of those that are not gated."""
    settings = {"quant_method": "fp8", "activation_scheme": "dynamic"}
    config = json.dumps(CONFIG).encode()
    quantised = json.dumps(CONFIG | {"quantization_config": settings}).encode()
    hub.repos["nobody/one"] = Repo(files={"config.json": config})
    tags = ("base_model:quantized:nobody/one",)
    for name, downloads, is_gated in (("a", 5, False), ("b", 9, True), ("c", 7, False)):
        hub.repos[f"{name}/one-FP8"] = Repo(
            files={"config.json": quantised},
            downloads=downloads,
            tags=tags,
            is_gated=is_gated,
        )
    build_catalogue.main(["nobody/one", "--releases", "1"])
    lines = _lines(kept)

    assert {"nobody/one", "c/one-FP8"} <= lines.keys()
    assert not {"a/one-FP8", "b/one-FP8"} & lines.keys()


def test_its_own_config_takes_the_place_of_a_relative(kept: Path):
    """A model that was known by another's shape is published now."""
    build_catalogue.main([])
    relative = "nobody/eight"
    before = _lines(kept)[relative]
    assert (before["like"], before["certain"]) == ("Qwen/Qwen3-8B", False)
    folder = kept / "new"
    configs.write(folder / relative.replace("/", "--"), {"config.json": CONFIG})
    build_catalogue.main([str(folder), "--source", "a test"])

    line = _lines(kept)[relative]
    assert "like" not in line
    assert line["certain"]
    assert configs.relatives() == ()


def test_what_is_kept_already_stays(kept: Path):
    """Recorded answers belong to it."""
    folder = kept / "new"
    configs.write(folder / "Qwen--Qwen3-8B", {"config.json": CONFIG})
    build_catalogue.main([str(folder), "--source", "a test"])
    assert _lines(kept)["Qwen/Qwen3-8B"]["config"]["num_hidden_layers"] == 36


@pytest.mark.usefixtures("kept")
def test_anything_else_is_refused():
    """Neither a folder nor a name on the Hub."""
    with pytest.raises(SystemExit, match="'tiny' is neither a folder nor owner/name"):
        build_catalogue.main(["tiny"])
