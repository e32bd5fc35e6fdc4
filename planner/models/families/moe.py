"""Mixtures of experts that other models hold."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from planner.models.architecture import ModelArchitecture
from planner.models.families import llama
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts
from planner.models.families.mixtures import ROWS as MIXTURES

read_mixtral = partial(llama.read, style=MIXTURES["MixtralForCausalLM"])
read_glm4_moe = partial(llama.read, style=MIXTURES["Glm4MoeForCausalLM"])


def read_qwen_moe(
    facts: Facts, label: Label, *, mrope_positions_factor: int = 4
) -> ModelArchitecture:
    """Return Qwen3's mixture of experts."""
    style = MIXTURES["Qwen3MoeForCausalLM"]
    style = replace(style, mrope_positions_factor=mrope_positions_factor)
    return llama.read(facts, label, style=style)
