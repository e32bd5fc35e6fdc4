"""The bundled models: facts of published config files, for use without a network.

`planner/data/models.jsonl` holds one model per line: its name, where the facts come
from, whether that is certain, and what of its config.json bears on memory
(`tools/build_catalogue.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from planner.model_files import ModelFiles
from planner.module_names import unpack
from planner.ranking import Named, rank

_DATA = Path(__file__).parent / "data" / "models.jsonl"
_NEAR = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One bundled model, as a list shows it."""

    name: str
    """Such as meta-llama/Llama-3.1-8B-Instruct."""
    num_parameters: int | None
    """As the publisher counts them; None when not known."""
    is_certain: bool
    """False when the facts are a reconstruction rather than the published file."""
    source: str


def entries() -> tuple[Entry, ...]:
    """Return every bundled model, sorted by name."""
    return tuple(entry for entry, _ in _models().values())


def configs() -> tuple[tuple[Entry, Mapping[str, Any]], ...]:
    """Return every bundled model with its config.json as the file keeps it."""
    return tuple((entry, row["config"]) for entry, row in _models().values())


def find(text: str) -> ModelFiles | None:
    """Return the model of this name, or None.

    The name may differ in case, and its organisation may be left out where that leaves
    no doubt. The same name gives the same object.
    """
    name = _names().get(text) or _names().get(text.lower())
    return _files(name) if name else None


def search(text: str, limit: int = 20) -> tuple[Entry, ...]:
    """Return models whose names hold these words, best first, as one types."""
    found = rank(text, _search_index())
    return tuple(_models()[name][0] for name in found[:limit])


def nearest(text: str, limit: int = 3) -> tuple[str, ...]:
    """Return the names most like a name that was not found."""
    import difflib  # noqa: PLC0415 - only a misspelt name needs it

    wanted = text.lower()
    key = str.lower if "/" in wanted else _model_part
    by_key = {key(name): name for name in reversed(tuple(_models()))}
    near = difflib.get_close_matches(wanted, by_key, n=limit, cutoff=_NEAR)
    return tuple(by_key[match] for match in near)


def entry_line(entry: Entry) -> str:
    """Write an entry as one line of a list.

    >>> entry_line(
    ...     Entry(name="org/m", num_parameters=8 * 10**9, is_certain=True, source="")
    ... )
    'org/m                                                        8.0 B  published'
    """
    count = entry.num_parameters
    size = "" if count is None else f"{count / 10**9:,.1f} B"
    basis = "published" if entry.is_certain else "reconstructed"
    return f"{entry.name:55} {size:>10}  {basis}"


def entry_dict(entry: Entry) -> dict[str, Any]:
    """Return an entry for JSON."""
    return asdict(entry)


def _model_part(name: str) -> str:
    return name.rpartition("/")[2].lower()


@cache
def _models() -> Mapping[str, tuple[Entry, Mapping[str, Any]]]:
    rows = map(json.loads, _DATA.read_text("utf-8").splitlines())
    return {row["id"]: (_entry(row), row) for row in rows}


def _entry(row: Mapping[str, Any]) -> Entry:
    return Entry(
        name=row["id"],
        num_parameters=row.get("parameters"),
        is_certain=row["certain"],
        source=row["source"],
    )


@cache
def _names() -> Mapping[str, str]:
    """Every way to write a bundled name that leaves no doubt."""
    short: dict[str, str | None] = {}
    for name in _models():
        part = _model_part(name)
        short[part] = None if part in short else name
    names = {part: name for part, name in short.items() if name}
    names.update((name.lower(), name) for name in _models())
    names.update((name, name) for name in _models())
    return names


@cache
def _files(name: str) -> ModelFiles:
    _, row = _models()[name]
    return ModelFiles(
        name=name,
        config=_with_names(row["config"]),
        hf_quant_config=_with_names(row.get("hf_quant_config")),
        preprocessor_config=row.get("preprocessor_config"),
        num_parameters=row.get("parameters"),
        checkpoint_bytes=row.get("checkpoint_bytes"),
        source=f"bundled catalogue: {row['source']}",
        is_certain=row["certain"],
    )


def _with_names(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Write out the lists of modules that the file keeps as patterns."""
    if not isinstance(value, dict):
        return value
    return dict(_item(key, inner) for key, inner in value.items())


def _item(key: str, value: Any) -> tuple[str, Any]:  # noqa: ANN401 - any JSON
    if key == "quantized_layers{}":
        return key[:-2], _layers(value)
    if key.endswith("{}"):
        return key[:-2], unpack(value)
    return key, _with_names(value)


def _layers(packed: Iterable[tuple[Any, list[str]]]) -> dict[str, Any]:
    return {name: value for value, patterns in packed for name in unpack(patterns)}


@cache
def _search_index() -> tuple[Named, ...]:
    return tuple(map(Named.of, _models()))
