"""A short name for what decides a model's memory, whatever the model is called.

Two fine-tunes of the same shape have the same one; so a figure measured with one of
them, or with dummy weights, holds for the other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

from planner.model import ModelArchitecture

_DIGITS = 16
_FACTS = (
    *("architecture", "hidden_size", "vocab_size", "num_attention_heads"),
    *("num_kv_heads", "head_size", "first_stage", "last_stage", "every_stage"),
    *("tied_embeddings", "layer_kinds", "layers", "towers", "deepstack_layers"),
    *("quantization", "num_experts", "kv_sources", "is_pooling"),
)
_AS_THEY_ARE = (int, str, bool, type(None), float)
_KNOWN: WeakKeyDictionary[ModelArchitecture, str] = WeakKeyDictionary()


def fingerprint(model: ModelArchitecture) -> str:
    """Return the fingerprint, remembered as long as the model is there."""
    known = _KNOWN.get(model)
    if known is None:
        facts = {name: plain(getattr(model, name)) for name in _FACTS}
        text = json.dumps(facts, sort_keys=True)
        known = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
        _KNOWN[model] = known
    return known


def plain(value: object) -> Any:  # noqa: ANN401, PLR0911 - a case for each of JSON's
    """Return a value as JSON would hold it, the same in every process.

    Fields that hold their default are left out, so that one more of them, in a later
    version of the planner, changes no fingerprint.
    """
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        told = {
            field.name: plain(getattr(value, field.name))
            for field in fields(value)
            if field.init and not _is_default(field, getattr(value, field.name))
        }
        return [type(value).__name__, told]
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, set | frozenset):
        return sorted(str(entry) for entry in value)
    # A method or a marker without fields is known by its kind.
    return getattr(value, "__qualname__", type(value).__qualname__)


def _is_default(field: Field[Any], value: object) -> bool:
    if field.default is not MISSING:
        return bool(value == field.default)
    if field.default_factory is not MISSING:
        return bool(value == field.default_factory())
    return False
