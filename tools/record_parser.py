"""Record the flags of one release's `vllm serve`, as its own parser has them.

    PYTHONPATH=SOURCES python tools/record_parser.py tests/data/parsers/0.33.0.json

Run it with a Python that can import that release: installed, or its sources on
PYTHONPATH beside the packages it needs. It needs no GPU. A package that is missing and
has nothing to do with flags is stood in for by an empty one, and named in the file.

The tests read the file and rebuild a parser from it (`tests/recorded_parser.py`).
"""

from __future__ import annotations

import argparse
import importlib
import importlib.abc
import importlib.machinery
import json
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

PARSERS = (
    "vllm.entrypoints.common.cli_args",
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.openai.cli_args",
)
FLEXIBLE = ("vllm.utils.argparse_utils", "vllm.utils")
MOST_STAND_INS = 20


class _StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds packages that are not installed, and gives them any attribute."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(
        self, fullname: str, _path: object = None, _target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a module for what was found missing."""
        if fullname.partition(".")[0] not in self.names:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return a module that has every attribute, each a class."""
        module = types.ModuleType(spec.name)
        vars(module)["__getattr__"] = _anything
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Run nothing."""


def _anything(name: str) -> type:
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})


def serve_parser(stand_in: _StandIn) -> argparse.ArgumentParser:
    """Return the parser of `vllm serve`, made by the release itself."""
    platforms = importlib.import_module("vllm.platforms")
    platform = platforms.current_platform
    if not platform.device_type:
        # No GPU here: a default would otherwise be refused before flags are made.
        type(platform).device_type = "cuda"
    flexible = _first(FLEXIBLE, "FlexibleArgumentParser", stand_in)
    make = _first(PARSERS, "make_arg_parser", stand_in)
    parser: argparse.ArgumentParser = make(flexible(prog="vllm serve"))
    return parser


def _first(modules: tuple[str, ...], name: str, stand_in: _StandIn) -> Any:  # noqa: ANN401 - a release's own
    for module in modules:
        try:
            found = _import(module, stand_in)
        except ModuleNotFoundError as error:
            if error.name is None or not module.startswith(error.name):
                raise
            continue
        if hasattr(found, name):
            return getattr(found, name)
    raise SystemExit(f"None of {', '.join(modules)} has {name}.")


def _import(module: str, stand_in: _StandIn) -> types.ModuleType:
    """Import a module; stand in for packages that are not installed."""
    for _ in range(MOST_STAND_INS):
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing in ("", "vllm") or missing in stand_in.names:
                raise
            stand_in.names.add(missing)
            _forget_half_imported()
    raise SystemExit(f"{module} needs more packages than can be stood in for.")


def _forget_half_imported() -> None:
    """Let what failed be imported again; what is whole stays."""
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if name.startswith("vllm.") and getattr(spec, "_initializing", False):
            del sys.modules[name]


def flag(action: argparse.Action, parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Return one flag as plain values."""
    spellings = [
        text for text, known in parser._option_string_actions.items() if known is action
    ]
    kind = _kind(action)
    off = sorted(_negatives(action, spellings)) if kind == "boolean" else []
    found = {
        "flags": [text for text in spellings if text not in off],
        "off": off,
        "dest": action.dest,
        "action": kind,
        "nargs": action.nargs if kind == "store" else None,
        "const": _plain(action.const) if kind == "store" else None,
        "choices": None if action.choices is None else [*map(_plain, action.choices)],
        "type": None if action.type is None else type_name(action.type),
        "default": _plain(action.default),
    }
    return {name: value for name, value in found.items() if value not in (None, [])}


def _kind(action: argparse.Action) -> str:
    if isinstance(action, argparse.BooleanOptionalAction):
        return "boolean"
    name = type(action).__name__
    plain = {
        "_StoreTrueAction": "store_true",
        "_StoreFalseAction": "store_false",
        "_StoreAction": "store",
        "_HelpAction": "help",
        "_AppendAction": "append",
    }
    # A class of the release's own takes one value, whatever else it does with it.
    return plain.get(name, "store")


def _negatives(action: argparse.Action, spellings: list[str]) -> set[str]:
    known = getattr(action, "negative_option_strings", None)
    if known is not None:
        return set(known) & set(spellings)
    return {text for text in spellings if text.startswith("--no-")}


def type_name(reader: Any) -> str:  # noqa: ANN401 - what argparse calls
    """Return what turns a flag's text into a value.

    "optional:" stands for a reader that takes "" and "None" for nothing, "json" for
    any JSON, "json:<class>" for JSON that must fit a configuration class.
    """
    name = getattr(reader, "__name__", type(reader).__name__)
    inner = _closure(reader)
    if name == "_optional_type":
        return f"optional:{type_name(inner['return_type'])}"
    if name == "_parse_type":
        return type_name(inner["return_type"])
    if name == "parse_dataclass":
        return f"json:{reader.__defaults__[0].__name__}"
    if reader is json.loads:
        return "json"
    return str(name)


def _closure(reader: Callable[..., Any]) -> Mapping[str, Any]:
    code = getattr(reader, "__code__", None)
    cells = getattr(reader, "__closure__", None)
    if code is None or cells is None:
        return {}
    return {
        name: cell.cell_contents
        for name, cell in zip(code.co_freevars, cells, strict=True)
    }


def _plain(value: Any) -> Any:  # noqa: ANN401 - a default of any type
    """Return a value that JSON holds; others by the name of their class."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return f"<{type(value).__name__}>"


def record() -> dict[str, Any]:
    """Return every flag of the release that is importable here."""
    stand_in = _StandIn()
    sys.meta_path.append(stand_in)
    version = _import("vllm.version", stand_in).__version__
    parser = serve_parser(stand_in)
    flags = [flag(action, parser) for action in parser._actions]
    fields = _first(("vllm.engine.arg_utils",), "AsyncEngineArgs", stand_in)
    return {
        "vllm": version.partition("+")[0],
        "missing_packages": sorted(stand_in.names),
        "engine_arguments": sorted(fields.__dataclass_fields__),
        "flags": sorted(flags, key=lambda found: found["dest"]),
    }


def main() -> None:
    """Write the record to the file that was named."""
    recorded = record()
    head = json.dumps({k: v for k, v in recorded.items() if k != "flags"}, indent=1)
    rows = ",\n".join("  " + json.dumps(found) for found in recorded["flags"])
    text = f'{head[:-2]},\n "flags": [\n{rows}\n ]\n}}\n'
    Path(sys.argv[1]).write_text(text, encoding="utf-8")
    print(f"vLLM {recorded['vllm']}: {len(recorded['flags'])} flags")


if __name__ == "__main__":
    main()
