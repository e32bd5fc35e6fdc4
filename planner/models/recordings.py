"""Recordings: what vLLM built of a model once, for machines without vLLM.

`planner record` writes them from dry runs. A recording answers for the very config.json
that it was made from; bundled ones are in `planner/data/recordings/`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Any

from planner.data import DATA
from planner.errors import PlannerError
from planner.surroundings import data_folder, is_published
from planner.user_files import MOST_TEXT_BYTES, read_file
from planner.values import frozen

KIND = "vllm-memory-planner recording"
SCHEMA = 1
_BUNDLED = DATA / "recordings"
_IRRELEVANT = ("_name_or_path", "transformers_version", "_commit_hash", "use_cache")
_KEY_DIGITS = 16


@frozen(eq=False)
class Recording:
    """A model as vLLM built it on one rank, and on one of two where it was cut."""

    model: str
    vllm_version: str
    gpu: str
    """Catalogue name of the GPU that was not there."""
    date: str
    config_key: str
    """Of the config.json; see `config_key`."""
    whole: Mapping[str, Any]
    """Modules, tensors and caches with one rank."""
    halved: Mapping[str, Any] | None = None
    """The same of the first of two ranks; None: vLLM cannot cut it."""
    runs: tuple[Mapping[str, Any], ...] = field(default=())
    """Engine arguments and what vLLM measured with them."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of its file."""
        return {
            "kind": KIND,
            "schema": SCHEMA,
            "model": self.model,
            "vllm_version": self.vllm_version,
            "gpu": self.gpu,
            "date": self.date,
            "config_key": self.config_key,
            "whole": self.whole,
            "halved": self.halved,
            "runs": list(self.runs),
        }


def config_key(config: Mapping[str, Any]) -> str:
    """Return the key of a config.json: that of everything in it that counts.

    >>> config_key({"hidden_size": 8}) == config_key({"hidden_size": 8, "use_cache": 1})
    True
    """
    from hashlib import sha256  # noqa: PLC0415 - slow

    kept = {name: value for name, value in config.items() if name not in _IRRELEVANT}
    text = json.dumps(kept, sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:_KEY_DIGITS]


def find_recording(config: Mapping[str, Any]) -> Recording | None:
    """Return the recording of a config.json, the user's own first; None without one.

    Raises:
        PlannerError: for a file that is not a recording.
    """
    name = f"{config_key(config)}.json"
    for folder in _folders():
        path = folder / name
        if path.is_file():
            return _read(path, path.stat().st_mtime_ns)
    return None


def own_folder() -> Path | None:
    """Return the folder of the user's own recordings; None without a home folder."""
    base = data_folder()
    return None if base is None else Path(base) / "recordings"


def write_recording(recording: Recording, path: Path | None = None) -> Path:
    """Write a recording to a file, or among the user's own; return the path.

    Raises:
        PlannerError: where it cannot be written.
    """
    folder = own_folder()
    if path is None and folder is None:
        raise PlannerError("There is no home folder: name a file (--output FILE).")
    target = path or Path(folder or "") / f"{recording.config_key}.json"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(
            json.dumps(recording.to_dict(), separators=(",", ":")), encoding="utf-8"
        )
    except OSError as error:
        raise PlannerError(f"{target} cannot be written ({error}).") from error
    return target


def read_recording(path: Path) -> Recording:
    """Read a recording that somebody sent.

    Raises:
        PlannerError: for a file that cannot be read or is not a recording.
    """
    raw = read_file(path, MOST_TEXT_BYTES)
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise PlannerError(f"{path} cannot be read as JSON ({error}).") from error
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise PlannerError(f"{path} is not a recording: `planner record` writes them.")
    if found.get("schema") != SCHEMA:
        raise PlannerError(
            f"{path} is a recording of schema {found.get('schema')}, and this planner "
            f"reads {SCHEMA}: record the model again."
        )
    names = ("model", "vllm_version", "gpu", "date", "config_key", "whole", "halved")
    try:
        values = {name: found[name] for name in names}
    except KeyError as error:
        raise PlannerError(f"{path} has no {error}: record the model again.") from error
    return Recording(**values, runs=tuple(found.get("runs", ())))


@lru_cache(maxsize=64)
def _read(path: Path, _changed_ns: int) -> Recording:
    return read_recording(path)


def _folders() -> Iterator[Path]:
    """Yield where recordings are; a published app reads no folder of its user's."""
    own = None if is_published() or sys.platform == "emscripten" else own_folder()
    if own is not None and os.environ.get("PLANNER_RECORDINGS", "") != "off":
        yield own
    yield _BUNDLED
