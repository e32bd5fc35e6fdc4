"""What a published app keeps of the Hub, and how much."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planner.models.sources import hub_store
from planner.models.sources.hub_store import Kept, keep_model, kept_model, make_room
from planner.surroundings import PUBLISHED, RUNTIME, runtime_folder

KEPT = Kept(
    commit="a" * 40,
    config={"model_type": "llama"},
    side={"params.json": {"dim": 8}},
    shapes={f"layers.{n}.w": ("BF16", (4, 2)) for n in range(9)},
    parameters={"BF16": 72},
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A published process with a folder of its own."""
    monkeypatch.setenv(PUBLISHED, "1")
    monkeypatch.setenv(RUNTIME, str(tmp_path / "run"))
    monkeypatch.delenv(hub_store.CACHE_MIB, raising=False)
    return tmp_path / "run"


def test_what_was_saved_comes_back() -> None:
    """By name and revision."""
    keep_model("a/b", None, KEPT)

    assert kept_model("a/b", None) == KEPT
    assert kept_model("a/b", "main") is None
    assert kept_model("a/c", None) is None


@pytest.mark.parametrize("age", [601, -5])
def test_an_old_copy_is_told_as_such(folder, age) -> None:
    """After ten minutes, and when the clock was set back."""
    keep_model("a/b", None, KEPT)
    (path,) = (folder / "hub").iterdir()
    at = path.stat().st_mtime - age
    os.utime(path, (at, at))
    kept = kept_model("a/b", None)

    assert kept is not None
    assert not kept.is_fresh


def test_the_oldest_goes_when_the_room_is_taken(tmp_path) -> None:
    """Four files of 10 bytes in 25: the two newest stay."""
    for age in range(4):
        path = tmp_path / f"{age}.json"
        path.write_bytes(bytes(10))
        os.utime(path, (1e9 - age, 1e9 - age))
    make_room(tmp_path, 25)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.json", "1.json"]


def test_a_write_that_was_cut_off_is_removed(tmp_path) -> None:
    """A minute later; one that goes on stays."""
    old, new = tmp_path / "x.json.1.part", tmp_path / "y.json.2.part"
    old.write_bytes(b"x")
    new.write_bytes(b"y")
    os.utime(old, (1e9, 1e9))
    make_room(tmp_path, 100)

    assert list(tmp_path.iterdir()) == [new]


def test_the_disk_that_is_taken_is_bounded(folder, monkeypatch) -> None:
    """A hundred models of 100 kB in 1 MiB."""
    monkeypatch.setenv(hub_store.CACHE_MIB, "1")
    large = Kept(
        commit="b" * 40,
        config={"pad": "x" * 100_000},
        side={},
        shapes={},
        parameters={},
    )
    for number in range(100):
        keep_model(f"a/{number}", None, large)
    sizes = [path.stat().st_size for path in (folder / "hub").iterdir()]

    assert 5 <= len(sizes) <= 10
    assert sum(sizes) <= 1 << 20


def test_what_is_too_large_is_not_kept(folder) -> None:
    """Five MiB of config."""
    keep_model("a/b", None, Kept(**{**_fields(), "config": {"pad": "x" * (5 << 20)}}))

    assert kept_model("a/b", None) is None
    assert not (folder / "hub").exists()


def test_a_name_with_a_number_of_many_digits_is_not_kept() -> None:
    """Python reads no numbers of 5,000 digits."""
    keep_model(
        "a/b", None, Kept(**{**_fields(), "shapes": {"w." + "9" * 5000: ("F8", (1,))}})
    )

    assert kept_model("a/b", None) is None


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "null", '{"format": 1}'])
def test_what_cannot_be_used_counts_as_nothing(folder, content) -> None:
    """A damaged file is asked for again."""
    keep_model("a/b", None, KEPT)
    (path,) = (folder / "hub").iterdir()
    path.write_text(content)

    assert kept_model("a/b", None) is None


def test_a_full_disk_is_no_error(monkeypatch, folder) -> None:
    """Nothing is kept, nothing is left over."""

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    keep_model("a/b", None, KEPT)

    assert list((folder / "hub").iterdir()) == []


def test_none_is_kept_where_the_publisher_wants_none(monkeypatch, folder) -> None:
    """PLANNER_HUB_CACHE_MIB=0."""
    monkeypatch.setenv(hub_store.CACHE_MIB, "0")
    keep_model("a/b", None, KEPT)

    assert kept_model("a/b", None) is None
    assert not (folder / "hub").exists()


def test_a_folder_that_another_user_made_is_not_used(monkeypatch, tmp_path) -> None:
    """Under the known name among the temporary files: a link, or open to all."""
    monkeypatch.delenv(RUNTIME)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own = runtime_folder()
    assert own is not None
    assert own.parent == tmp_path
    assert own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o777)
    assert runtime_folder() is None
    own.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    own.symlink_to(tmp_path / "elsewhere")
    assert runtime_folder() is None


def _fields() -> dict[str, object]:
    return {name: getattr(KEPT, name) for name in Kept.__slots__}
