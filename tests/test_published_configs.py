"""The config.json files that tests and tools plan, as the repository keeps them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools import configs
from tools.answers import RELEASES, cases
from tools.build_catalogue import is_published
from tools.starts import read_records

CHOSEN = ("microsoft/phi-2", "openai/whisper-base")


def test_every_folder_has_a_config_and_says_from_where_it_is() -> None:
    """In the order of the index, under the name that the index gives."""
    names = [row["dir"] for row in configs.index()]
    assert sorted(set(names)) == names
    assert [json.loads(line)["dir"] for line in configs._packed().values()] == names
    for row in configs.index():
        assert "config.json" in configs.files(row["dir"])
        assert row["source"]


def test_a_published_folder_is_named_for_its_model_on_the_hub() -> None:
    """A synthetic one has no model there."""
    for row in configs.index():
        expected = row["model"]
        if is_published(row):
            assert "/" in expected
            expected = expected.replace("/", "--")
        assert expected == row["dir"]


@pytest.mark.parametrize("release", RELEASES)
def test_every_recorded_answer_is_of_a_folder_that_is_kept(release: str) -> None:
    """And of the release that its file is named for."""
    names = {row["dir"] for row in configs.index()}
    assert {case["model"] for case in cases(release)} <= names
    assert {case["vllm_version"] for case in cases(release)} == {release}


def test_every_start_is_of_a_folder_that_is_kept() -> None:
    """Where its model's config.json is known."""
    names = {row["dir"] for row in configs.index()}
    assert {row["config"] for row in read_records() if row["config"]} <= names


def test_a_folder_is_found_by_its_name() -> None:
    """Those that no catalogue names; a model of the catalogue keeps its name."""
    folder = configs.named("synthetic--Qwen3-8B-AWQ")

    config = json.loads(Path(folder, "config.json").read_text("utf-8"))
    assert "awq" == config["quantization_config"]["quant_method"]
    assert "Qwen/Qwen3-8B" == configs.named("Qwen/Qwen3-8B")


def test_what_is_unpacked_and_packed_again_is_the_same(tmp_path) -> None:
    """Of two folders, one of them with more than a config.json."""
    rows = [row for row in configs.index() if row["model"] in CHOSEN]
    for row in rows:
        configs.write(tmp_path / row["dir"], configs.files(row["dir"]))
    lines = [json.dumps(row) for row in reversed(rows)]
    (tmp_path / configs.INDEX).write_text("\n".join(lines))

    configs.pack(tmp_path, tmp_path / "packed")

    index = (tmp_path / "packed" / configs.INDEX).read_text().splitlines()
    packed = configs.lines(tmp_path / "packed").splitlines()
    assert rows == [json.loads(line) for line in index]
    assert packed == [configs._packed()[row["dir"]] for row in rows]
    assert len(CHOSEN) == len(rows)
