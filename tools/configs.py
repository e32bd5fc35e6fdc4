"""Published config.json files, kept in the repository for tests and tools.

    python -m tools.configs unpack FOLDER
    python -m tools.configs pack FOLDER

FOLDER holds one folder per model, with what its publisher put beside the weights that a
plan depends on, and INDEX.jsonl, which says of each folder which model it is, from
where, and whether that is certain. To add a model: unpack, add its folder and its line,
pack, and run `python -m tools.build_catalogue`; or let that tool do it.

Models without files of their own are in RELATIVES.jsonl, and how much each model is
used in POPULARITY.json.
"""

from __future__ import annotations

import atexit
import json
import lzma
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "tests" / "data" / "configs"
INDEX = "INDEX.jsonl"
RELATIVES = "RELATIVES.jsonl"
POPULARITY = "POPULARITY.json"
PACKED = "files.jsonl.xz"
FILES = (
    "config.json",
    "hf_quant_config.json",
    "model.safetensors.index.json",
    "preprocessor_config.json",
)
"""What is kept of a folder."""
_OF_HUB = "Of models added since: as the Hub says on the day."


@cache
def index() -> tuple[dict[str, Any], ...]:
    """Return a row for each folder: `dir`, `model`, `source`, `certain` and others."""
    return tuple(_rows(DATA))


@cache
def relatives() -> tuple[dict[str, Any], ...]:
    """Return a row for each model that is known by the config.json of another.

    `like` names that one, `changes` says what differs and `source` how that is known;
    `kind` is "reconstructed" where more differs than the weights' values.
    """
    return tuple(_rows(DATA, RELATIVES))


def forget_relatives(models: Iterable[str]) -> None:
    """Drop the rows of models whose own config.json is kept now."""
    own = frozenset(models)
    left = [row for row in _rows(DATA, RELATIVES) if row["model"] not in own]
    text = "".join(f"{json.dumps(row, sort_keys=True)}\n" for row in left)
    (DATA / RELATIVES).write_text(text, encoding="utf-8")
    for remembered in (index, relatives, _packed):
        remembered.cache_clear()


@cache
def popularity() -> dict[str, Any]:
    """Return `basis`, `recipes` (names) and `downloads` by name."""
    known: dict[str, Any] = json.loads((DATA / POPULARITY).read_text(encoding="utf-8"))
    return known


def note_downloads(found: Mapping[str, int]) -> None:
    """Add how much models are used; `basis` says that these are the Hub's own."""
    if not found:
        return
    known = dict(popularity())
    downloads = known["downloads"] | found
    known["downloads"] = {
        name: downloads[name] for name in sorted(downloads, key=str.lower)
    }
    if _OF_HUB not in known["basis"]:
        known["basis"] += f" {_OF_HUB}"
    text = json.dumps(known, indent=0, ensure_ascii=False)
    (DATA / POPULARITY).write_text(text, encoding="utf-8")
    popularity.cache_clear()


def files(name: str) -> dict[str, Any]:
    """Return the files of a folder by name, read from JSON."""
    read: dict[str, Any] = json.loads(_packed()[name])["files"]
    return read


@cache
def folder(name: str) -> Path:
    """Write a folder's files to disk, until this process ends, and return it.

    Raises:
        KeyError: if the repository has no folder of this name.
    """
    path = _unpacked() / name
    write(path, files(name))
    return path


def named(model: str) -> str:
    """Return the path of the folder of that name, if there is one; else the name.

    Models that only tests know have folders too.
    """
    if any(row["dir"] == model for row in index()):
        return str(folder(model))
    if model not in (known := _of_tests()):
        return model
    path = _unpacked() / model.replace("/", "--")
    write(path, known[model])
    return str(path)


def write(path: Path, contents: dict[str, Any]) -> None:
    """Write a folder with these files."""
    path.mkdir(parents=True, exist_ok=True)
    for file, content in contents.items():
        (path / file).write_text(json.dumps(content), encoding="utf-8")


def unpack(into: Path) -> None:
    """Write every folder and the index."""
    for name in _packed():
        write(into / name, files(name))
    shutil.copy(DATA / INDEX, into / INDEX)


def pack(configs: Path, into: Path | None = None) -> None:
    """Put the folders that the index names into one file; the same bytes for the same.

    The index is sorted by folder.
    """
    into = into or DATA
    ordered = sorted(_rows(configs), key=lambda row: str(row["dir"]))
    text = "".join(_line(configs / row["dir"]) for row in ordered)
    into.mkdir(parents=True, exist_ok=True)
    packed = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
    (into / PACKED).write_bytes(packed)
    text = "".join(f"{json.dumps(row, sort_keys=True)}\n" for row in ordered)
    (into / INDEX).write_text(text, encoding="utf-8")


def lines(packed: Path) -> str:
    """Return what was packed into a folder, a line for each row of its index."""
    return lzma.decompress((packed / PACKED).read_bytes()).decode()


def read(path: Path) -> dict[str, Any]:
    """Return what is kept of a folder, by the files' names."""
    return {
        name: json.loads((path / name).read_text(encoding="utf-8"))
        for name in FILES
        if (path / name).is_file()
    }


def _line(path: Path) -> str:
    row = {"dir": path.name, "files": read(path)}
    return json.dumps(row, separators=(",", ":")) + "\n"


@cache
def _packed() -> dict[str, str]:
    """Return the line of each folder; lines are long, and few are read in one run."""
    names = (row["dir"] for row in index())
    return dict(zip(names, lines(DATA).splitlines(), strict=True))


@cache
def _of_tests() -> dict[str, dict[str, Any]]:
    """Return the files of models that are in tests' own data alone."""
    data = DATA.parent
    of_dry_runs = _rows(data / "dry", "configs.jsonl")
    others = _rows(data / "multimodal", "configs.jsonl")
    return {row["model"]: {"config.json": row["config"]} for row in others} | {
        row["model"]: row["files"] for row in of_dry_runs
    }


@cache
def _unpacked() -> Path:
    path = tempfile.mkdtemp(prefix="planner-configs-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return Path(path)


def _rows(configs: Path, name: str = INDEX) -> list[dict[str, Any]]:
    lines = (configs / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["pack", source]:
            pack(Path(source))
        case ["unpack", target]:
            unpack(Path(target))
        case _:
            sys.exit(__doc__)
