"""A model's published files, before anything in them is interpreted.

Also how the weights that were computed compare with the checkpoint's headers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field, replace
from functools import lru_cache
from math import inf
from typing import Any

from planner.errors import PlannerError
from planner.units import format_size
from planner.values import frozen

_POOLING_MODULES = (
    "sentence_transformers.models.Pooling",
    "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
)
_WORTH_SAYING = 0.005
"""From this share of the weights on a difference is shown."""


@frozen(eq=False)
class ModelFiles:
    """The small files of a model: never the weights themselves.

    This is the border of the typed core: `Any` ends here, and
    `planner.models.families.read` turns these mappings into a `ModelArchitecture`, once
    for each object: two of them are never equal.
    """

    name: str
    """As the user gave it, or as the catalogue calls it; the name in the command."""
    config: Mapping[str, Any]
    """config.json (or the part of it the catalogue keeps)."""
    hf_quant_config: Mapping[str, Any] | None = None
    """hf_quant_config.json, where the checkpoint has one (ModelOpt)."""
    params: Mapping[str, Any] | None = None
    """params.json, where the checkpoint has one (Mistral's own format)."""
    preprocessor_config: Mapping[str, Any] | None = None
    """preprocessor_config.json: the sizes of images and sounds."""
    modules: Mapping[str, Any] | None = None
    """modules.json of sentence-transformers, its list under "modules"."""
    num_parameters: int | None = None
    """Parameters as the publisher counts them; None when not known."""
    num_parameters_by_dtype: Mapping[str, int] = field(default_factory=dict)
    """Elements per safetensors dtype over all files; empty when not known."""
    tensor_shapes: Mapping[str, tuple[str, tuple[int, ...]]] = field(
        default_factory=dict
    )
    """Safetensors dtype and shape of each tensor; empty when not known."""
    checkpoint_bytes: int | None = None
    """Bytes of all tensors in the files; None when not known."""
    gguf_tensors: Mapping[str, tuple[str, tuple[int, ...]]] = field(
        default_factory=dict
    )
    """Type and shape of each tensor of a GGUF file; empty for other formats."""
    source: str = ""
    """Where the facts come from, for people: a path, a repository and commit."""
    is_certain: bool = True
    """False when the source is a reconstruction rather than the published file."""
    is_estimated: bool = False
    """Whether they are those of a usual quantised checkpoint that nobody has named."""
    shape_of: str = ""
    """The model of the same shape whose config.json this is; empty for its own."""

    @property
    def asks_for_pooling(self) -> bool:
        """Whether sentence-transformers pools the model's outputs.

        Source: vLLM 0.33.0 `transformers_utils/config.py` get_pooling_config.
        """
        listed = (self.modules or {}).get("modules")
        if not isinstance(listed, list):
            return False
        kinds = [item.get("type") for item in listed if isinstance(item, Mapping)]
        return any(kind in _POOLING_MODULES for kind in kinds)


_NO_CONFIGS = ("quantization_config", "compression_config", "generation_config")
"""Tables of config.json that Transformers keeps as tables, whatever their name."""
_ROPE = ("rope_scaling", "rope_parameters")
"""Two names of one table."""


def overridden(files: ModelFiles, overrides: Mapping[str, Any]) -> ModelFiles:
    """Return the files with hf_overrides applied to config.json.

    A table for a part of the configuration (text_config) is merged into it, at any
    depth; any other value replaces what is there. The same overrides of the same files
    give the same object.

    Source: vLLM 0.33.0 `transformers_utils/config.py` get_config; `config/model.py`
    _apply_dict_overrides, _update_nested.
    """
    try:
        text = json.dumps(overrides, sort_keys=True)
    except TypeError as error:
        raise PlannerError(
            f"hf_overrides holds what no config.json can: {error}."
        ) from None
    return _overridden(files, text)


@lru_cache(maxsize=64)
def _overridden(files: ModelFiles, text: str) -> ModelFiles:
    config = dict(files.config)
    for name, value in json.loads(text).items():
        held = config.get(name)
        is_part = name.endswith("_config") and name not in _NO_CONFIGS
        if is_part and isinstance(value, dict) and isinstance(held, Mapping):
            config[name] = merged(held, value)
            continue
        if name in _ROPE:
            for other in _ROPE:
                config.pop(other, None)
        config[name] = value
    return replace(files, config=config)


def merged(held: Mapping[str, Any], updates: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with updates applied to it, tables within it at any depth."""
    found = dict(held)
    for name, value in updates.items():
        inner = found.get(name)
        if isinstance(value, Mapping) and isinstance(inner, Mapping):
            found[name] = merged(inner, value)
        else:
            found[name] = value
    return found


@frozen
class PartDifference:
    """One part of the weights, as computed and in the files."""

    name: str
    computed_bytes: int
    checkpoint_bytes: int

    @property
    def difference_bytes(self) -> int:
        """Computed less published."""
        return self.computed_bytes - self.checkpoint_bytes


@frozen
class Reconciliation:
    """The weights of a whole model on one GPU, as computed and in the files."""

    computed_bytes: int
    checkpoint_bytes: int
    """Of the tensors that vLLM loads, plain floats counted in the model's dtype."""
    parts: tuple[PartDifference, ...]
    """Largest difference first; a part may be known by another name in the files."""

    @property
    def share(self) -> float:
        """The difference as a share of what the files hold; infinite for nothing."""
        if not self.checkpoint_bytes:
            return inf
        return self.computed_bytes / self.checkpoint_bytes - 1

    def __str__(self) -> str:
        """Say what agrees, or what differs and where."""
        text = (
            f"The checkpoint's files hold {format_size(self.checkpoint_bytes)} of "
            f"weights, {format_size(self.computed_bytes)} were computed"
            f"{f' ({self.share:+.2%})' if self.checkpoint_bytes else ''}"
        )
        if abs(self.share) <= _WORTH_SAYING:
            return f"{text}: they agree."
        differing = [part for part in self.parts if part.difference_bytes]
        shown = ", ".join(
            f"{part.name} {format_size(part.computed_bytes)} computed, "
            f"{format_size(part.checkpoint_bytes)} in the files"
            for part in differing[:4]
        )
        return f"{text}. The parts that differ most: {shown}."
