"""A private model by hand: the dimensions of an architecture that the planner knows.

A published model of the architecture, or a pasted config.json, is the model but for
what is given here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from planner.app.widgets.controls import FieldGroup
from planner.app.widgets.fields import ChoiceField, Field, OwnEntry
from planner.app.widgets.parsing import COUNT
from planner.errors import PlannerError
from planner.models import catalogue
from planner.models.architecture import ModelArchitecture
from planner.models.families.reading import read
from planner.models.files import ModelFiles

NAME = "my-model"
"""What the model is called: its command names a folder of yours."""
ARCHITECTURE = "hand_architecture"
_PUBLISHED = "no: the model above"
_OFFERED = (
    *("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM"),
    *("Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "MixtralForCausalLM"),
    *("Gemma2ForCausalLM", "Gemma3ForCausalLM", "Phi3ForCausalLM"),
    *("GraniteForCausalLM", "SmolLM3ForCausalLM", "Olmo3ForCausalLM"),
    *("Glm4MoeForCausalLM", "Exaone4ForCausalLM", "SeedOssForCausalLM"),
)
_SIZES = {
    "hidden_size": ("Hidden size", ("hidden_size",)),
    "num_hidden_layers": ("Layers", ("num_hidden_layers",)),
    "num_attention_heads": ("Heads", ("num_attention_heads",)),
    "num_key_value_heads": ("KV heads", ("num_key_value_heads",)),
    "head_dim": ("Head size", ("head_dim",)),
    "intermediate_size": ("Intermediate size", ("intermediate_size",)),
    "vocab_size": ("Vocabulary", ("vocab_size",)),
    "num_experts": (
        "Experts",
        ("num_experts", "num_local_experts", "n_routed_experts"),
    ),
    "num_experts_per_tok": ("Experts per token", ("num_experts_per_tok",)),
    "moe_intermediate_size": ("Size of an expert", ("moe_intermediate_size",)),
}
"""Title and keys of config.json, of which a model has one, by the field's name."""
_TIE = "tie_word_embeddings"
_DERIVED = ("head_dim",)
"""A model need not have these: they follow from others."""


class ByHand:
    """The fields of a model by hand; `model` is None while it is not chosen."""

    def __init__(self) -> None:
        self._pasted: Mapping[str, Any] = {}
        options = ((_PUBLISHED, None), *((name, name) for name in _OFFERED))
        self.architecture = ChoiceField(
            ARCHITECTURE, "of a private model whose sizes you give", options
        )
        self.architecture.title = "Architecture"
        self.architecture.label = "architectures"
        self.sizes: dict[str, Field] = {}
        for name, (title, _keys) in _SIZES.items():
            size = OwnEntry(f"hand_{name}", "as config.json has it", COUNT)
            size.title, size.label, size.kind = title, name, "part"
            self.sizes[name] = size
        tied = (("as published", None), ("on", True), ("off", False))
        self.tied = ChoiceField("hand_tie", "one matrix for input and output", tied)
        self.tied.title, self.tied.label = "Tied embeddings", _TIE
        fields = (self.architecture, *self.sizes.values(), self.tied)
        self.fields: dict[str, Field] = {field.name: field for field in fields}
        """By name, in the order of the page."""
        self._others = [name for name in self.fields if name != ARCHITECTURE]
        for field in fields:
            field.term = "by hand"

    @property
    def group(self) -> FieldGroup:
        """The fields, folded."""
        return FieldGroup("By hand", [*self.fields.values()], is_folded=True)

    @property
    def is_chosen(self) -> bool:
        """Whether the model is given by hand."""
        return self.architecture.value is not None

    def bring(self, config: Mapping[str, Any]) -> None:
        """Take a config.json, whose sizes can then be changed."""
        self._pasted = dict(config)
        name = f"pasted: {_class_of(config)}"
        for field in self.fields.values():
            field.put(None)
        self.architecture.put(name)

    def gone(self) -> list[str]:
        """Return the names of the fields that do not apply."""
        if not self.is_chosen:
            return self._others
        base = self._base()
        return [
            field.name
            for name, field in self.sizes.items()
            if _key(name, base) is None and name not in _DERIVED
        ]

    def model(self) -> ModelArchitecture:
        """Return the model that the fields describe.

        Raises:
            PlannerError: for an entry that is not a number, or sizes that no model of
                the architecture can have.
        """
        base = self._base()
        config = dict(base)
        for name, field in self.sizes.items():
            key = _key(name, base) or name
            value = base.get(key)
            field.say(chosen="" if value is None else str(value))
            given = field.read()
            if given is not None and field.name not in self.gone():
                config[key] = given
        self.tied.say(chosen="on" if base.get(_TIE) else "off")
        if self.tied.value is not None:
            config[_TIE] = self.tied.value
        return _read(json.dumps(_layered(config, base), sort_keys=True))

    def _base(self) -> Mapping[str, Any]:
        name = str(self.architecture.value)
        return self._pasted if name.startswith("pasted: ") else _examples()[name]


def _class_of(config: Mapping[str, Any]) -> str:
    classes = config.get("architectures")
    return str(classes[0] if classes else config.get("model_type"))


def _key(name: str, config: Mapping[str, Any]) -> str | None:
    """Return the key of a size in a configuration; None where it has none."""
    return next((key for key in _SIZES[name][1] if key in config), None)


def _layered(config: dict[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Repeat, or cut, lists with an entry for each layer."""
    before, now = (one.get("num_hidden_layers") for one in (base, config))
    if before == now or not now:
        return config
    return {
        key: [value[at % len(value)] for at in range(now)]
        if isinstance(value, list) and len(value) == before
        else value
        for key, value in config.items()
    }


@lru_cache(maxsize=1)
def _examples() -> dict[str, Mapping[str, Any]]:
    """Return a published configuration of each architecture, unquantised."""
    found: dict[str, Mapping[str, Any]] = {}
    for _entry, config in catalogue.configs():
        name = _class_of(config)
        if name in _OFFERED and "quantization_config" not in config:
            found.setdefault(name, config)
    return found


@lru_cache(maxsize=8)
def _read(config: str) -> ModelArchitecture:
    """Read a configuration once: a step of a slider asks for the same."""
    files = ModelFiles(name=NAME, config=json.loads(config), source="given by hand")
    try:
        return read(files)
    except (ArithmeticError, LookupError, TypeError) as error:
        raise PlannerError(
            f"No model has these sizes: {error}. Correct the sizes under By hand."
        ) from error
