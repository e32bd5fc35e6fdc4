"""Which quantisation a model is loaded with: the checkpoint's own, or the user's."""

from __future__ import annotations

from collections.abc import Mapping

from planner.errors import UnknownArchitecture
from planner.model_files import ModelFiles
from planner.quantization.interface import QuantizationConfig

_KEYS = ("quantization_config", "compression_config")


def config_for(
    files: ModelFiles, asked: str | None = None
) -> QuantizationConfig | None:
    """Return the method a model is held in, None for its published dtype.

    `asked` is the engine argument `quantization`.

    Raises:
        UnknownArchitecture: naming a method that is not modelled.
    """
    if asked is not None:
        raise UnknownArchitecture(
            f"quantization={asked!r} is not modelled yet. Leave it out."
        )
    method = quantization_method(files)
    if method is None:
        return None
    raise UnknownArchitecture(
        f"quantization_config of {files.name!r}: quantised checkpoints (here "
        f"{method}) are not modelled yet; bfloat16, float16 and float32 ones are."
    )


def quantization_method(files: ModelFiles) -> str | None:
    """Return the checkpoint's quantisation method as vLLM finds it, None without.

    hf_quant_config.json counts only where config.json says nothing; an entry that names
    no method counts as not quantised, as in vLLM.

    Source: vLLM 0.33.0 `transformers_utils/model_arch_config_convertor.py`
    _normalize_quantization_config; `config/model.py` _verify_quantization.
    """
    given = next((files.config[k] for k in _KEYS if files.config.get(k)), None)
    if given is None:
        return None if files.hf_quant_config is None else "modelopt"
    details = given.get("quantization")
    if isinstance(details, Mapping) and details.get("quant_algo"):
        return "modelopt"
    return str(given.get("quant_method") or "").lower() or None
