"""Headers of safetensors files on disk."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from planner.errors import PlannerError
from planner.models.sources.safetensors import TensorFacts, read_headers
from tests.hub_server import safetensors_file


def _file(path: Path, **tensors: tuple[str, list[int]]) -> Path:
    path.write_bytes(safetensors_file(tensors, size=0))
    return path


def test_tensors_of_all_files_are_counted_together(tmp_path: Path):
    """8 x 4 x 2 bytes in one file, 10 x 4 bytes in the other."""
    first = _file(tmp_path / "a.safetensors", embed=("BF16", [8, 4]))
    second = _file(tmp_path / "b.safetensors", norm=("F32", [10]))
    facts = read_headers([first, second])
    assert facts.shapes == {"embed": ("BF16", (8, 4)), "norm": ("F32", (10,))}
    assert facts.num_parameters_by_dtype == {"BF16": 32, "F32": 10}
    assert facts.checkpoint_bytes == 64 + 40


def test_a_scalar_is_one_element(tmp_path: Path):
    """Scales of quantised layers have no shape."""
    path = _file(tmp_path / "a.safetensors", scale=("F32", []))
    assert read_headers([path]).num_parameters_by_dtype == {"F32": 1}


def test_four_bit_elements_take_half_a_byte():
    """Packed types count by their bits: 6 elements are 3 bytes."""
    assert TensorFacts.of({"w": ("F4", (6,))}).checkpoint_bytes == 3


def test_bytes_of_an_unknown_type_are_not_guessed():
    """The counts stay, the sum of bytes is unknown."""
    facts = TensorFacts.of({"w": ("F3_NEW", (6,))})
    assert (facts.num_parameters_by_dtype, facts.checkpoint_bytes) == (
        {"F3_NEW": 6},
        None,
    )


def test_a_clone_without_its_weights_says_nothing(tmp_path: Path):
    """Git LFS leaves a small text where the weights would be."""
    pointer = tmp_path / "model.safetensors"
    pointer.write_text("version https://git-lfs/spec/v1\noid sha256:0\nsize 1\n")
    assert read_headers([pointer]) == TensorFacts()


def test_only_the_header_is_read(tmp_path: Path):
    """A sparse file of 1 TiB takes no longer than a small one."""
    path = _file(tmp_path / "model.safetensors", w=("BF16", [2]))
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    assert read_headers([path]).num_parameters_by_dtype == {"BF16": 2}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "does not begin with a header"),
        (b"\xff" * 16, "does not begin with a header"),
        (struct.pack("<Q", 100) + b"{}", "ends after 2 of 100 bytes"),
        (struct.pack("<Q", 4) + b"oops", "is not JSON"),
        (struct.pack("<Q", 2) + b"[]", "not a JSON object"),
        (struct.pack("<Q", 9) + b'{"w": {}}', "lacks dtypes"),
        (struct.pack("<Q", 9) + b'{"w": 12}', "lacks dtypes"),
    ],
    ids=["empty", "noise", "cut off", "no JSON", "a list", "no dtype", "no tensor"],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes, words: str):
    """The message names the file and what to do."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(PlannerError, match=words) as raised:
        read_headers([path])
    assert str(path) in str(raised.value)
    assert "Download it again" in str(raised.value)
