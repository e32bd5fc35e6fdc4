"""Configuration classes that checkpoints bring as Python code (auto_map).

vLLM reads attributes of a configuration, which are those of config.json. What a
checkpoint's class would compute is missing: vLLM then fails, naming the attribute.
"""

from __future__ import annotations

from typing import Any

from transformers import AutoConfig
from transformers import PretrainedConfig as PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING


class Fields(dict[str, Any]):
    """A part of a configuration in a list, whose fields are attributes, and so on."""

    def __getattr__(self, name: str) -> Any:
        """Return a field."""
        try:
            value = self[name]
        except KeyError:
            raise AttributeError(name, name=name, obj=self) from None
        return Fields(value) if isinstance(value, dict) else value


_OTHER_NAMES = {"exaone": {"num_hidden_layers": "num_layers"}}
"""Attributes that checkpoints' classes have under another name of config.json.

Source: LGAI-EXAONE/EXAONE-3.5-7.8B-Instruct `configuration_exaone.py` (attribute_map).
"""
IGNORED: list[str] = []
"""The classes of configurations that are read without their code."""


class Plain(PreTrainedConfig):
    """A configuration whose attributes are config.json's, and so in its parts."""

    initializer_factor = 1.0
    """Scales random weights: it may be left out of config.json."""

    def __post_init__(self, **values: Any) -> None:
        """Set all attributes; parts become configurations too."""
        parts = {
            name: _part(name, value)
            for name, value in values.items()
            if _is_part(name, value)
        }
        parts |= {
            name: [Fields(one) for one in value]
            for name, value in values.items()
            if _is_list_of_parts(name, value)
        }
        # Transformers reads some, as of RoPE, before it has set all of them.
        self.__dict__.update(values, **parts)
        super().__post_init__(**{**values, **parts})


def register(config: dict[str, Any]) -> None:
    """Make a configuration readable without its checkpoint's code.

    Source: Transformers 5.20 `AutoConfig.from_pretrained`: a class that is registered
    goes before the checkpoint's.
    """
    kind = config.get("model_type")
    if kind is None or "AutoConfig" not in config.get("auto_map", {}):
        return
    if kind not in CONFIG_MAPPING:
        AutoConfig.register(kind, _plain("Plain", kind))


def ignore_code() -> None:
    """Read every configuration from its fields, without the code beside it."""
    read = AutoConfig.from_pretrained.__func__

    def from_pretrained(cls: Any, name: Any, /, **kwargs: Any) -> Any:
        fields = PreTrainedConfig.get_config_dict(name)[0]
        own = (fields.pop("auto_map", None) or {}).get("AutoConfig")
        if not own:
            return read(cls, name, **kwargs)
        IGNORED.append(str(own))
        kind = fields.get("model_type", "")
        if kind in CONFIG_MAPPING:
            made = CONFIG_MAPPING[kind].from_dict(fields)
            if not _differs_by_layer(made):
                return made
        # Some of vLLM's models check the name of their configuration's class.
        return _plain(str(own).rpartition(".")[2], kind).from_dict(fields)

    AutoConfig.from_pretrained = classmethod(from_pretrained)


def _differs_by_layer(config: Any) -> bool:
    """Whether Transformers' class has layers apart: the checkpoint's own has not.

    Source: Transformers 5.20 `integrations/heterogeneity/configuration_utils.py`
    (Step3p7Config), which lets nobody read what layers may change.
    """
    parts = (config, *vars(config).values())
    return any(getattr(one, "is_heterogeneous", False) for one in parts)


def _plain(name: str, kind: str) -> Any:
    """Return a class of configurations for a model_type."""
    own = {"model_type": kind, "attribute_map": _OTHER_NAMES.get(kind, {})}
    return type(name, (Plain,), own)


def _is_part(name: str, value: object) -> bool:
    return name.endswith("_config") and isinstance(value, dict)


def _is_list_of_parts(name: str, value: object) -> bool:
    """Whether a value lists parts, such as those of each layer (DeciLM)."""
    if not name.endswith("_configs") or not isinstance(value, list):
        return False
    return all(isinstance(one, dict) for one in value)


def _part(name: str, values: dict[str, Any]) -> Any:
    kind = values.get("model_type")
    if name == "vision_config" and f"{kind}_vision_model" in CONFIG_MAPPING:
        kind = f"{kind}_vision_model"  # the tower's class, not that of both
    others = {name: value for name, value in values.items() if name != "model_type"}
    if kind in CONFIG_MAPPING:
        return AutoConfig.for_model(kind, **others)
    return Plain(**values)
