"""What a stranger must not decide of a start: code, files, addresses.

A link carries none of it. A start of a text or a file that was read names it, and asks
first. Both have one list: `kept_out` and `safe_keys` of `planner/data/arguments.json`,
`kept_out` of `planner/data/server_flags.json`, and the variables below.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from planner.engine.arguments import ARGUMENTS, Argument, Kind
from planner.engine.environment import KNOWN, UNCOUNTED, variables
from planner.engine.server import SERVER_FLAGS, ServerFlag

_LONGEST_VALUE = 80
_MAY_NAME = "may name code or a file"
SAFE_VARIABLES = frozenset(
    {
        *KNOWN,
        *UNCOUNTED,
        *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING"),
        *("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "TOKENIZERS_PARALLELISM"),
        *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "DO_NOT_TRACK", "HF_TOKEN"),
        *("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_ENABLE_HF_TRANSFER"),
        *("NCCL_DEBUG", "NCCL_P2P_DISABLE", "NCCL_IB_DISABLE", "NCCL_SHM_DISABLE"),
        *("NCCL_P2P_LEVEL", "NCCL_CUMEM_ENABLE", "NCCL_NVLS_ENABLE"),
        *("VLLM_LOGGING_LEVEL", "VLLM_WORKER_MULTIPROC_METHOD", "VLLM_LOGGING_PREFIX"),
    }
)
"""Variables of which no value names code, a file or an address."""
_SWITCH = re.compile(r"([0-9]{1,12}(\.[0-9]{1,6})?|true|false)\Z", re.IGNORECASE)
_NAMES_SOMETHING = re.compile(r"_(PATH|DIR|ROOT|FOLDER)\Z|PLUGINS|CONFIG")
"""vLLM's variables of which even a number is a name."""
_OPENS = (
    *("VLLM_ALLOW_INSECURE_SERIALIZATION", "VLLM_ALLOW_RUNTIME_LORA_UPDATING"),
    *("VLLM_USE_MODELSCOPE", "VLLM_GPT_OSS_USE_CONTAINER_TOOL"),
)
"""Switches of vLLM that let in more than a start needs."""


def questions(arguments: Mapping[str, Any], env: Mapping[str, str]) -> tuple[str, ...]:
    """Return what a start has that may run code, or open a file or a connection.

    A sentence for each, without its full stop; none where nothing needs to be asked.

    >>> questions({"middleware": ["a.b"], "seed": 1}, {"LD_PRELOAD": "x.so"})
    ('--middleware ["a.b"] names code', 'LD_PRELOAD=x.so may name code or a file')
    """
    return (
        *(
            one
            for name, value in arguments.items()
            for one in _of_argument(name, value)
        ),
        *(
            f"{name}={_short(value)} {_MAY_NAME}"
            for name, value in env.items()
            if not _is_safe_variable(name, value)
        ),
    )


def safe_part(name: str, value: object) -> tuple[object, tuple[str, ...]]:
    """Return what of an argument's value links may hold, and the keys that they leave.

    None where nothing is left, or the value is not of the argument's kind.

    >>> safe_part("compilation_config", {"mode": 3, "backend": "a.b"})
    ({'mode': 3}, ('backend',))
    """
    argument = ARGUMENTS[name]
    if argument.kind is not Kind.TABLE:
        return (value, ()) if _is_plain(value) else (None, ())
    if not isinstance(value, Mapping):
        return None, ()
    kept, left = _parted(argument, value)
    return kept if kept or not left else None, tuple(left)


def _parted(
    argument: Argument, table: Mapping[str, Any], path: str = ""
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a table's safe entries, and the others by their dotted names."""
    kept: dict[str, Any] = {}
    left: dict[str, Any] = {}
    for key, value in table.items():
        name = path + str(key).replace("-", "_")
        if "." in str(key):
            left[name] = value
        elif isinstance(value, Mapping) and _has_parts(argument, name):
            inner, others = _parted(argument, value, f"{name}.")
            left |= others
            if inner or not value:
                kept[key] = inner
        elif name in argument.safe_keys and _is_plain(value):
            kept[key] = value
        else:
            left[name] = value
    return kept, left


def _has_parts(argument: Argument, name: str) -> bool:
    return any(key.startswith(f"{name}.") for key in argument.safe_keys)


def _is_plain(value: object) -> bool:
    """Whether a value is a word, a number, a switch, or a list of those."""
    if isinstance(value, list | tuple):
        return not any(isinstance(one, Mapping | list | tuple) for one in value)
    return not isinstance(value, Mapping)


def _of_argument(name: str, value: object) -> Iterator[str]:
    entry = ARGUMENTS.get(name) or SERVER_FLAGS.get(name)
    if entry is None or not value:
        return
    if isinstance(entry, Argument) and entry.safe_keys:
        yield from _of_table(entry, value)
    elif entry.kept_out and not _is_harmless(entry, value):
        yield f"{entry.flag} {_short(value)} {entry.kept_out.partition(':')[0]}"


def _is_harmless(entry: Argument | ServerFlag, value: object) -> bool:
    if isinstance(entry, ServerFlag):
        return False
    return entry.is_data or value in entry.safe_values


def _of_table(argument: Argument, value: object) -> Iterator[str]:
    table = _table(value)
    if table is not None:
        _, left = _parted(argument, table)
        for key, found in left.items():
            yield f"{argument.flag}.{key} {_short(found)} {_MAY_NAME}"
    elif not isinstance(value, int | float):  # -cc 3 is a level of compilation
        yield f"{argument.flag} {_short(value)} {_MAY_NAME}"


def _table(value: object) -> Mapping[str, Any] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, Mapping) else None


def _is_safe_variable(name: str, value: str) -> bool:
    if name in SAFE_VARIABLES:
        return True
    is_known = name in variables() and name not in _OPENS
    return is_known and not _NAMES_SOMETHING.search(name) and bool(_SWITCH.match(value))


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if not text.isprintable():  # a terminal would obey it
        text = ascii(text)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
