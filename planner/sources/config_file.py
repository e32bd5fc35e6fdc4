"""Tells the config.json of a model from everything else that may lie in its place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from planner.errors import PlannerError

_MODEL_KEYS = ("architectures", "model_type")

_OTHER_FILES = {
    "_class_name": "the file of a Diffusers pipeline; vLLM's language models have a "
    "config.json with `architectures`",
    "peft_type": "the config of a LoRA adapter; name its base model and set "
    "enable_lora",
    "tokenizer_class": "the config of a tokenizer; config.json lies beside it",
}


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
    """Return the JSON object of a side file; a list stands under "modules" in it.

    Raises:
        PlannerError: when it is neither.
    """
    stripped = text.lstrip()
    is_list = stripped[:1] in ("[", b"[")
    if not is_list:
        return json_object(text, where)
    try:
        return {"modules": json.loads(text)}
    except (ValueError, RecursionError) as error:
        raise PlannerError(
            f"{where} is not JSON ({_first_line(error)}). Download the file again."
        ) from error


def json_object(text: str | bytes, where: str) -> Mapping[str, Any]:
    """Return the JSON object in `text`.

    Raises:
        PlannerError: when it is something else.
    """
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
