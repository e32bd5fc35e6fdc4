"""Language models inside models of images, chosen as vLLM chooses their class."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from planner.models.architecture import ModelArchitecture
from planner.models.families import llama, moe
from planner.models.families.assembly import Label
from planner.models.families.facts import Facts

_LLAMA = partial(llama.read, style=llama.LLAMA)
_CLASSES: dict[str, tuple[str, Callable[..., ModelArchitecture]]] = {
    "gemma": ("GemmaForCausalLM", partial(llama.read, style=llama.STYLES["Gemma"])),
    "gemma2": ("Gemma2ForCausalLM", partial(llama.read, style=llama.STYLES["Gemma2"])),
    "granite": ("GraniteForCausalLM", _LLAMA),
    "llama": ("LlamaForCausalLM", _LLAMA),
    "ministral3": ("Ministral3ForCausalLM", _LLAMA),
    "mistral": ("MistralForCausalLM", _LLAMA),
    "mixtral": ("MixtralForCausalLM", moe.read_mixtral),
    "phi3": ("Phi3ForCausalLM", partial(llama.read, style=llama.STYLES["Phi3"])),
    "qwen2": ("Qwen2ForCausalLM", partial(llama.read, style=llama.STYLES["Qwen2"])),
    "qwen3": ("Qwen3ForCausalLM", partial(llama.read, style=llama.STYLES["Qwen3"])),
}


def read_language_model(text: Facts, label: Label) -> ModelArchitecture:
    """Return the language model that an inner config describes.

    Raises:
        UnknownArchitecture: when it is of another class.

    Source: vLLM 0.33.0 `models/utils.py` init_vllm_registered_model, `config/vllm.py`
    with_hf_config.
    """
    found = _CLASSES.get(text.model_type)
    if found is None:
        raise text.unsupported("architectures", "this language model with a tower.")
    architecture, reader = found
    given = text.value("architectures")
    if given and architecture not in given:
        raise text.unsupported("architectures", f"{architecture} is expected here.")
    return reader(text, Label(name=label.name, architecture=architecture))


def inner_type(facts: Facts, default: str, name: str = "text_config") -> str:
    """Return the model type of the inner config, as its own class would."""
    inner = facts.mapping(name)
    return str(inner.get("model_type") or default)
