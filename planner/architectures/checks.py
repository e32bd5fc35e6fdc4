"""Sizes without which there is no model, checked once for every reader."""

from __future__ import annotations

from planner.errors import Refused, UnknownArchitecture
from planner.layers import Module
from planner.model import ModelArchitecture
from planner.parallel import ParallelLayout

_FIELDS = {
    "hidden_size": "hidden_size",
    "vocab_size": "vocab_size",
    "num_attention_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "head_size": "head_dim",
    "num_hidden_layers": "num_hidden_layers",
}
_OF_ATTENTION = ("num_attention_heads", "num_kv_heads", "head_size")


def check_sizes(model: ModelArchitecture) -> None:
    """Refuse a model without layers, heads, words or width.

    Raises:
        UnknownArchitecture: naming the field of config.json.
    """
    for attribute, field in _FIELDS.items():
        if model.is_attention_free and attribute in _OF_ATTENTION:
            continue
        value = getattr(model, attribute)
        if value < 1:
            raise UnknownArchitecture(
                f"config.json of {model.name!r}: {field} is {value}; a model has at "
                "least 1."
            )
    for modules in (
        model.first_stage,
        model.last_stage,
        model.every_stage,
        *(kind.modules for kind in model.layer_kinds),
        *(tower.modules for tower in model.towers),
    ):
        for module in modules:
            _check_module(model, module)


def _check_module(model: ModelArchitecture, module: Module) -> None:
    try:
        tensors = module.tensors(ParallelLayout())
        is_sound = all(tensor.elements >= 0 for tensor in tensors)
    except (ArithmeticError, Refused):
        is_sound = False
    if not is_sound:
        raise UnknownArchitecture(
            f"config.json of {model.name!r}: {module.name} cannot be built from its "
            "sizes; a size or a count is zero or negative."
        )
