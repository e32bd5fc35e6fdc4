"""Builds planner/data/models.jsonl, the bundled catalogue, from published configs.

    python -m tools.build_catalogue

Reads what `tools/configs.py` keeps: of each model its published config.json (and, where
there are, hf_quant_config.json, preprocessor_config.json and the safetensors index),
from where each one is and whether that is certain. Folders named synthetic--* are test
inputs and stay out. The same files give the same bytes.

A copy that somebody edited for a compiler is not certain, whatever the index says: see
EDITED.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.models.catalogue import can_pack, pack
from tools import configs
from tools.catalogue_keys import DROPPED, DROPPED_PATTERN, KEPT, PREPROCESSOR, WHOLE

DATA = Path(__file__).parent.parent / "planner" / "data" / "models.jsonl"

_NAME_LISTS = frozenset(("exclude_modules", "ignore", "modules_to_not_convert"))
_SHORT = 8
EDITED = ("sophgo/LLM-TPU:", 512)
"""Who edits config.json before compiling a model, and max_position_embeddings then.

That project compiles for a fixed number of tokens, and several of its copies of models
published for 4,096 tokens and more say 512 in place of the published number.
"""
_AS_EDITED = (
    f", a copy edited for a compiler: its max_position_embeddings of {EDITED[1]} is "
    "not the published number"
)


def is_published(row: Mapping[str, Any]) -> bool:
    """Whether a row of the index is a model that somebody published."""
    return not str(row["dir"]).startswith("synthetic--")


def build() -> str:
    """Return the catalogue's text: one line per model, sorted by name."""
    rows = filter(is_published, configs.index())
    chosen = sorted(rows, key=lambda row: str(row["model"]).lower())
    lines = (json.dumps(entry(row), separators=(",", ":")) for row in chosen)
    return "".join(f"{line}\n" for line in lines)


def entry(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return one model's line: who says so first, then the facts."""
    files = configs.files(row["dir"])
    config = files["config.json"]
    is_edited = _is_edited(row["source"], config)
    facts = {
        "id": row["model"],
        "source": row["source"] + (_AS_EDITED if is_edited else ""),
        "certain": row["certain"] and not is_edited,
        "parameters": row.get("hf_params_total"),
        "checkpoint_bytes": _index_total(files),
        "config": _keep(config, row["model"]),
        "hf_quant_config": _pack_names(files.get("hf_quant_config.json")),
        "preprocessor_config": _preprocessor(files.get("preprocessor_config.json")),
    }
    return {key: value for key, value in facts.items() if value not in (None, {})}


def _is_edited(source: str, config: Mapping[str, Any]) -> bool:
    """Whether a source edits what it copies, and did so here."""
    who, length = EDITED
    parts = [config, *(part for part in config.values() if isinstance(part, dict))]
    lengths = [part.get("max_position_embeddings") for part in parts]
    return source.startswith(who) and length in lengths


def _index_total(files: Mapping[str, Any]) -> int | None:
    metadata = files.get("model.safetensors.index.json", {}).get("metadata", {})
    total: int | None = metadata.get("total_size")
    return total


def _keep(value: Any, model: str) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, list):
        return [_keep(item, model) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _pack_names(inner) if key in WHOLE else _keep(inner, model)
        for key, inner in sorted(value.items())
        if _is_kept(key, model)
    }


def _is_kept(key: str, model: str) -> bool:
    if key in KEPT:
        return True
    if key in DROPPED or DROPPED_PATTERN.fullmatch(key):
        return False
    raise SystemExit(
        f"{model}: config.json has the key {key!r}, which tools/catalogue_keys.py "
        "neither keeps nor drops: add it to one of the two."
    )


def _preprocessor(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if not isinstance(value, dict):
        return value
    kept = sorted(PREPROCESSOR.intersection(value))
    return {key: _preprocessor(value[key]) for key in kept}


def _pack_names(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Shorten long lists of modules; a key that ends in braces says it was done."""
    if not isinstance(value, dict):
        return value
    packed: dict[str, Any] = {}
    for key, inner in sorted(value.items()):
        if key in _NAME_LISTS and _is_long(inner):
            packed[f"{key}{{}}"] = pack(inner)
        elif key == "quantized_layers" and _is_long(inner):
            packed[f"{key}{{}}"] = _by_value(inner)
        else:
            packed[key] = _pack_names(inner)
    return packed


def _is_long(names: Any) -> bool:  # noqa: ANN401 - any JSON
    return isinstance(names, list | dict) and len(names) > _SHORT and can_pack(names)


def _by_value(layers: Mapping[str, Any]) -> list[list[Any]]:
    names = defaultdict(list)
    for name, value in layers.items():
        names[json.dumps(value, sort_keys=True)].append(name)
    return [[json.loads(value), pack(names[value])] for value in sorted(names)]


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(__doc__)
    DATA.write_text(build())
