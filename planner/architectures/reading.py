"""The door: a model's files in, a ModelArchitecture out, or a clear refusal."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from planner.architectures.assembly import Label
from planner.architectures.registry import facts_for, readers
from planner.architectures.removed import REMOVED_IN
from planner.errors import PlannerError, Refused, UnknownArchitecture
from planner.model import ModelArchitecture
from planner.model_files import ModelFiles

_QUANTISATION_KEYS = ("quantization_config", "compression_config")


def supported_architectures() -> tuple[str, ...]:
    """Names of the architectures the planner understands, sorted."""
    return tuple(sorted(readers()))


@lru_cache(maxsize=64)
def read(files: ModelFiles) -> ModelArchitecture:
    """Return the model as vLLM builds it, remembered for the same files.

    Raises:
        UnknownArchitecture: naming the field that was not understood.
        PlannerError: when config.json is not one of a model.
        Refused: in vLLM's words, for an architecture that it has dropped.
    """
    architecture = _architecture_name(files)
    if architecture in REMOVED_IN:
        raise Refused(
            f"Model architecture {architecture} was supported in vLLM until "
            f"v{REMOVED_IN[architecture]}, and is not supported anymore. "
            "Please use an older version of vLLM if you want to use this model "
            "architecture."
        )
    reader = readers().get(architecture)
    if reader is None:
        raise _unknown(files, architecture)
    _refuse_quantised(files)
    model_type = str(files.config.get("model_type", ""))
    model = reader(
        facts_for(dict(files.config), model_type),
        Label(name=files.name, architecture=architecture),
    )
    return replace(model, source=files.source, is_certain=files.is_certain)


def _architecture_name(files: ModelFiles) -> str:
    names = files.config.get("architectures")
    if isinstance(names, list) and names and isinstance(names[0], str):
        return names[0]
    raise PlannerError(
        f"config.json of {files.name!r} has no `architectures`; vLLM needs its first "
        "entry to know the model. Is this the config.json of a model?"
    )


def _unknown(files: ModelFiles, architecture: str) -> UnknownArchitecture:
    near = difflib.get_close_matches(architecture, readers(), n=3)
    hint = f" Nearest known: {', '.join(near)}." if near else ""
    return UnknownArchitecture(
        f"architectures: {architecture!r} (of {files.name!r}) is not modelled yet."
        f"{hint}"
    )


def quantization_method(files: ModelFiles) -> str | None:
    """Return the checkpoint's quantisation method as vLLM finds it, None without.

    hf_quant_config.json counts only where config.json says nothing; an entry that names
    no method counts as not quantised, as in vLLM.

    Source: vLLM 0.33.0 `transformers_utils/model_arch_config_convertor.py`
    _normalize_quantization_config; `config/model.py` _verify_quantization.
    """
    given = next(
        (files.config[k] for k in _QUANTISATION_KEYS if files.config.get(k)), None
    )
    if given is None:
        return None if files.hf_quant_config is None else "modelopt"
    details = given.get("quantization")
    if isinstance(details, Mapping) and details.get("quant_algo"):
        return "modelopt"
    return str(given.get("quant_method") or "").lower() or None


def _refuse_quantised(files: ModelFiles) -> None:
    method = quantization_method(files)
    if method is not None:
        raise UnknownArchitecture(
            f"quantization_config of {files.name!r}: quantised checkpoints (here "
            f"{method}) are not modelled yet; bfloat16, float16 and float32 ones are."
        )
