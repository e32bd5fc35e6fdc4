"""Models on disk: a folder as the Hub lays it out, or a config.json alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from planner.errors import ModelNotFound, ModelUnavailable, PlannerError
from planner.model_files import ModelFiles
from planner.sources.config_file import json_object, model_config, side_object
from planner.sources.mistral_format import listening_config
from planner.sources.safetensors import INDEX, SINGLE, TensorFacts, read_headers

CONFIG = "config.json"
SIDE_FILES = (
    "hf_quant_config.json",
    "params.json",
    "preprocessor_config.json",
    "modules.json",
)

_CONFIGS = frozenset((CONFIG, INDEX, *SIDE_FILES))
_REMEMBERED = 64
_SHOWN_FILES = 5
_FOREIGN_PREFIXES = ("adapter_", "consolidated")
"""Safetensors files that are no part of the model as config.json describes it."""

_UNREADABLE = {
    ".gguf": "a GGUF file, whose header the planner does not read",
    ".safetensors": "a file of weights",
    ".bin": "a file of weights",
    ".pt": "a file of weights",
    ".pth": "a file of weights",
}

Stamp = tuple[tuple[str, int, int, int], ...]
"""Name, inode, time of change and size of each file that counts."""


def read(path: Path, name: str) -> ModelFiles:
    """Return the model in a folder, or in one config file.

    The same unchanged files give the same object.

    Args:
        path: the folder or file.
        name: as the user gave it.

    Raises:
        PlannerError: when no config of a model is there.
    """
    if path.is_dir():
        return _remembered(path, name, _stamp(path))
    if path.suffix.lower() in _UNREADABLE:
        raise PlannerError(
            f"{name} is {_UNREADABLE[path.suffix.lower()]}. Give the folder that holds "
            "the model's config.json, or the name of the model it was made from."
        )
    if path.name == CONFIG:
        folder = str(Path(name).parent)
        return _remembered(path.parent, folder, _stamp(path.parent))
    return _remembered_file(path, name, (_row(path.name, path),))


@lru_cache(maxsize=_REMEMBERED)
def _remembered(folder: Path, name: str, stamp: Stamp) -> ModelFiles:
    present = tuple(row[0] for row in stamp)
    if CONFIG not in present and _own_format(folder, present) is None:
        raise _no_config(folder, name)
    tensors = read_headers(_weight_files(folder, present))
    side = {file: _side(folder, file, present) for file in SIDE_FILES}
    return files_with(
        tensors,
        side,
        name=name,
        config=model_config(_text(folder / CONFIG), str(folder / CONFIG))
        if CONFIG in present
        else {},
        source=str(folder / (CONFIG if CONFIG in present else "params.json")),
    )


def _own_format(folder: Path, present: tuple[str, ...]) -> dict[str, Any] | None:
    """Return what params.json alone says of a model; None where that is not enough."""
    return listening_config(_side(folder, "params.json", present))


@lru_cache(maxsize=_REMEMBERED)
def _remembered_file(path: Path, name: str, stamp: object) -> ModelFiles:  # noqa: ARG001 - part of the key
    config = model_config(_text(path), str(path))
    return ModelFiles(name=name, config=config, source=str(path))


def files_with(
    tensors: TensorFacts,
    side: Mapping[str, Mapping[str, Any] | None],
    *,
    name: str,
    config: Mapping[str, Any],
    source: str,
) -> ModelFiles:
    """Put a model's config, its side files and its tensors together."""
    return ModelFiles(
        name=name,
        config=listening_config(side.get("params.json")) or config,
        hf_quant_config=side.get("hf_quant_config.json"),
        params=side.get("params.json"),
        preprocessor_config=side.get("preprocessor_config.json"),
        modules=side.get("modules.json"),
        num_parameters_by_dtype=tensors.num_parameters_by_dtype,
        tensor_shapes=tensors.shapes,
        checkpoint_bytes=tensors.checkpoint_bytes,
        source=source,
    )


def tensors_in(folder: Path) -> TensorFacts:
    """Return what the headers of a folder's weights say; nothing if any are missing."""
    present = tuple(row[0] for row in _stamp(folder))
    return read_headers(_weight_files(folder, present))


def _weight_files(folder: Path, present: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the weights to read: all that the index names, or none.

    Source: vLLM 0.33.0 `model_executor/model_loader/weight_utils.py`
    filter_duplicate_safetensors_files.
    """
    weights = {name for name in present if name.endswith(".safetensors")}
    if INDEX in present:
        index = json_object(_text(folder / INDEX), str(folder / INDEX))
        shards = index.get("weight_map")
        named = set(shards.values()) if isinstance(shards, Mapping) else set()
        weights = named if named <= weights else set()
    elif SINGLE in weights:
        weights = {SINGLE}
    else:
        weights = {w for w in weights if not w.startswith(_FOREIGN_PREFIXES)}
    return tuple(folder / name for name in sorted(weights))


def _side(
    folder: Path, name: str, present: tuple[str, ...]
) -> Mapping[str, Any] | None:
    if name not in present:
        return None
    return side_object(_text(folder / name), str(folder / name))


def _stamp(folder: Path) -> Stamp:
    try:
        with os.scandir(folder) as found:
            rows = [_row(entry.name, entry) for entry in found if _counts(entry.name)]
    except OSError as error:
        raise _unreadable(folder, error) from error
    return tuple(sorted(row for row in rows if row))


def _counts(name: str) -> bool:
    return name in _CONFIGS or name.endswith(".safetensors")


def _row(name: str, file: Path | os.DirEntry[str]) -> tuple[str, int, int, int] | None:
    try:
        state = file.stat()
    except OSError:  # a link whose target is gone counts as absent
        return None
    return name, state.st_ino, state.st_mtime_ns, state.st_size


def _text(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> ModelUnavailable:
    return ModelUnavailable(
        f"{path} cannot be read: {error.strerror or error}. Check its permissions."
    )


def _no_config(folder: Path, name: str) -> ModelNotFound:
    names = sorted(path.name for path in folder.iterdir())
    if any(file.endswith(".gguf") for file in names):
        return ModelNotFound(
            f"The folder {name!r} holds GGUF files and no config.json; the planner "
            "does not read GGUF. Give the name of the model they were made from."
        )
    if "adapter_config.json" in names:
        return ModelNotFound(
            f"The folder {name!r} holds a LoRA adapter, not a model. Give the folder "
            "or name of its base model."
        )
    shown = ", ".join(names[:_SHOWN_FILES]) + (" ..." if names[_SHOWN_FILES:] else "")
    return ModelNotFound(
        f"The folder {name!r} has no config.json (it holds {shown or 'nothing'}). Give "
        "a folder that holds a model's config.json. If you meant a model of that name "
        "on the Hub, run the planner in another folder: vLLM takes the folder too."
    )
