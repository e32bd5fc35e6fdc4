"""The form of a measured start that is given to others: no part of it names anything.

Numbers under known names, and words of the planner's own lists. A file of this form can
hold no path, no person's name, no address and no token.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from planner.confirming.measurement import WorkerFigures
from planner.engine.arguments import ARGUMENTS, PLANNER_ONLY, Argument, Kind
from planner.engine.gpu import GPU, catalogue
from planner.engine.releases import is_modelled
from planner.engine.settings import EngineSettings
from planner.models.catalogue import entries
from planner.planning.calibrations.record import NotARecord
from planner.units import MIB

KIND = "vllm-memory-planner shared start"
SCHEMA = 1
MOST_BYTES = 1 << 20
"""A shared start has 2 KiB."""
_RELEASE = re.compile(r"\d{1,3}\.\d{1,3}\.\d{1,3}\Z", re.ASCII)
_MONTH = re.compile(r"20\d\d-(?:0[1-9]|1[0-2])\Z", re.ASCII)
DRIVER = re.compile(r"\d{3,4}(?:\.\d{1,4}){0,3}\Z", re.ASCII)
_LINES = ("weights", "persistent buffers", "peak activation", "non-torch")
FIGURES = frozenset(one.name for one in fields(WorkerFigures)) - {"rank", "groups"}
_ENTRYPOINTS = ("serve", "llm")
_WORDS: Mapping[str, frozenset[str]] = {
    "kv_cache_dtype": frozenset(
        "auto bfloat16 float16 fp8 fp8_e4m3 fp8_e5m2 fp8_ds_mla nvfp4".split()
    ),
    "quantization": frozenset(
        "awq awq_marlin bitsandbytes compressed-tensors fp8 gptq gptq_marlin "
        "modelopt modelopt_fp4 mxfp4 mxfp8".split()
    ),
}
"""What is told of arguments whose values are words of any form."""
_NAME_SOMETHING = (Kind.TEXT, Kind.TABLE, Kind.NAMES)
TOLD = frozenset(
    one.name
    for one in fields(EngineSettings)
    if one.name in ARGUMENTS
    and one.name not in PLANNER_ONLY
    and not ARGUMENTS[one.name].kept_out
    and (ARGUMENTS[one.name].kind not in _NAME_SOMETHING or one.name in _WORDS)
)
"""Arguments that a shared start may have."""
_MOST = 1 << 50
_MOST_STAGES, _MOST_NUMBERS = 64, 512
_GIVEN_BACK = 64 * MIB
_FORM = frozenset(
    "kind schema vllm_version gpu driver_version model entrypoint month args is_dummy "
    "is_compile_cache_cold captured_graph_bytes ranks".split()
)
_OF_RANK = frozenset(("pp_rank", "lines", "cudagraph_estimate_bytes", "figures"))


@cache
def known_models() -> frozenset[str]:
    """Return the names of the models that the planner bundles."""
    return frozenset(entry.name for entry in entries())


@cache
def known_gpus() -> dict[str, GPU]:
    """Return the GPUs of the catalogue by their names."""
    return {gpu.name: gpu for gpu in catalogue()}


def checked(entry: object) -> Mapping[str, Any]:
    """Return a shared start whose every part is of the form.

    Raises:
        NotARecord: naming the first part that is not.
    """
    values = _table("the file", entry, _FORM)
    gpu = _table("gpu", values["gpu"], frozenset(("name", "total_memory_bytes")))
    args = values["args"]
    for name, is_right in (
        ("kind", values["kind"] == KIND),
        ("schema", values["schema"] == SCHEMA and values["schema"] is not True),
        ("vllm_version", _is_release(values["vllm_version"])),
        ("gpu.name", _is_one_of(gpu["name"], known_gpus())),
        ("driver_version", _is_word(values["driver_version"], DRIVER, empty=True)),
        ("model", _is_one_of(values["model"], known_models())),
        ("entrypoint", _is_one_of(values["entrypoint"], _ENTRYPOINTS)),
        ("month", _is_word(values["month"], _MONTH)),
        ("args", isinstance(args, Mapping)),
        ("is_dummy", isinstance(values["is_dummy"], bool)),
        (
            "is_compile_cache_cold",
            values["is_compile_cache_cold"] in (None, True, False),
        ),
        ("ranks", isinstance(values["ranks"], list)),
    ):
        if not is_right:
            raise NotARecord(f"{name} is not of the form")
    wrong = [name for name, value in args.items() if not is_told(name, value)]
    if wrong:
        raise NotARecord(f"args.{wrong[0]} is not of the form")
    total = _size("gpu.total_memory_bytes", gpu["total_memory_bytes"], 0, _MOST)
    if values["captured_graph_bytes"] is not None:
        _size("captured_graph_bytes", values["captured_graph_bytes"], 0, total)
    if not 1 <= len(values["ranks"]) <= _MOST_STAGES:
        raise NotARecord("ranks is not of the form")
    for rank in values["ranks"]:
        _check_rank(rank, total)
    return values


def _check_rank(rank: object, total: int) -> None:
    values = _table("a rank", rank, _OF_RANK)
    _size("pp_rank", values["pp_rank"], 0, _MOST_STAGES)
    if values["cudagraph_estimate_bytes"] is not None:
        estimate = values["cudagraph_estimate_bytes"]
        _size("cudagraph_estimate_bytes", estimate, 0, total)
    figures = values["figures"]
    if not isinstance(figures, Mapping) or not figures.keys() <= FIGURES:
        raise NotARecord("figures is not of the form")
    for name, size in figures.items():
        _size(name, size, -_GIVEN_BACK, total)
    _check_lines(values["lines"], total)


def _check_lines(lines: object, total: int) -> None:
    """Refuse lines that are none of a plan's, told twice, or more than the GPU has."""
    if not isinstance(lines, list) or not 1 <= len(lines) <= len(_LINES):
        raise NotARecord("lines is not of the form")
    names: list[str] = []
    taken = 0
    for line in lines:
        parts = _table("a line", line, frozenset(("covers", "size_bytes")))
        covers = parts["covers"]
        if not isinstance(covers, list) or not covers:
            raise NotARecord("covers is not of the form")
        names += covers
        taken += _size("size_bytes", parts["size_bytes"], -_GIVEN_BACK, total)
    if not all(_is_one_of(one, _LINES) for one in names) or len({*names}) < len(names):
        raise NotARecord("covers is not of the form")
    if taken > total:
        raise NotARecord("its lines are more than its GPU has")


