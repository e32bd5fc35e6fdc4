"""Models on disk: a folder as the Hub lays it out, or a config.json alone.

The files of a model are put together here for the Hub too: `model_config` checks that a
config.json is one of a model. Without one it is made of params.json, and for Mistral's
audio models always, as vLLM does; its other models have a config.json that says the
same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from planner.errors import ModelNotFound, ModelUnavailable, PlannerError
from planner.models.files import ModelFiles
from planner.models.sources import gguf
from planner.models.sources.mistral_format import mistral_config, nested, voxtral_config
from planner.models.sources.safetensors import INDEX, SINGLE, TensorFacts, read_headers
from planner.user_files import MOST_CONFIG_BYTES, MOST_VALUES, check_values, read_file

CONFIG = "config.json"
PARAMS = "params.json"
WHISPER = "whisper-large-v3/config.json"
SIDE_FILES = (
    "hf_quant_config.json",
    PARAMS,
    "preprocessor_config.json",
    "processor_config.json",
    "modules.json",
    WHISPER,
)

_CONFIGS = frozenset((CONFIG, INDEX, *SIDE_FILES))
_REMEMBERED = 64
_MOST_INDEX_BYTES, _MOST_INDEX_VALUES = 32 << 20, 600_000
"""The largest published index has 25 MiB, for 300,000 tensors."""
_SHOWN_FILES = 5
_FOREIGN_PREFIXES = ("adapter_", "consolidated")
"""Safetensors files that do not belong to the model that config.json describes."""

_UNREADABLE = {
    ".safetensors": "a file of weights",
    ".bin": "a file of weights",
    ".pt": "a file of weights",
    ".pth": "a file of weights",
}

_MODEL_KEYS = ("architectures", "model_type")

_OTHER_FILES = {
    "_class_name": "the file of a Diffusers pipeline; vLLM's language models have a "
    "config.json with `architectures`",
    "peft_type": "the config of a LoRA adapter; name its base model and set "
    "enable_lora",
    "tokenizer_class": "the config of a tokenizer; config.json is next to it",
}

Stamp = tuple[tuple[str, int, int, int], ...]
"""Name, inode, time of change and size of each file that counts."""


def read(path: Path, name: str) -> ModelFiles:
    """Return the model in a folder, or in one config file.

    The same unchanged files return the same object.

    Args:
        path: the folder or file.
        name: as the user gave it.

    Raises:
        PlannerError: when there is no config of a model.
    """
    if path.is_dir():
        return _remembered(path, name, _stamp(path))
    if path.suffix.lower() == ".gguf":
        return gguf.read(path, name)
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
        source=str(folder / (CONFIG if CONFIG in present else PARAMS)),
    )


def _own_format(folder: Path, present: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the config made of params.json alone; None where it does not suffice."""
    return mistral_config(_side(folder, PARAMS, present))


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
    params = side.get(PARAMS)
    config = voxtral_config(params) or config or mistral_config(params) or {}
    if side.get(WHISPER):  # Kimi-Audio's encoder has a folder of its own
        config = {**config, "whisper_config": side[WHISPER]}
    return ModelFiles(
        name=name,
        config=config,
        hf_quant_config=side.get("hf_quant_config.json"),
        params=params,
        preprocessor_config=_preprocessor(side),
        modules=side.get("modules.json"),
        num_parameters_by_dtype=tensors.num_parameters_by_dtype,
        tensor_shapes=tensors.shapes,
        checkpoint_bytes=tensors.checkpoint_bytes,
        source=source,
    )


def _preprocessor(
    side: Mapping[str, Mapping[str, Any] | None],
) -> Mapping[str, Any] | None:
    """Return the sizes of images and sounds; the newer file's parts come first.

    Source: Transformers 5.20 `image_processing_base.py` get_image_processor_dict,
    `feature_extraction_utils.py` get_feature_extractor_dict.
    """
    whole = side.get("processor_config.json")
    parts = [nested(whole, name) for name in ("feature_extractor", "image_processor")]
    older = side.get("preprocessor_config.json")
    if not any(parts):
        return older
    return {**(older or {}), **parts[0], **parts[1]}


