"""Which reader understands which entry of config.json's `architectures`.

To add an architecture:

- vLLM builds it as Llama, or as another decoder listed here: add its name to that style
  in `_DECODERS`.
- It differs from Llama in a bias, a norm or a window: describe the difference as a
  `Style` in `styles.py`, then list the style with the name in `_DECODERS`.
- Its layers are of another kind: write a module in this package that ends with a table
  `READERS`, then list the module with its names in `names.FAMILIES`.

A module with a reader is imported when a model of its family is read: most plans need
one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module

from planner.engine.releases.facts import ReleaseNumber
from planner.models.families import llama
from planner.models.families.assembly import Reader
from planner.models.families.names import BUILT_OTHERWISE_BEFORE, FAMILIES

Before = tuple[int, int]

_DECODERS: dict[str, tuple[str, ...]] = {
    "Llama": (
        "LlamaForCausalLM",
        "LLaMAForCausalLM",
        "LlamaModel",
        "MistralModel",
        "InternLM3ForCausalLM",
        "IQuestCoderForCausalLM",
        "TeleChat3ForCausalLM",
        "MistralForCausalLM",
        "SolarForCausalLM",
        "Ministral3ForCausalLM",
        "GraniteForCausalLM",
        "Ernie4_5ForCausalLM",
        "ExaoneForCausalLM",
        "TeleFLMForCausalLM",
    ),
    "Qwen2": ("Qwen2ForCausalLM", "Qwen2Model"),
    "Qwen3": ("Qwen3ForCausalLM",),
    "Phi3": ("Phi3ForCausalLM",),
    "Gemma": ("GemmaForCausalLM",),
    "Gemma2": ("Gemma2ForCausalLM", "Gemma2Model"),
    "Gemma3": ("Gemma3ForCausalLM",),
    "Exaone4": ("Exaone4ForCausalLM",),
    "Cohere2": ("Cohere2ForCausalLM",),
    "Olmo3": ("Olmo3ForCausalLM",),
    "MiMo": ("MiMoForCausalLM",),
    "Apertus": ("ApertusForCausalLM",),
    "Glm4": ("Glm4ForCausalLM",),
    "Cohere": ("CohereForCausalLM",),
    "Nemotron": ("NemotronForCausalLM",),
    "Orion": ("OrionForCausalLM",),
    "StableLm": ("StableLmForCausalLM",),
    "InternLM2": ("InternLM2ForCausalLM",),
    "MiniCPM": ("MiniCPMForCausalLM",),
    "Olmo": ("OlmoForCausalLM",),
    "Olmo2": ("Olmo2ForCausalLM",),
    "SmolLM3": ("SmolLM3ForCausalLM",),
    "SeedOss": ("SeedOssForCausalLM",),
    "Glm": ("GlmForCausalLM",),
    "Helium": ("HeliumForCausalLM",),
    "Arcee": ("ArceeForCausalLM",),
    "Jais2": ("Jais2ForCausalLM",),
    "Starcoder2": ("Starcoder2ForCausalLM",),
    "Cwm": ("CwmForCausalLM",),
    "HunYuanDense": ("HunYuanDenseV1ForCausalLM",),
    "VaultGemma": ("VaultGemmaForCausalLM",),
    "Ministral": ("MinistralForCausalLM",),
    "NanoChat": ("NanoChatForCausalLM",),
}
"""Decoders like Llama: style in `styles.STYLES`, and the names that are read by it."""


_STYLE_OF = {name: style for style, names in _DECODERS.items() for name in names}
_FAMILY_OF = {name: family for family, names in FAMILIES.items() for name in names}


class Readers(Mapping[str, Reader]):
    """The readers by architecture name; reading one imports its family."""

    def __init__(self, before: Before | None = None) -> None:
        """Return the readers of classes as they were before a release; None: now."""
        self._before = before

    def __getitem__(self, name: str) -> Reader:
        """Return the reader of a name."""
        if self._before is not None:
            forms = import_module("planner.models.families.older")
            older: Reader = forms.OLDER[name, self._before]
            return older
        if name in _STYLE_OF:
            return partial(llama.read, style=llama.STYLES[_STYLE_OF[name]])
        family = import_module(f"planner.models.families.{_FAMILY_OF[name]}")
        reader: Reader = family.READERS[name]
        return reader

    def __contains__(self, name: object) -> bool:
        """Return whether an architecture is understood; imports nothing."""
        return name in _STYLE_OF or name in _FAMILY_OF

    def __iter__(self) -> Iterator[str]:
        """Go through the names; imports nothing."""
        return iter((*_STYLE_OF, *_FAMILY_OF))

    def __len__(self) -> int:
        """Return how many architectures are understood."""
        return len(_STYLE_OF) + len(_FAMILY_OF)


def readers(before: Before | None = None) -> Mapping[str, Reader]:
    """Return every architecture name the planner understands, with its reader.

    `before` is an answer of `built_otherwise`.
    """
    return Readers(before)


def built_otherwise(architecture: str, release: ReleaseNumber) -> Before | None:
    """Return the release before which a class was built as `release` does.

    None: it is built as in the newest.
    """
    changes = BUILT_OTHERWISE_BEFORE.get(architecture, ())
    return next((first for first in changes if release < first), None)
