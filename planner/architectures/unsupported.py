"""Names that neither vLLM nor Transformers knows, refused as vLLM refuses them.

Source: vLLM 0.33.0 `models/registry.py` _raise_for_unsupported,
_try_resolve_transformers and _normalize_arch; Transformers `AutoConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from planner.architectures.custom_code import known_model_types
from planner.errors import Refused

_PUBLISHED_WITH_CODE = frozenset(
    {
        "baichuan",
        "exaone",
        "hunyuan",
        "internlm2",
        "internvl_chat",
        "mimo",
        "minicpm",
        "minicpm3",
        "minicpmv",
        "molmo",
        "nemotron-nas",
        "phi3_v",
        "phi3small",
        "phi4",
        "qwen",
    }
)
"""Model types whose publishers bring the configuration class; copies of their
config.json often lack the field that says so."""
_SUFFIXES = (
    "ForCausalLM",
    "ForConditionalGeneration",
    "ChatModel",
    "LMHeadModel",
    "ForTextEncoding",
    "EmbeddingModel",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForAudioClassification",
    "ForImageClassification",
    "ForVideoClassification",
    "ClassificationModel",
    "ForRewardModeling",
    "RewardModel",
    "Model",
)
"""In vLLM's order (`config/model.py` _SUFFIX_TO_DEFAULTS)."""


def check_model_type(config: Mapping[str, Any]) -> None:
    """Refuse a model type that has no configuration class.

    Raises:
        Refused: in the words that vLLM passes on from Transformers.
    """
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        return
    if _has_code(config, "AutoConfig"):
        return
    if model_type in known_model_types() or model_type in _PUBLISHED_WITH_CODE:
        return
    raise Refused(
        "The checkpoint you are trying to load has model type "
        f"`{model_type}` but Transformers does not recognize this architecture. This "
        "could be because of an issue with the checkpoint, or because your version of "
        "Transformers is out of date.\n\nYou can update Transformers with the command "
        "`pip install --upgrade transformers`. If this does not work, and the "
        "checkpoint is very new, then there may not be a release version that supports "
        "this model yet. In this case, you can get the most up-to-date code by "
        "installing Transformers from source with the command `pip install "
        "git+https://github.com/huggingface/transformers.git`"
    )


def check_architecture(architecture: str, config: Mapping[str, Any]) -> None:
    """Refuse an architecture that nobody has a class for.

    Raises:
        Refused: in vLLM's words.
    """
    names = vllm_architectures()
    if _is_known(architecture, names) or _has_code(config, "AutoModel"):
        return
    if architecture in _listed("transformers_architectures.txt"):
        return
    near = _nearest(architecture)
    hint = f" (Nearest: {', '.join(near)}.)" if near else ""
    raise Refused(
        f"Model architectures {[architecture]} are not supported for now. Supported "
        f"architectures: dict_keys({list(names)}){hint}"
    )


@lru_cache(maxsize=64)
def _nearest(architecture: str) -> tuple[str, ...]:
    """Names of vLLM's like it; remembered, as looking takes longer than a plan."""
    return tuple(get_close_matches(architecture, vllm_architectures(), n=3))


def _is_known(architecture: str, names: tuple[str, ...]) -> bool:
    """Whether vLLM has the name, or another for which it can stand."""
    if architecture in names:
        return True
    suffix = next((s for s in _SUFFIXES if architecture.endswith(s)), None)
    if suffix is None:
        return False
    return any(architecture.replace(suffix, other) in names for other in _SUFFIXES)


def _has_code(config: Mapping[str, Any], name: str) -> bool:
    auto_map = config.get("auto_map")
    return isinstance(auto_map, Mapping) and any(
        str(key).startswith(name) for key in auto_map
    )


def vllm_architectures() -> tuple[str, ...]:
    """Return the names that vLLM has a class for, in its order."""
    return _listed("vllm_architectures.txt")


@cache
def _listed(file: str) -> tuple[str, ...]:
    path = Path(__file__).parent.parent / "data" / file
    lines = path.read_text().splitlines()
    return tuple(line for line in lines if not line.startswith("#"))