def tensors_in(folder: Path) -> TensorFacts:
    """Return the tensors of a folder's weights; none if any file is missing."""
    present = tuple(row[0] for row in _stamp(folder))
    return read_headers(_weight_files(folder, present))


def _weight_files(folder: Path, present: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the files of weights to read: all that the index names, or none.

    Source: vLLM 0.33.0 `model_executor/model_loader/weight_utils.py`
    filter_duplicate_safetensors_files.
    """
    weights = {name for name in present if name.endswith(".safetensors")}
    if INDEX in present:
        index = json_object(
            _text(folder / INDEX), str(folder / INDEX), _MOST_INDEX_VALUES
        )
        shards = index.get("weight_map")
        names = list(shards.values()) if isinstance(shards, Mapping) else []
        if not all(isinstance(name, str) for name in names):
            raise PlannerError(
                f"{folder / INDEX} is damaged: its `weight_map` names the file of each "
                "tensor. Download it again, or move it to a separate folder."
            )
        weights = set(names) if weights.issuperset(names) else set()
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
        rows.append(_row(WHISPER, folder / WHISPER))
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
    most = _MOST_INDEX_BYTES if path.name == INDEX else MOST_CONFIG_BYTES
    return read_file(path, most, error=ModelUnavailable)


def _unreadable(path: Path, error: OSError) -> ModelUnavailable:
    return ModelUnavailable(
        f"{path} cannot be read: {error.strerror or error}. Check its permissions."
    )


def _no_config(folder: Path, name: str) -> ModelNotFound:
    names = sorted(path.name for path in folder.iterdir())
    if any(file.endswith(".gguf") for file in names):
        return ModelNotFound(
            f"The folder {name!r} holds GGUF files and no config.json. Give one of "
            f"them, or its type: {name}:Q4_K_M."
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


def model_config(text: str | bytes, where: str) -> Mapping[str, Any]:
    """Return a config.json's content.

    Raises:
        PlannerError: when it is not the config of a model, saying what it is.
    """
    config = json_object(text, where)
    if any(config.get(key) for key in _MODEL_KEYS):
        return config
    for key, what in _OTHER_FILES.items():
        if key in config:
            raise PlannerError(f"{where} is not the config of a model but {what}.")
    raise PlannerError(
        f"{where} is not the config of a model: it has neither `architectures` nor "
        "`model_type`. Give a model's config.json, or the folder that holds it."
    )


def side_object(text: str | bytes, where: str) -> Mapping[str, Any]:
    """Return the JSON object of a side file; a list becomes its "modules".

    Raises:
        PlannerError: when it is neither, or has too many values.
    """
    stripped = text.lstrip()
    is_list = stripped[:1] in ("[", b"[")
    if not is_list:
        return json_object(text, where)
    check_values(text, where)
    try:
        return {"modules": json.loads(text)}
    except (ValueError, RecursionError) as error:
        raise PlannerError(
            f"{where} is not JSON ({_first_line(error)}). Download the file again."
        ) from error


def json_object(
    text: str | bytes, where: str, most_values: int = MOST_VALUES
) -> Mapping[str, Any]:
    """Return the JSON object in `text`.

    Raises:
        PlannerError: when it is something else, or has too many values.
    """
    check_values(text, where, most_values)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlannerError(
            f"{where} is not JSON ({_first_line(error)}). Give a model's config.json, "
            "or download the file again."
        ) from error
    if isinstance(content, dict):
        return content
    raise PlannerError(
        f"{where} holds a JSON {_kind(content)}; a model's config.json holds an object "
        '({"architectures": ...}).'
    )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def _kind(content: object) -> str:
    names = {list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(content), "number")
