"""A GPU in a link: its name in the catalogue, and each fact that differs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, replace
from typing import Any

from planner.errors import PlannerError
from planner.gpu import GPU, Processor, catalogue

_SIZE = re.compile(r"[0-9]{1,18}\Z", re.ASCII)
_CAPABILITY = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\Z", re.ASCII)
_NONE = "none"
_TEXT_FACTS = ("device_name", "source", "total_basis", "mig_profile")
_BASES = ("given", "measured", "assumed")
_LONGEST_NAME = 64


def gpu_to_link(gpu: GPU) -> dict[str, str]:
    """Return a GPU's name under "gpu", and its own facts under "gpu.<fact>"."""
    known = _known(gpu.name)
    usual = {
        fact.name: getattr(known, fact.name) if known else _default(fact.default)
        for fact in fields(GPU)
        if fact.compare and fact.name not in ("name", "processor")
    }
    facts = {
        name: _written(getattr(gpu, name))
        for name, value in usual.items()
        if getattr(gpu, name) != value
    }
    named = {f"gpu.{name}": value for name, value in facts.items()}
    return {"gpu": gpu.name} | named | _processor(gpu.processor)


def gpu_from_link(name: str, facts: Mapping[str, str]) -> GPU:
    """Return the GPU of a link.

    Args:
        name: of the catalogue, or any for a GPU whose total is among the facts.
        facts: text of each fact, by its name in `GPU`.

    Raises:
        PlannerError: for a name or a fact that cannot be.
    """
    if len(name) > _LONGEST_NAME:
        raise PlannerError(f"gpu: a name of at most {_LONGEST_NAME} characters.")
    read = {fact: _read(fact, text) for fact, text in facts.items()}
    described = _with_processor(read)
    if _known(name) is None and "total_memory_bytes" in described:
        return GPU(name=name, **described)
    return replace(GPU.named(name), **described)


def _known(name: str) -> GPU | None:
    return next((gpu for gpu in catalogue() if gpu.name == name), None)


def _default(value: object) -> object:
    return None if value is MISSING else value


def _written(value: object) -> str:
    if value is None:
        return _NONE
    if isinstance(value, tuple):
        return ".".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _processor(processor: Processor | None) -> dict[str, str]:
    if processor is None:
        return {}
    facts = {
        "architecture": processor.architecture,
        "flags": _NONE if processor.flags is None else ",".join(processor.flags),
        "memory_node": str(processor.memory_node),
    }
    usual = {"architecture": "x86_64", "flags": _NONE, "memory_node": "0"}
    return {
        f"gpu.processor.{name}": text
        for name, text in facts.items()
        if text != usual[name]
    }


def _read(fact: str, text: str) -> Any:  # noqa: ANN401 - as the fact's type is
    reader = _READERS.get(fact)
    if reader is None:
        raise PlannerError(f"gpu.{fact}: a GPU has no such fact.")
    return reader(fact, text)


def _size(fact: str, text: str) -> int | None:
    if text == _NONE and fact != "total_memory_bytes":
        return None
    if not _SIZE.match(text):
        raise PlannerError(f"gpu.{fact}={text!r}: a whole number is needed.")
    return int(text)


def _switch(fact: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise PlannerError(f"gpu.{fact}={text!r}: true or false is needed.")
    return text == "true"


def _capability(fact: str, text: str) -> tuple[int, int]:
    match = _CAPABILITY.match(text)
    if match is None:
        raise PlannerError(f"gpu.{fact}={text!r}: two numbers are needed, as in 9.0.")
    return int(match[1]), int(match[2])


def _text(fact: str, text: str) -> str:
    if fact == "total_basis" and text not in _BASES:
        raise PlannerError(f"gpu.{fact}={text!r}: use one of {', '.join(_BASES)}.")
    return text


def _flags(_fact: str, text: str) -> tuple[str, ...] | None:
    return None if text == _NONE else tuple(filter(None, text.split(",")))


_READERS: Mapping[str, Callable[[str, str], Any]] = {
    **dict.fromkeys(_TEXT_FACTS, _text),
    **dict.fromkeys(("is_integrated", "is_under_wsl"), _switch),
    **dict.fromkeys(
        (
            *("total_memory_bytes", "free_memory_bytes", "nvml_memory_bytes"),
            *("num_sms", "memory_bandwidth_bytes_per_second", "processor.memory_node"),
        ),
        _size,
    ),
    "compute_capability": _capability,
    "processor.architecture": _text,
    "processor.flags": _flags,
}


def _with_processor(facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts with those of the processor put together."""
    own = {
        name.removeprefix("processor."): value
        for name, value in facts.items()
        if name.startswith("processor.")
    }
    plain = {name: value for name, value in facts.items() if "." not in name}
    return plain | {"processor": Processor(**own)} if own else plain
