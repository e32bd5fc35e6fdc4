"""JSON that others wrote: how many values are read."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from planner.errors import PlannerError
from planner.models.sources import folder, safetensors
from planner.models.sources.gguf_config import config_of
from planner.user_files import MOST_VALUES, check_values

_MANY = '{"model_type": "llama", "x": [' + "[]," * (MOST_VALUES // 2) + "1]}"


def test_a_text_may_have_as_many_values() -> None:
    """Of characters or bytes."""
    text = "[" + "0," * (MOST_VALUES - 1) + "0]"
    check_values(text, "x")
    check_values(text.encode(), "x")


@pytest.mark.parametrize("text", [_MANY, _MANY.encode(), "{" * (MOST_VALUES + 1)])
def test_too_many_values_are_refused(text: str | bytes) -> None:
    """Commas and brackets are counted, before any value is made."""
    with pytest.raises(PlannerError, match="config has more than 250,000 values"):
        check_values(text, "config")


@pytest.mark.parametrize("file", [folder.CONFIG, *folder.SIDE_FILES[:5]])
def test_every_file_of_a_folder_is_counted(tmp_path: Path, file: str) -> None:
    """And named in the sentence; an index and a header may have more."""
    (tmp_path / folder.CONFIG).write_text('{"model_type": "llama"}', "utf-8")
    (tmp_path / file).write_text(_MANY, "utf-8")
    with pytest.raises(PlannerError, match=f"{file} has more than 250,000 values"):
        folder.read(tmp_path, "m")


def test_an_index_may_have_more(tmp_path: Path) -> None:
    """A line for each tensor, up to 600,000."""
    (tmp_path / folder.CONFIG).write_text('{"model_type": "llama"}', "utf-8")
    index = tmp_path / safetensors.INDEX
    index.write_text('{"weight_map": {}, "x": [' + "0," * 599_000 + "0]}", "utf-8")
    assert folder.read(tmp_path, "m").tensor_shapes == {}
    index.write_text('{"weight_map": {}, "x": [' + "0," * 600_000 + "0]}", "utf-8")
    with pytest.raises(PlannerError, match="has more than 600,000 values"):
        folder.read(tmp_path, "m")


def test_a_config_beside_a_gguf_file_is_counted_and_an_object() -> None:
    """As any other."""
    with pytest.raises(PlannerError, match="more than 250,000 values"):
        config_of({}, {}, _MANY.encode(), "m.gguf")
    with pytest.raises(PlannerError, match="not a JSON object"):
        config_of({}, {}, b"[1]", "m.gguf")


def test_a_header_of_safetensors_may_have_more(tmp_path: Path) -> None:
    """Nine values for each tensor, up to 1,500,000 of a file, and 32 MiB."""
    path = tmp_path / "model.safetensors"
    text = b'{"__metadata__":[' + b"[]," * 750_000 + b"1]}"
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(PlannerError, match="more than 1,500,000 values"):
        safetensors.read_headers([path])
    path.write_bytes(struct.pack("<Q", (32 << 20) + 1))
    with pytest.raises(PlannerError, match="header has more than 32 MiB"):
        safetensors.read_headers([path])


def test_tensors_of_all_files_together_are_counted(tmp_path: Path, monkeypatch) -> None:
    """A folder may have many files."""
    monkeypatch.setattr(safetensors, "_MOST_TENSORS", 3)
    paths = []
    for number in range(2):
        entry = '{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}'
        text = f'{{"a{number}":{entry},"b{number}":{entry}}}'.encode()
        paths.append(tmp_path / f"model-{number}.safetensors")
        paths[-1].write_bytes(struct.pack("<Q", len(text)) + text)
    assert len(safetensors.read_headers(paths[:1]).shapes) == 2
    with pytest.raises(PlannerError, match="more than 3 tensors"):
        safetensors.read_headers(paths)
