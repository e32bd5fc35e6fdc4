"""Which reader understands which entry of config.json's `architectures`.

To add an architecture:

- vLLM builds it as Llama, or as another decoder listed here: add its name to that style
  in `_DECODERS`.
- It differs from Llama in a bias, a norm or a window: describe the difference as a
  `Style` in `styles.py`, then list the style with the name in `_DECODERS`.
- Its layers are of another kind: write a module in this package that ends with a table
  `READERS`, then list the module in `_FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from types import ModuleType

from planner.models.architecture import ModelArchitecture
from planner.models.families import (
    bert,
    deepseek,
    deepseek_v4,
    deepseek_vl2,
    gemma4,
    gemma_mm,
    glm4v,
    glm5_next,
    gpt,
    internvl,
    kimi,
    kimi_linear,
    lfm2,
    llama,
    llama4,
    llava,
    mamba,
    mamba2_hybrids,
    mimo_v2,
    minicpm,
    minimax_m3,
    moe,
    molmo,
    muse_glimmer,
    nas,
    nemotron_h,
    ocr,
    olmo_hybrid,
    phi_vision,
    qwen3_next,
    qwen_audio,
    qwen_vl,
    whisper,
    windowed_moe,
    zamba2,
)

Reader = Callable[..., ModelArchitecture]

_DECODERS: dict[str, tuple[str, ...]] = {
    "Llama": (
        "LlamaForCausalLM",
        "LLaMAForCausalLM",
        "LlamaModel",
        "MistralModel",
        "LlamaForSequenceClassification",
        "InternLM3ForCausalLM",
        "IQuestCoderForCausalLM",
        "TeleChat3ForCausalLM",
        "MistralForCausalLM",
        "SolarForCausalLM",
        "Ministral3ForCausalLM",
        "GraniteForCausalLM",
        "Ernie4_5ForCausalLM",
        "ExaoneForCausalLM",
    ),
    "Qwen2": (
        "Qwen2ForCausalLM",
        "Qwen2Model",
        "Qwen2ForSequenceClassification",
    ),
    "Qwen3": (
        "Qwen3ForCausalLM",
        "Qwen3Model",
        "Qwen3ForSequenceClassification",
    ),
    "Phi3": ("Phi3ForCausalLM",),
    "Gemma": ("GemmaForCausalLM",),
    "Gemma2": ("Gemma2ForCausalLM",),
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
}
"""Decoders like Llama: style in `styles.STYLES`, and the names that are read by it."""

_FAMILIES: tuple[ModuleType, ...] = (
    bert,
    deepseek,
    deepseek_v4,
    deepseek_vl2,
    gemma4,
    gemma_mm,
    glm4v,
    glm5_next,
    gpt,
    internvl,
    kimi,
    kimi_linear,
    lfm2,
    llama4,
    llava,
    mamba,
    mamba2_hybrids,
    mimo_v2,
    minicpm,
    minimax_m3,
    moe,
    molmo,
    muse_glimmer,
    nas,
    nemotron_h,
    ocr,
    olmo_hybrid,
    phi_vision,
    qwen3_next,
    qwen_audio,
    qwen_vl,
    whisper,
    windowed_moe,
    zamba2,
)
"""Modules with readers of their own, each with a table `READERS` of its names."""


@cache
def readers() -> dict[str, Reader]:
    """Return every architecture name the planner understands, with its reader."""
    table: dict[str, Reader] = {
        name: partial(llama.read, style=llama.STYLES[style])
        for style, names in _DECODERS.items()
        for name in names
    }
    for family in _FAMILIES:
        table.update(family.READERS)
    return table
