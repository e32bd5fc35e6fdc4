"""Bytes of one element, by vLLM's and PyTorch's names for data types."""

from __future__ import annotations

from planner.errors import PlannerError, UnknownArchitecture

ELEMENT_BYTES = {
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e8m0fnu": 1,
    "uint8": 1,
    "int8": 1,
}


_ALIASES = {"half": "float16", "float": "float32"}


def element_bytes(dtype: str) -> int:
    """Return the bytes of one element of `dtype`.

    Raises:
        UnknownArchitecture: for a dtype that vLLM does not store tensors in.
    """
    try:
        return ELEMENT_BYTES[dtype]
    except KeyError:
        raise UnknownArchitecture(
            f"dtype {dtype!r} is not one of {', '.join(ELEMENT_BYTES)}."
        ) from None


def canonical_dtype(dtype: str) -> str:
    """Return PyTorch's name for a dtype as a user or a config.json spells it.

    Raises:
        PlannerError: when vLLM has no such dtype.

    Source: vLLM 0.33.0 `config/model.py` _STR_DTYPE_TO_TORCH_DTYPE.
    """
    name = dtype.lower().removeprefix("torch.")
    name = _ALIASES.get(name, name)
    if name not in ("float16", "bfloat16", "float32"):
        raise PlannerError(
            f"dtype {dtype!r} is unknown to vLLM. "
            "Use auto, half, float16, bfloat16, float or float32."
        )
    return name
