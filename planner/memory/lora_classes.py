"""What vLLM's model classes let adapters change, by release.

The facts lie in `data/lora_classes.json`; `tools/lora_classes.py` reads them off the
sources of the releases.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from planner.releases import Release, number_of

WIDE = (0, 22, 0)
"""First release of which all models were read; older ones know dense text models."""
LONG_KNOWN = (
    *("GemmaForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM"),
    *("GraniteForCausalLM", "LlamaForCausalLM", "MistralForCausalLM"),
    *("Phi3ForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"),
)
MORE = (0, 12, 0)
"""First release of which more models were read: adapters add no words any more."""
MORE_KNOWN = (
    *("ApertusForCausalLM", "CohereForCausalLM", "Cohere2ForCausalLM"),
    *("ExaoneForCausalLM", "Exaone4ForCausalLM", "Glm4ForCausalLM"),
    *("InternLM2ForCausalLM", "NemotronForCausalLM", "Olmo2ForCausalLM"),
    *("Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"),
    *("Qwen3VLForConditionalGeneration", "SeedOssForCausalLM", "StableLmForCausalLM"),
    "Starcoder2ForCausalLM",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoRAClass:
    """A class that adapters may change.

    Source: vLLM 0.33.0 `models/interfaces.py` SupportsLoRA; `models/module_mapping.py`
    MultiModelKeys.
    """

    embedding_modules: tuple[str, ...] = ()
    """Names of word embeddings and head, as far as adapters change them."""
    packed: Mapping[str, int]
    """Layers of an adapter that are one layer of the class, by its name."""
    has_3d_experts: bool = False
    """Whether adapters hold gate and up projections of all experts as one."""
    is_non_gated: bool = False
    """Whether experts have no gate projection."""
    language_prefix: str | None = None
    """Beginning of the names of the language model's layers, which alone adapters
    change beside encoders; None: they change every layer."""
    tower_prefixes: tuple[str, ...] = ()
    """Beginnings of the names of encoders that adapters may change as well."""
    connector_prefixes: tuple[str, ...] = ()
    """The same of what joins encoders and language model."""
    shares_head_module: bool = False
    """Whether a tied head is the embeddings' own module, which is wrapped twice."""
    is_of_transformers: bool = False
    """Whether it is Transformers' model, whose layers vLLM replaces."""
    language_models: tuple[str, ...] = ()
    """Architectures of the language model within; empty: the config names it."""


@lru_cache(maxsize=256)
def lora_class(architecture: str, release: Release) -> LoRAClass | None:
    """Return what a class lets adapters change; None where it takes no adapters.

    Raises:
        KeyError: for a class of which nothing is known.
    """
    found: Mapping[str, Any] | None = None
    for facts in _table()[architecture]:
        if release.since(*number_of(facts["since"])):
            found = facts
    if found is None or not found.get("packed_known", True):
        raise KeyError(architecture)
    if not found["supports_lora"]:
        return None
    return LoRAClass(
        embedding_modules=tuple(found.get("embeddings", ())),
        packed=found.get("packed", {}),
        has_3d_experts=found.get("has_3d_experts", False),
        is_non_gated=found.get("is_non_gated", False),
        language_prefix=found.get("language"),
        tower_prefixes=tuple(found.get("towers", ())),
        connector_prefixes=tuple(found.get("connectors", ())),
        shares_head_module=found.get("shares_head", False),
        is_of_transformers=found.get("is_of_transformers", False),
        language_models=tuple(found.get("language_models", ())),
    )


@cache
def _table() -> dict[str, list[dict[str, Any]]]:
    path = Path(__file__).parent.parent / "data" / "lora_classes.json"
    classes: dict[str, list[dict[str, Any]]] = json.loads(
        path.read_text(encoding="utf-8")
    )["classes"]
    return classes
