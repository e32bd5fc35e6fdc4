"""What was read from the Hub, on disk: headers by commit, and a published app's models.

A commit never changes, so neither do its headers: the next plan only checks whether the
commit is still the newest, and offline it makes no request.

A published app has a bounded store of its own for all its processes, apart from
huggingface_hub's cache, which may hold models that only the publisher may see.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from planner.models.module_names import can_pack, pack, unpack
from planner.models.sources.safetensors import Shapes, TensorFacts
from planner.surroundings import runtime_folder
from planner.values import frozen

CACHE_MIB = "PLANNER_HUB_CACHE_MIB"
"""Environment variable: MiB of disk for models read from the Hub; 0 for none."""

_CACHE_MIB = 64
_FRESH_SECONDS = 600
_MOST_FILES = 2_000
_LARGEST_BYTES = 4 << 20
_PART_SECONDS = 60
_FORMAT = 1

_FACTS_FORMAT = 1


def kept_facts(path: Path) -> TensorFacts | None:
    """Return the headers that were kept; None where there are none to use."""
    try:
        content = json.loads(path.read_text("utf-8"))
        if content["format"] != _FACTS_FORMAT:
            return None
        return TensorFacts.of(unpacked(content["tensors"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep_facts(path: Path, tensors: TensorFacts) -> None:
    """Keep the headers of a commit; a disk that cannot be written to is no failure."""
    if not can_pack(tensors.shapes):
        return
    content = {"format": _FACTS_FORMAT, "tensors": packed(tensors.shapes)}
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(content, separators=(",", ":")), "utf-8")
        unfinished.replace(path)
    except OSError:
        with suppress(OSError):
            unfinished.unlink()


def packed(shapes: Shapes) -> list[list[Any]]:
    """Write tensors compactly: dtype, shape and the names that share them."""
    names: defaultdict[tuple[str, tuple[int, ...]], list[str]] = defaultdict(list)
    for name, kind in shapes.items():
        names[kind].append(name)
    return [[dtype, shape, pack(same)] for (dtype, shape), same in names.items()]


def unpacked(rows: list[list[Any]]) -> Mapping[str, tuple[str, tuple[int, ...]]]:
    """Read what `packed` wrote."""
    shapes = {}
    for dtype, shape, patterns in rows:
        kind = (str(dtype), tuple(int(size) for size in shape))
        shapes.update(dict.fromkeys(unpack(patterns), kind))
    return shapes


@frozen
class Kept:
    """A model as it was read from the Hub."""

    commit: str
    config: Mapping[str, Any]
    side: Mapping[str, Mapping[str, Any]]
    shapes: Shapes
    parameters: Mapping[str, int]
    is_fresh: bool = True
    """Read so recently that no request to the Hub is needed."""


def kept_model(repo_id: str, revision: str | None) -> Kept | None:
    """Return the model that was kept; None where there is none to use."""
    path = _path(repo_id, revision)
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            age = time.time() - os.fstat(file.fileno()).st_mtime
            text = file.read(_LARGEST_BYTES + 1)
        if len(text) > _LARGEST_BYTES:
            return None
        return _kept(json.loads(text), is_fresh=0 <= age < _FRESH_SECONDS)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def keep_model(repo_id: str, revision: str | None, kept: Kept) -> None:
    """Keep a model; a disk that cannot be written to is no failure."""
    path = _path(repo_id, revision)
    if path is None or not can_pack(kept.shapes):
        return
    text = _text(kept)
    if not 0 < len(text) <= _LARGEST_BYTES:
        return
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        make_room(path.parent, cache_bytes() - len(text))
        unfinished.write_bytes(text)
        unfinished.replace(path)
    except OSError:
        with suppress(OSError):
            unfinished.unlink()


def _text(kept: Kept) -> bytes:
    """Write a model; empty where a name in it cannot be packed."""
    try:
        content = {
            "format": _FORMAT,
            "commit": kept.commit,
            "config": kept.config,
            "side": kept.side,
            "tensors": packed(kept.shapes),
            "parameters": kept.parameters,
        }
        return json.dumps(content, separators=(",", ":")).encode()
    except (ValueError, RecursionError):  # such as numbers of thousands of digits
        return b""


def cache_bytes() -> int:
    """Return how much disk the kept models may take."""
    given = os.environ.get(CACHE_MIB, "").strip()
    is_number = given.isascii() and given.isdigit()
    return (int(given[:6]) if is_number else _CACHE_MIB) << 20


def make_room(folder: Path, most_bytes: int) -> None:
    """Remove the oldest files until the rest takes `most_bytes` at most."""
    found = sorted(_files(folder), reverse=True)
    left = max(0, most_bytes)
    for number, (at, size, path) in enumerate(found):
        left -= size
        is_left_behind = path.suffix == ".part" and time.time() - at > _PART_SECONDS
        if left < 0 or number >= _MOST_FILES or is_left_behind:
            with suppress(OSError):
                path.unlink()


def _files(folder: Path) -> Iterator[tuple[float, int, Path]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                state = entry.stat(follow_symlinks=False)
                yield state.st_mtime, state.st_size, Path(entry.path)


def _path(repo_id: str, revision: str | None) -> Path | None:
    folder = runtime_folder()
    if folder is None or cache_bytes() == 0:
        return None
    endpoint = os.environ.get("HF_ENDPOINT", "")
    key = json.dumps([endpoint, repo_id, revision]).encode()
    return folder / "hub" / f"{hashlib.sha256(key).hexdigest()[:40]}.json"


def _kept(content: Mapping[str, Any], *, is_fresh: bool) -> Kept | None:
    if content["format"] != _FORMAT:
        return None
    return Kept(
        commit=str(content["commit"]),
        config=dict(content["config"]),
        side={str(name): dict(side) for name, side in content["side"].items()},
        shapes=unpacked(content["tensors"]),
        parameters={str(k): int(n) for k, n in content["parameters"].items()},
        is_fresh=is_fresh,
    )
