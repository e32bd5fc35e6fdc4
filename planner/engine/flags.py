"""Engine arguments as a release's `vllm serve` or `LLM` class accepts them.

`tools/record_parser.py` recorded each release's parser; the tests parse every command
line again with these records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from planner.engine.arguments import ARGUMENTS, PLANNER_ONLY, Argument
from planner.engine.releases import NEWEST_RELEASE, Release
from planner.engine.releases.change import Change, recorded
from planner.engine.server import SERVER_FLAGS
from planner.units import parse_size

_SECRET = "hf_token"
"""Never written to a command line, which ends up in logs: vLLM also reads HF_TOKEN."""

_SIZES_OWN_FLAGS = Change(
    since=(0, 11, 1),
    what=(
        "CUDA graph sizes have flags of their own: cudagraph_capture_sizes and "
        "max_cudagraph_capture_size."
    ),
)


def flags(
    arguments: Mapping[str, object], release: Release = NEWEST_RELEASE
) -> list[str]:
    """Return arguments as words of a release's command line.

    None means not given. A Hub token is left out: vLLM also reads HF_TOKEN.

    >>> flags({"max_model_len": 4096, "enforce_eager": True})
    ['--max-model-len', '4096', '--enforce-eager']

    Source: vLLM 0.33.0 `engine/arg_utils.py` EngineArgs.add_cli_args,
    `utils/argparse_utils.py` FlexibleArgumentParser; of older releases likewise.
    """
    words: list[str] = []
    for name, value in for_release(arguments, release).items():
        words += _flag(name, value)
    return words


def python_values(
    arguments: Mapping[str, object], release: Release = NEWEST_RELEASE
) -> dict[str, Any]:
    """Return arguments as a release's `LLM` class accepts them: values, not strings.

    Flags of the server are left out.

    >>> python_values({"max_model_len": "auto", "kv_cache_memory_bytes": "1GiB"})
    {'max_model_len': -1, 'kv_cache_memory_bytes': 1073741824}

    Source: vLLM 0.33.0 `entrypoints/llm.py` LLM, `engine/arg_utils.py` EngineArgs.
    """
    return {
        name: _python_value(name, value)
        for name, value in for_release(arguments, release).items()
        if not _is_of_server(name)
    }


def _is_of_server(name: str) -> bool:
    if name in ARGUMENTS:
        return ARGUMENTS[name].server_only
    return name in SERVER_FLAGS and not SERVER_FLAGS[name].of_engine


def _python_value(name: str, value: object) -> object:
    if name == "max_model_len" and value == "auto":
        return -1
    if name == "kv_cache_memory_bytes" and isinstance(value, str):
        return parse_size(value)
    return [value] if name == "cuda_graph_sizes" else value


def for_release(arguments: Mapping[str, object], release: Release) -> dict[str, object]:
    """Return arguments by their names in a release, without those that are None."""
    given = {
        name: value
        for name, value in arguments.items()
        if value is not None and name not in PLANNER_ONLY and _has(release, name)
    }
    sizes = given.get("cudagraph_capture_sizes")
    if sizes is not None and (not sizes or not release.has(_SIZES_OWN_FLAGS)):
        # A flag for several words needs at least one: an empty list is given as JSON.
        del given["cudagraph_capture_sizes"]
        given["compilation_config"] = {
            **_mapping(given.get("compilation_config")),
            "cudagraph_capture_sizes": _items(sizes),
        }
    if not release.has(_SIZES_OWN_FLAGS) and "max_cudagraph_capture_size" in given:
        given["cuda_graph_sizes"] = given.pop("max_cudagraph_capture_size")
    return given


def _has(release: Release, name: str) -> bool:
    """Return whether a release has a flag of the server; others are checked before."""
    flag = SERVER_FLAGS.get(name)
    if flag is None or name in ARGUMENTS:
        return True
    return release.has(_served(name))


@cache
def _served(name: str) -> Change:
    """Return when `vllm serve` has one of the server's flags."""
    flag = SERVER_FLAGS[name]
    return recorded(
        f"`vllm serve` has the flag {flag.flag}.",
        since=flag.since,
        until=flag.gone,
        source="planner/data/server_flags.json",
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _items(value: object) -> list[Any]:
    return list(value) if isinstance(value, Iterable) else []


def _flag(name: str, value: object) -> list[str]:
    flag = "--" + name.replace("_", "-")
    argument = ARGUMENTS.get(name)
    has_flag = argument is None or argument.has_flag
    if not has_flag or (name == _SECRET and not isinstance(value, bool)):
        return []
    if argument is None and name in SERVER_FLAGS:
        return _of_server(flag, value)
    if isinstance(value, bool):
        has_off = name != _SECRET and (argument is None or not argument.only_on)
        return _switch(flag, is_on=value, has_off=has_off)
    if isinstance(value, list | tuple | set | frozenset):
        values = sorted(value) if isinstance(value, set) else value
        return _list(argument, flag, values)
    return _with_value(flag, _text(name, value))


def _of_server(flag: str, value: object) -> list[str]:
    if isinstance(value, bool):
        return [flag] if value else []
    if isinstance(value, list | tuple):
        words = [str(item) for item in value]
        return [*_with_value(flag, words[0]), *words[1:]] if words else []
    return _with_value(flag, _text(flag, value))


def _switch(flag: str, *, is_on: bool, has_off: bool) -> list[str]:
    if is_on:
        return [flag]
    return ["--no-" + flag.removeprefix("--")] if has_off else []


def _list(argument: Argument | None, flag: str, values: Iterable[object]) -> list[str]:
    if argument is not None and argument.joined:
        return [flag, ",".join(map(str, values))]
    if argument is None or not argument.is_list:
        return [flag, json.dumps(plain(list(values)))]
    words = list(map(str, values))
    if not words:
        return []
    return [*_with_value(flag, words[0]), *words[1:]]


def _with_value(flag: str, text: str) -> list[str]:
    """Join a value that looks like a flag to its flag with an equals sign."""
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]


def _text(name: str, value: object) -> str:
    if isinstance(value, Mapping):
        return json.dumps(plain(value))
    if name == "kv_cache_memory_bytes" and isinstance(value, str):
        return str(parse_size(value))
    return str(value)


def plain(value: object) -> object:
    """Return mappings, lists and sets of any type as JSON has them, others as text.

    >>> plain({1: ("b", {"d", "c"})})
    {'1': ['b', ['c', 'd']]}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value), key=str)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    is_plain = value is None or isinstance(value, str | int | float)
    return value if is_plain else str(value)
