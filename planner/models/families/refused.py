"""Models that are refused as vLLM refuses them, and sizes that cannot be a model's.

Checked are custom code that the user has not allowed, model types
and architectures that neither vLLM nor Transformers knows, architectures that vLLM has
dropped, and, once for every reader, the sizes that a model cannot be built without.

Source: vLLM 0.33.0 `transformers_utils/config.py` (its own configuration classes);
`models/registry.py` _PREVIOUSLY_SUPPORTED_MODELS, _raise_for_unsupported,
_try_resolve_transformers and _normalize_arch; Transformers `AutoConfig` and
`dynamic_module_utils.py` resolve_trust_remote_code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from planner.data import DATA
from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.engine.releases.change import recorded
from planner.errors import Refused, UnknownArchitecture, close_words
from planner.models.architecture import ModelArchitecture
from planner.models.families.conversion import SUFFIXES
from planner.models.layers import Module

REMOVED_IN = {
    name: last
    for last, names in (
        ("0.9.2", "Phi3SmallForCausalLM"),
        (
            "0.10.2",
            "DonutForConditionalGeneration MllamaForConditionalGeneration "
            "MotifForCausalLM Phi4FlashForCausalLM",
        ),
        ("0.12.0", "Phi4MultimodalForCausalLM"),
        ("0.22.0", "JAISLMHeadModel"),
        (
            "0.23.0",
            "BaiChuanForCausalLM BaichuanForCausalLM BambaForCausalLM "
            "Dots1ForCausalLM ErnieForSequenceClassification "
            "ErnieForTokenClassification ErnieModel InternLM2VEForCausalLM "
            "InternLMForCausalLM MiniMaxForCausalLM MiniMaxM1ForCausalLM "
            "MiniMaxText01ForCausalLM MiniMaxVL01ForConditionalGeneration "
            "QWenLMHeadModel QwenVLForConditionalGeneration "
            "Tarsier2ForConditionalGeneration XverseForCausalLM",
        ),
        (
            "0.24.0",
            "AquilaForCausalLM AquilaModel AyaVisionForConditionalGeneration "
            "Grok1ForCausalLM Grok1ModelForCausalLM MantisForConditionalGeneration "
            "MusicFlamingoForConditionalGeneration TarsierForConditionalGeneration",
        ),
        ("0.25.0", "FuyuForCausalLM PersimmonForCausalLM TeleChatForCausalLM"),
        ("0.26.0", "OuroForCausalLM Plamo2ForCausalLM"),
        (
            "0.28.0",
            "ArcticForCausalLM ChameleonForConditionalGeneration Cheers "
            "CheersForConditionalGeneration Fairseq2LlamaForCausalLM "
            "FireRedLIDForConditionalGeneration GritLM HCXVisionForCausalLM "
            "MPTForCausalLM MptForCausalLM PrithviGeoSpatialMAE RWForCausalLM "
            "StableLMEpochForCausalLM",
        ),
    )
    for name in names.split()
}
"""Architectures that vLLM no longer supports, and the last release that did."""

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
"""Model types whose repositories contain the configuration class; copies of their
config.json often lack the field that says so."""
_OF_PARAMS = "transformer"
"""What vLLM calls the config that it makes of params.json (Mistral's own format)."""
_MOST_ELEMENTS = 1 << 50
"""More than any tensor has."""
_FIELDS = {
    "hidden_size": "hidden_size",
    "vocab_size": "vocab_size",
    "num_attention_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "head_size": "head_dim",
    "num_hidden_layers": "num_hidden_layers",
}
_OF_ATTENTION = ("num_attention_heads", "num_kv_heads", "head_size")


def check_custom_code(
    name: str, config: Mapping[str, Any], *, is_trusted: bool
) -> None:
    """Refuse a model that needs custom code which the user has not allowed.

    Raises:
        Refused: in the words that vLLM passes on from Transformers.
    """
    auto_map = config.get("auto_map")
    has_code = isinstance(auto_map, Mapping) and "AutoConfig" in auto_map
    if is_trusted or not has_code:
        return
    if str(config.get("model_type")) in known_model_types():
        return
    raise Refused(
        f"The repository {name} contains custom code which must be executed to "
        "correctly load the model. You can inspect the repository content at "
        f"https://hf.co/{name} .\nPlease pass the argument `trust_remote_code=True` to "
        "allow custom code to be run."
    )


def check_model_type(config: Mapping[str, Any]) -> None:
    """Refuse a model type that has no configuration class.

    Raises:
        Refused: in the words that vLLM passes on from Transformers.
    """
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        return
    if model_type == _OF_PARAMS:
        return
    if _has_code(config, "AutoConfig"):
        return
    if model_type in known_model_types() or model_type in _PUBLISHED_WITH_CODE:
        return
    raise _unknown_type(model_type)


def check_model_type_then(config: Mapping[str, Any], release: Release) -> None:
    """Refuse a model type that was unknown when a release came.

    Raises:
        Refused: in the words that vLLM passes on from Transformers, the one that pip
            chose on the release's day.
    """
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or _has_code(config, "AutoConfig"):
        return
    first = _type_history().get(model_type)
    if first is None:
        return
    known = recorded(
        f"The newest Transformers of the release's day knows {model_type}.",
        since=first,
        source="planner/data/model_type_history.json",
    )
    if not release.has(known):
        raise _unknown_type(model_type)


def _unknown_type(model_type: str) -> Refused:
    return Refused(
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
    """Refuse an architecture that neither vLLM nor Transformers has a class for.

    Raises:
        Refused: in vLLM's words.
    """
    names = vllm_architectures()
    if _is_known(architecture, names) or _has_code(config, "AutoModel"):
        return
    if is_served_by_transformers(architecture):
        return
    near = _nearest(architecture)
    hint = f" (Nearest: {', '.join(near)}.)" if near else ""
    raise Refused(
        f"Model architectures {[architecture]} are not supported for now. Supported "
        f"architectures: dict_keys({list(names)}){hint}"
    )


def is_served_by_transformers(architecture: str) -> bool:
    """Whether vLLM serves an architecture by Transformers' class where it has none.

    Source: vLLM 0.33.0 `models/registry.py` _try_resolve_transformers, which comes
    before _raise_for_unsupported; a dry run of Llama 3.2 11B Vision, which starts.
    """
    return architecture in _listed("transformers_architectures.txt")


def vllm_architectures() -> tuple[str, ...]:
    """Return the names that vLLM has a class for, in its order."""
    return _listed("vllm_architectures.txt")


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
        is_sound = all(_is_number_of_elements(tensor.elements) for tensor in tensors)
    except (ArithmeticError, Refused):
        is_sound = False
    if not is_sound:
        raise UnknownArchitecture(
            f"config.json of {model.name!r}: {module.name} cannot be built from its "
            "sizes; a size or a count is zero, negative, too large or not whole."
        )


def _is_number_of_elements(value: object) -> bool:
    return isinstance(value, int) and 0 <= value <= _MOST_ELEMENTS


@cache
def known_model_types() -> frozenset[str]:
    """Model types for which vLLM or Transformers has a configuration class."""
    return frozenset(_listed("model_types.txt"))


def _has_code(config: Mapping[str, Any], name: str) -> bool:
    auto_map = config.get("auto_map")
    return isinstance(auto_map, Mapping) and any(
        str(key).startswith(name) for key in auto_map
    )


def _is_known(architecture: str, names: tuple[str, ...]) -> bool:
    """Whether vLLM has the name, or the same with another suffix."""
    if architecture in names:
        return True
    suffix = next((s for s in SUFFIXES if architecture.endswith(s)), None)
    if suffix is None:
        return False
    return any(architecture.replace(suffix, other) in names for other in SUFFIXES)


@lru_cache(maxsize=64)
def _nearest(architecture: str) -> tuple[str, ...]:
    """Return vLLM's closest names; cached, as the search takes longer than a plan."""
    known = vllm_architectures()
    near = close_words(architecture, known, most=3)
    return tuple(near)


@cache
def _type_history() -> dict[str, str]:
    """Return the first release that knows each model type, of those that came later."""
    path = DATA / "model_type_history.json"
    table: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return table


@cache
def _listed(file: str) -> tuple[str, ...]:
    path = DATA / file
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(line for line in lines if not line.startswith("#"))
