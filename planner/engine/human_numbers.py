"""Whole numbers as vLLM's command line reads them: 8k is 8000, 8K is 8192.

Source: vLLM 0.33.0 `utils/argparse_utils.py` human_readable_int and
human_readable_int_or_auto; 0.9.2 to 0.14.0 `engine/arg_utils.py`.
"""

from __future__ import annotations

import re
from typing import Any

from planner.engine.arguments import Argument, Kind
from planner.engine.releases import NEWEST_RELEASE, Release
from planner.engine.releases.change import Change
from planner.engine.server import spellings_of
from planner.errors import PlannerError

_SUFFIXED = r"(\d+(?:\.\d+)?)([kKmMgGtT])"
_WITH_UNIT = r"\s*\d+(?:\.\d+)?\s*[A-Za-z]*[Bb]\s*"
"""A size as the planner alone takes it: 8GiB."""
_POWERS = "kmgt"
_TERA = Change(
    since=(0, 13),
    what=(
        "Numbers on the command line may end with t or T. Before, vLLM's pattern had "
        "these letters, but no factor for them."
    ),
    source="vLLM 0.12.0 and 0.13.0 `engine/arg_utils.py` human_readable_int",
)
_LENGTH_OR_AUTO = Change(
    since=(0, 14),
    what=(
        "Refusals of a max_model_len that is no number name the reader "
        "human_readable_int_or_auto."
    ),
    source="vLLM 0.14.0 `engine/arg_utils.py` human_readable_int_or_auto",
)
_LONGEST = 20
"""Characters; no 64-bit number has more."""
_SUFFIXES = (Kind.COUNT, Kind.LENGTH, Kind.SIZE)
_OPTIONAL = frozenset(
    (
        *("cpu_distributed_timeout_seconds", "distributed_timeout_seconds"),
        *("kv_cache_memory_bytes", "mamba_block_size", "max_cpu_loras"),
        *("max_lora_cls_labels", "max_num_active_seqs", "max_num_queued_reqs"),
        *("max_num_queued_tokens", "max_num_scheduled_tokens"),
        *("max_parallel_loading_workers", "num_gpu_blocks_override"),
        *("prefix_cache_retention_interval", "prefix_match_unit"),
    )
)
"""Arguments that vLLM also takes as None: its refusal has other words."""


def is_whole(argument: Argument) -> bool:
    """Return whether vLLM's parser reads the argument as a whole number."""
    has_numbers = any(isinstance(choice, int) for choice in argument.choices)
    return argument.kind in (Kind.WHOLE, *_SUFFIXES) or has_numbers


def human_int(text: str, release: Release = NEWEST_RELEASE) -> int | None:
    """Return a number with a letter of a release after it; None for other text.

    >>> human_int("1.5k"), human_int("32K"), human_int("1.5K"), human_int("8192.7")
    (1500, 32768, None, None)
    """
    match = re.fullmatch(_SUFFIXED, text.strip())
    if match is None or len(text) > _LONGEST:
        return plain_int(text)
    number, suffix = match.groups()
    power = _POWERS.index(suffix.lower()) + 1
    if power == len(_POWERS) and not release.has(_TERA):
        return None
    if suffix in _POWERS:
        return int(float(number) * 1000**power)
    return None if "." in number else int(number) * 1024**power


def plain_int(text: str) -> int | None:
    """Return a whole number as Python reads it; None for other text."""
    try:
        return int(text) if len(text) <= _LONGEST else None
    except ValueError:
        return None


def typed(
    argument: Argument, text: str, release: Release = NEWEST_RELEASE
) -> int | str:
    """Return a text as a release reads it for a whole number; itself where it refuses.

    >>> from planner.engine.arguments import ARGUMENTS
    >>> typed(ARGUMENTS["max_model_len"], "8k"), typed(ARGUMENTS["max_num_seqs"], "8k")
    (8000, '8k')
    """
    has_suffixes = argument.kind in _SUFFIXES
    number = human_int(text, release) if has_suffixes else plain_int(text)
    return text if number is None else number


def checked(argument: Argument, value: Any, release: Release) -> Any:  # noqa: ANN401 - vLLM's own types
    """Return a value, of a whole number given as text the number.

    Raises:
        PlannerError: for a text that the release's parser refuses, in its words.
    """
    if not isinstance(value, str) or not is_whole(argument):
        return value
    words = refusal(argument, value, release)
    if words:
        raise PlannerError(
            f"{argument.name}={_short(value)!r}: {_needed(argument)} needed "
            f"(vLLM: {words})."
        )
    return typed(argument, value, release)


def _short(text: str) -> str:
    return text if len(text) <= 2 * _LONGEST else f"{text[:_LONGEST]}..."


def _needed(argument: Argument) -> str:
    if argument.kind is Kind.LENGTH:
        return "a whole number from 1, -1 or auto is"
    if argument.kind is Kind.SIZE:
        return "a whole number of bytes, or a size such as 8GiB, is"
    least = "" if argument.least is None else f" from {argument.least}"
    return f"a whole number{least} is"


def refusal(argument: Argument, text: str, release: Release = NEWEST_RELEASE) -> str:
    """Return what vLLM's parser answers to a text, in its words; empty if it takes it.

    A size with a unit (8GiB) is taken: the planner writes it in bytes for vLLM.

    >>> from planner.engine.arguments import ARGUMENTS
    >>> refusal(ARGUMENTS["tensor_parallel_size"], "1.9")
    "argument --tensor-parallel-size/-tp: invalid int value: '1.9'"
    """
    is_auto = argument.kind is Kind.LENGTH and text.strip().lower() == "auto"
    is_size = argument.kind is Kind.SIZE and re.fullmatch(_WITH_UNIT, text) is not None
    is_read_later = argument.name == "optimization_level"  # a text to the parser
    if not is_whole(argument) or is_auto or is_size or is_read_later:
        return ""
    if isinstance(typed(argument, text, release), int):
        return ""
    words = _words(argument, text, release)
    return f"argument {'/'.join(spellings_of(argument))}: {words}"


def decimal_words(text: str) -> str:
    """Return vLLM's answer to decimals before a binary letter; empty without them."""
    match = re.fullmatch(_SUFFIXED, text.strip())
    if match is None or "." not in match[1] or match[2] in _POWERS:
        return ""
    return (
        f"Decimals are not allowed with binary suffixes like {match[2]}. Did you mean "
        f"to use {match[1]}{match[2].lower()} instead?"
    )


def _words(argument: Argument, text: str, release: Release) -> str:
    has_suffixes = argument.kind in _SUFFIXES
    is_new = text.strip()[-1:] in ("t", "T") and not release.has(_TERA)
    words = decimal_words(text) if has_suffixes and not is_new else ""
    if words:
        return words
    or_auto = argument.kind is Kind.LENGTH and release.has(_LENGTH_OR_AUTO)
    name = f"human_readable_int{'_or_auto' if or_auto else ''}"
    shown = _short(text)
    if argument.name not in _OPTIONAL:
        return f"invalid {name if has_suffixes else 'int'} value: {shown!r}"
    kind = f"<function {name}>" if has_suffixes else "<class 'int'>"
    return f"Value {shown} cannot be converted to {kind}"
