"""Models that are towers beside a language model, each as a row of what is its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

from planner.models.architecture import ModelArchitecture, Tower
from planner.models.families.assembly import Label, Reader
from planner.models.families.facts import Facts
from planner.models.families.multimodal import (
    Tie,
    composed,
    inner_type,
    named,
    quant_method,
    read_language_model,
    sub_config,
    text_facts,
    with_mm_prefix,
)
from planner.models.families.towers.blocks import IMAGE
from planner.models.families.towers.clip import ALL_LAYERS, Depth, siglip_vision
from planner.models.layers import Module
from planner.values import frozen

Towers: TypeAlias = Callable[[Facts, int], Tower | Iterable[Tower | Module]]
"""Returns towers, or the modules of one, by the outer config and the words' width."""


@frozen(kw_only=False)
class Text:
    """Where a config keeps its language model, and what class reads that."""

    model_type: str = "llama"
    """Of the inner config; with no architecture, where it does not say."""
    architecture: str | None = None
    """vLLM's class, if it is always this one."""
    name: str = "text_config"
    """Empty: the outer config has the fields of both."""
    other_name: str = ""
    """Used where it is there."""
    tie: Tie = Tie.OUTER
    flat_keys: Iterable[str] = ()

    def facts(self, facts: Facts) -> Facts:
        """Return the language model's config."""
        if not self.name:
            return Facts(facts.config, self.model_type or facts.model_type)
        is_other = self.other_name and facts.mapping(self.other_name)
        name = self.other_name if is_other else self.name
        kind = self.model_type
        if self.architecture is None:
            kind = inner_type(facts, kind, name)
        return text_facts(
            facts, kind, name=name, flat_keys=self.flat_keys, tie=self.tie
        )

    def __call__(self, facts: Facts, label: Label) -> ModelArchitecture:
        """Return the language model."""
        text = self.facts(facts)
        if self.architecture is not None:
            text = named(text, self.architecture)
        return read_language_model(text, label)


@frozen(kw_only=False)
class Composite:
    """A reader of a language model and a tower beside it."""

    tower: Towers
    text: Reader = Text()
    modalities: tuple[str, ...] = IMAGE
    """Of a tower that is given by its modules."""
    prefix: str = "language_model."
    renames: tuple[tuple[str, str], ...] = ()
    beside: Callable[[Facts, int], Iterable[Module]] | None = None
    """Modules that are there on every stage, also where the tower is not."""
    has_mm_prefix: bool = False
    supports_pp: bool = True

    def __call__(self, facts: Facts, label: Label) -> ModelArchitecture:
        """Return the model that a config.json describes."""
        model = self.text(facts, label)
        size = model.hidden_size
        if self.has_mm_prefix:
            model = with_mm_prefix(model)
        towers = self._towers(self.tower(facts, size))
        whole = composed(
            facts, label, model, *towers, prefix=self.prefix, renames=self.renames
        )
        beside = self.beside(facts, size) if self.beside else ()
        return replace(
            whole,
            every_stage=(*whole.every_stage, *beside),
            supports_pp=whole.supports_pp and self.supports_pp,
        )

    def _towers(self, made: Tower | Iterable[Tower | Module]) -> tuple[Tower, ...]:
        if isinstance(made, Tower):
            return (made,)
        parts = tuple(made)
        towers = tuple(part for part in parts if isinstance(part, Tower))
        modules = tuple(part for part in parts if not isinstance(part, Tower))
        return towers or (Tower(self.modalities, modules),)


def siglip_of(
    facts: Facts, name: str, depth: Depth = ALL_LAYERS
) -> tuple[Facts, tuple[Module, ...]]:
    """Return SigLIP's config within a config, and its layers."""
    vision = sub_config(facts, "vision_config", "siglip_vision_model")
    method = quant_method(facts)
    return vision, siglip_vision(vision, name, depth, quant_method=method)
