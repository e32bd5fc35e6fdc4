"""Quantised checkpoints of a model that nobody has named: estimated as usual ones.

`owner/name~AWQ` is the planner's own way to write "an AWQ checkpoint of owner/name". No
repository can have such a name ("~" is not allowed in one), so a command with it is not
mistaken for one that works. Its files are the model's own, with the
`quantization_config` that published checkpoints of that kind usually have.

`planner.models.quantization.interface.Usual` says what such checkpoints leave in 16
bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from planner.errors import PlannerError
from planner.models.files import ModelFiles
from planner.values import frozen

MARK = "~"
"""Between a model's name and the format of the estimate."""


@frozen(eq=False)
class Format:
    """A kind of checkpoint, as most of its kind are published."""

    name: str
    """As names of checkpoints end in it."""
    bits: int
    words: str
    """How the weights are stored, for people."""
    config: Mapping[str, Any]
    """The usual `quantization_config`."""


_FP8_DYNAMIC = {
    "quant_method": "compressed-tensors",
    "format": "float-quantized",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {
                "num_bits": 8,
                "type": "float",
                "strategy": "channel",
                "symmetric": True,
                "dynamic": False,
            },
            "input_activations": {
                "num_bits": 8,
                "type": "float",
                "strategy": "token",
                "symmetric": True,
                "dynamic": True,
            },
        }
    },
}


def _gptq(bits: int) -> dict[str, Any]:
    return {
        "quant_method": "gptq",
        "bits": bits,
        "group_size": 128,
        "desc_act": False,
        "sym": True,
    }


FORMATS: Mapping[str, Format] = {
    form.name: form
    for form in (
        Format(
            name="FP8",
            bits=8,
            words="8-bit floating point with a scale for each row",
            config=_FP8_DYNAMIC,
        ),
        Format(
            name="GPTQ-Int8",
            bits=8,
            words="8-bit integers in groups of 128",
            config=_gptq(8),
        ),
        Format(
            name="AWQ",
            bits=4,
            words="4-bit integers in groups of 128 with zero points",
            config={
                "quant_method": "awq",
                "bits": 4,
                "group_size": 128,
                "zero_point": True,
                "version": "gemm",
            },
        ),
        Format(
            name="GPTQ-Int4",
            bits=4,
            words="4-bit integers in groups of 128",
            config=_gptq(4),
        ),
        Format(
            name="NVFP4",
            bits=4,
            words="4-bit floating point in groups of 16",
            config={
                "quant_method": "modelopt",
                "quant_algo": "NVFP4",
                "group_size": 16,
                "exclude_modules": ["lm_head"],
            },
        ),
        Format(
            name="MXFP4",
            bits=4,
            words="experts in 4-bit floating point in groups of 32",
            config={"quant_method": "mxfp4"},
        ),
    )
}
"""The formats that can be estimated, by name.

Source: `quantization_config` of published checkpoints: FP8-dynamic of RedHatAI, the
gemm version of AutoAWQ, GPTQModel without activation order, NVFP4 of ModelOpt, MXFP4 of
gpt-oss.
"""


def name_of(model: str, form: str) -> str:
    """Return the planner's name of an estimated checkpoint.

    >>> name_of("Qwen/Qwen3-32B", "AWQ")
    'Qwen/Qwen3-32B~AWQ'
    """
    return f"{model}{MARK}{form}"


def split_name(text: str) -> tuple[str, Format] | None:
    """Return the model and the format of an estimated checkpoint's name, or None.

    The model is never an estimate itself.

    >>> split_name("Qwen/Qwen3-32B") is None
    True
    """
    model, _, form = text.rpartition(MARK)
    is_estimate = model.rpartition(MARK)[2] in FORMATS
    if not model or form not in FORMATS or is_estimate:
        return None
    return model, FORMATS[form]


def searched_name(model: str, form: str) -> str:
    """Return what to search the Hub for.

    >>> searched_name("Qwen/Qwen3-32B", "AWQ")
    'Qwen3-32B-AWQ'
    """
    stem = model.rstrip("/").rpartition("/")[2].partition("@")[0]
    return f"{stem}-{form}"


@lru_cache(maxsize=64)
def estimated(files: ModelFiles, form: Format) -> ModelFiles:
    """Return the files of a usual checkpoint of that format, of the same model.

    The same files and format give the same object.

    Raises:
        PlannerError: where the model is quantised already.
    """
    text = files.config.get("text_config")
    tables = (files.config, text if isinstance(text, Mapping) else {})
    keys = ("quantization_config", "compression_config")
    if files.hf_quant_config or any(table.get(key) for table in tables for key in keys):
        raise PlannerError(
            f"{name_of(files.name, form.name)}: {files.name} is quantised already, so "
            f"a {form.name} checkpoint of it cannot be estimated. Give the name of the "
            "model in 16 bits."
        )
    return replace(
        files,
        name=name_of(files.name, form.name),
        config={**files.config, "quantization_config": dict(form.config)},
        num_parameters_by_dtype={},
        tensor_shapes={},
        checkpoint_bytes=None,
        source=f"estimated as a usual {form.name} checkpoint of {files.name} "
        f"({form.words}; embeddings, LM head, routers, recurrent layers and encoders "
        "stay in 16 bits). No repository has this name: search the Hub for "
        f"{searched_name(files.name, form.name)}, and use the name that you find",
        is_certain=False,
        shape_of="",
        is_estimated=True,
    )
