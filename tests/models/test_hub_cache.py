"""Headers remembered on disk by commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.models.sources import hub_store
from planner.models.sources.safetensors import TensorFacts

FACTS = TensorFacts.of(
    {
        **{f"layers.{n}.weight": ("BF16", (16, 8)) for n in range(40)},
        "scale": ("F32", ()),
    }
)


def test_what_was_saved_comes_back(tmp_path: Path):
    """Names, types and shapes of every tensor, and the sums over them."""
    path = tmp_path / "new" / "commit.json"
    hub_store.keep_facts(path, FACTS)
    assert hub_store.kept_facts(path) == FACTS


def test_a_model_of_many_layers_takes_few_bytes(tmp_path: Path):
    """A hundred thousand experts' names are one pattern."""
    path = tmp_path / "commit.json"
    names = (f"layers.{n}.experts.{m}.w" for n in range(100) for m in range(1_000))
    hub_store.keep_facts(path, TensorFacts.of(dict.fromkeys(names, ("F4", (8,)))))
    assert path.stat().st_size < 200


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"format": 0, "tensors": []}',
        '{"format": 1, "tensors": 3}',
    ],
)
def test_what_cannot_be_used_counts_as_nothing(tmp_path: Path, content: str):
    """A half-written file, or one of another release."""
    path = tmp_path / "commit.json"
    path.write_text(content)
    assert hub_store.kept_facts(path) is None


def test_nothing_remembered_is_nothing(tmp_path: Path):
    """The first time."""
    assert hub_store.kept_facts(tmp_path / "commit.json") is None


def test_names_with_braces_are_not_remembered(tmp_path: Path):
    """They would be taken for patterns."""
    path = tmp_path / "commit.json"
    hub_store.keep_facts(path, TensorFacts.of({"odd{0-1}": ("F32", (1,))}))
    assert hub_store.kept_facts(path) is None


def test_a_disk_that_takes_nothing_is_no_error(tmp_path: Path):
    """A file stands where the folder should be."""
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "commit.json"
    hub_store.keep_facts(path, FACTS)
    assert hub_store.kept_facts(path) is None