def _table(name: str, value: object, keys: frozenset[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or value.keys() != keys:
        raise NotARecord(f"{name} has other parts than a shared start")
    return value


def _size(name: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise NotARecord(f"{name} is not a whole number")
    if not least <= value <= most:
        raise NotARecord(f"{name} is not a size that such a start can have")
    return value


def _is_release(value: object) -> bool:
    return _is_word(value, _RELEASE) and is_modelled(str(value))


def _is_one_of(value: object, names: Container[str]) -> bool:
    return isinstance(value, str) and value in names


def _is_word(value: object, form: re.Pattern[str], *, empty: bool = False) -> bool:
    is_empty = empty and value == ""
    return is_empty or (isinstance(value, str) and form.match(value) is not None)


def is_told(name: str, value: object) -> bool:
    """Return whether an argument may leave, with a value that names nothing."""
    if name == "max_model_len" and value == "auto":
        return True
    if name in _WORDS:
        return _is_one_of(value, _WORDS[name])
    return name in TOLD and _is_of_kind(ARGUMENTS[name], value)


def _is_of_kind(argument: Argument, value: object) -> bool:
    if argument.kind is Kind.CHOICE:
        return isinstance(value, str | int) and value in argument.choices
    if argument.kind is Kind.NUMBERS:
        numbers = value if isinstance(value, list) else [None]
        return len(numbers) <= _MOST_NUMBERS and all(map(_is_number, numbers))
    if argument.kind is Kind.SWITCH:
        return isinstance(value, bool)
    is_whole = argument.kind not in (Kind.SHARE, Kind.NUMBER)
    return _is_number(value) and (not is_whole or isinstance(value, int))


def _is_number(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and -_MOST <= value <= _MOST  # type: ignore[operator] # checked
