"""Models for the catalogue: from a folder, or from the Hub a few at a time.

Each is checked before it is kept: that its config.json has no key which nobody has
judged, that the planner reads it, and that its files say the format that its name says.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planner.data import DATA
from planner.engine.releases.change import RefusedSince
from planner.errors import PlannerError, Refused
from planner.models.families.reading import read
from planner.models.files import ModelFiles
from planner.models.recordings import config_key
from planner.models.sources import hub_lists, hub_models, huggingface
from planner.models.sources.hub_models import HubModel
from tools import configs
from tools.catalogue_keys import DROPPED, DROPPED_PATTERN, KEPT, WHOLE

_AT_ONCE = 4
_SECONDS = 10.0
_MOST_NAMED = 5
_MODULES = "modules.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One model with its files."""

    row: dict[str, Any]
    """Its row of the index."""
    files: dict[str, Any]
    """By name."""
    num_downloads: int | None = None

    @property
    def name(self) -> str:
        """owner/name."""
        return str(self.row["model"])


@dataclass(slots=True, kw_only=True)
class Harvest:
    """What was found, and what was not taken and why."""

    found: list[Found] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def named(model: str) -> dict[str, Any]:
    """Return the row of a model that somebody published."""
    return {"certain": True, "dir": model.replace("/", "--"), "model": model}


def in_folder(folder: Path, source: str) -> Iterator[Found]:
    """Yield the models of a folder of config.json files.

    Raises:
        SystemExit: if nothing says from where they are.
    """
    index = folder / configs.INDEX
    if not index.is_file() and not source:
        raise SystemExit(f"{folder} has no {configs.INDEX}: say --source TEXT.")
    if index.is_file():
        rows = [json.loads(line) for line in index.read_text().splitlines()]
    else:
        rows = [
            {**named(path.parent.name.replace("--", "/", 1)), "source": source}
            for path in sorted(folder.glob("*/config.json"))
        ]
    for row in rows:
        path = folder / row["dir"]
        if (path / _MODULES).is_file() and "modules" not in row:
            listed = json.loads((path / _MODULES).read_text(encoding="utf-8"))
            row["modules"] = _kinds(listed)
        yield Found(row=row, files=configs.read(path))


def on_hub(names: Sequence[str]) -> Harvest:
    """Read models from the Hub, a few at a time.

    One that is gated, missing or no model is left out with the reason.
    """
    harvest = Harvest()
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        for name, got in zip(names, pool.map(_tried, names), strict=True):
            if isinstance(got, Found):
                harvest.found.append(got)
            else:
                harvest.left_out[name] = got
            sys.stderr.write(f"{name}: {'read' if isinstance(got, Found) else got}\n")
    return harvest


def _tried(name: str) -> Found | str:
    try:
        return _from_hub(name)
    except PlannerError as error:
        return str(error)


def _from_hub(name: str) -> Found:
    files = huggingface.fetch(name)
    row = {**named(name), "source": files.source}
    if count := _num_parameters(files):
        row["hf_params_total"] = count
    if files.modules:
        row["modules"] = _kinds(files.modules["modules"])
    listed = _listed(hub_models.by_name(name, _MOST_NAMED))
    use = next((one.num_downloads for one in listed if one.name == name), None)
    return Found(row=row, files=dict(_published(files)), num_downloads=use)


def _kinds(listed: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the classes of a modules.json of sentence-transformers."""
    return [str(module.get("type", "")).rpartition(".")[2] for module in listed]


def releases(names: Iterable[str], count: int) -> list[str]:
    """Return names, each with its most downloaded quantised releases behind it."""
    wanted: dict[str, None] = {}
    for name in names:
        wanted[name] = None
        query = hub_models.quantised_of(name, 4 * count)
        open_ones = (one.name for one in _listed(query) if not one.is_gated)
        wanted |= dict.fromkeys(list(open_ones)[:count])
    return list(wanted)


def _listed(query: hub_models.Query) -> tuple[HubModel, ...]:
    return hub_models.read(hub_lists.models(query, timeout_seconds=_SECONDS))


def _num_parameters(files: ModelFiles) -> int | None:
    """Return the publisher's count, or that of the tensors where none is packed."""
    by_dtype = files.num_parameters_by_dtype
    if files.num_parameters or not set(by_dtype) <= {"BF16", "F16", "F32"}:
        return files.num_parameters
    return sum(by_dtype.values())


def _published(files: ModelFiles) -> Iterator[tuple[str, Any]]:
    yield "config.json", files.config
    if files.hf_quant_config:
        yield "hf_quant_config.json", files.hf_quant_config
    if files.preprocessor_config:
        yield "preprocessor_config.json", files.preprocessor_config
    if files.checkpoint_bytes:
        total = {"metadata": {"total_size": files.checkpoint_bytes}}
        yield "model.safetensors.index.json", total


def checked(found: Iterable[Found]) -> Harvest:
    """Take the models that can be bundled, and say of the others why not."""
    harvest = Harvest()
    for one in found:
        why = next(filter(None, (check(one) for check in _CHECKS)), "")
        if why:
            harvest.left_out[one.name] = why
        else:
            harvest.found.append(one)
    return harvest


def is_recorded(config: Mapping[str, Any]) -> bool:
    """Whether a bundled recording answers for a config.json, which it must equal."""
    return (DATA / "recordings" / f"{config_key(config)}.json").is_file()


def _unknown_keys(one: Found) -> str:
    config = one.files.get("config.json", {})
    names = [] if is_recorded(config) else sorted(set(_unjudged(config)))
    if not names:
        return ""
    shown = ", ".join(map(repr, names[:_MOST_NAMED]))
    more = " and more" if names[_MOST_NAMED:] else ""
    return (
        f"config.json has the keys {shown}{more}, which tools/catalogue_keys.py "
        "neither keeps nor drops: add each to one of the two."
    )


def _unjudged(value: object) -> Iterator[str]:
    """Yield the keys that are neither kept nor dropped, at any depth."""
    if isinstance(value, list):
        for item in value:
            yield from _unjudged(item)
    if not isinstance(value, Mapping):
        return
    for key, inner in value.items():
        if key in KEPT:
            if key not in WHOLE:
                yield from _unjudged(inner)
        elif key not in DROPPED and not DROPPED_PATTERN.fullmatch(key):
            yield key


def _unread(one: Found) -> str:
    """Say why the planner does not read a model; empty where it does."""
    if "config.json" not in one.files:
        return "it has no config.json"
    files = ModelFiles(
        name=one.name,
        config=one.files["config.json"],
        hf_quant_config=one.files.get("hf_quant_config.json"),
    )
    try:
        model = read(files, trust_remote_code=True)
    except RefusedSince:  # older releases serve it
        return ""
    except (PlannerError, Refused) as error:
        return str(error)
    said = "" if "mended" in one.row else hub_models.format_of(one.name)
    if said and model.quantization is None:
        return f"its name says {said}, and its files say no quantization"
    return ""


_CHECKS: tuple[Callable[[Found], str], ...] = (_unknown_keys, _unread)
