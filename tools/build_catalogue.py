"""Builds planner/data/models.jsonl, the bundled catalogue, from published configs.

    python -m tools.build_catalogue
    python -m tools.build_catalogue FOLDER --source TEXT
    python -m tools.build_catalogue owner/name ... [--releases COUNT]
    python -m tools.build_catalogue @LIST [--releases COUNT]

The first builds from what `tools/configs.py` keeps. The others keep more of it before:
FOLDER holds a folder with a config.json for each model, named owner--name (with an
INDEX.jsonl as `tools/configs.py` writes it, or with the TEXT that says from where they
are); names are read from the Hub through huggingface_hub, a few at a time, with their
side files, number of parameters, bytes and downloads; LIST is a file with a name on
each line (after a # comments); COUNT adds the most downloaded quantised releases of
each. A model that is kept already is not read again and stays as it is, because
recorded answers belong to its files, so the same command can be repeated. What cannot
be bundled (gated, missing, an unknown key of config.json, no reader) is left out, named
at the end with the reason, and makes the exit status 1; the others are added.

What is kept: of each model its published config.json (and, where there are,
hf_quant_config.json, preprocessor_config.json and the safetensors index), from where
each one is and whether that is certain (INDEX.jsonl); models that are known by the
config.json of another (RELATIVES.jsonl); how much each is used (POPULARITY.json).
Folders named synthetic--* are test inputs and stay out. The same files give the same
bytes. `python -m tools.check_catalogue` holds the result to what others publish.

A copy that somebody edited for a compiler is not certain, whatever the index says: see
EDITED. Where a copy leaves something out that is published, the index says what it is
(`mended`); where it cannot be said, the model stays out (`left_out`, with the reason).
Of a release of sentence-transformers the index says which `modules` it has.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from planner.models.files import merged
from planner.models.module_names import can_pack, pack
from tools import catalogue_found, configs
from tools.catalogue_found import Found, is_recorded
from tools.catalogue_keys import DROPPED, DROPPED_PATTERN, KEPT, PREPROCESSOR, WHOLE

DATA = Path(__file__).parent.parent / "planner" / "data" / "models.jsonl"

_NAME_LISTS = frozenset(("exclude_modules", "ignore", "modules_to_not_convert"))
_SHORT = 8
_LENGTHS = ("max_position_embeddings", "seq_length")
EDITED = ("sophgo/LLM-TPU:", 512)
"""Who edits config.json before compiling a model, and the model's length then.

That project compiles for a fixed number of tokens, and several of its copies of models
published for 4,096 tokens and more say 512 in place of the published number.
"""
_AS_EDITED = (
    f", a copy edited for a compiler: its length of {EDITED[1]} is not the published "
    "one"
)


def is_published(row: Mapping[str, Any]) -> bool:
    """Whether a row of the index is a model that somebody published."""
    return not str(row["dir"]).startswith("synthetic--")


def is_bundled(row: Mapping[str, Any]) -> bool:
    """Whether a row of the index is in the catalogue."""
    return is_published(row) and "left_out" not in row


def build() -> str:
    """Return the catalogue's text: one line per model, sorted by name."""
    own = [entry(row) for row in filter(is_bundled, configs.index())]
    lines = [*own, *map(_relative, configs.relatives())]
    chosen = sorted(lines, key=lambda line: str(line["id"]).lower())
    return "".join(
        json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n"
        for line in chosen
    )


def entry(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return one model's line: what a list shows first, then the facts."""
    files = configs.files(row["dir"])
    mended = row.get("mended", {})
    config = merged(files["config.json"], mended.get("changes", {}))
    is_edited = _is_edited(row["source"], config)
    source = row["source"] + (_AS_EDITED if is_edited else "")
    if mended:
        source += f"; {mended['source']}"
    return _line(
        id=row["model"],
        source=source,
        certain=row["certain"] and not is_edited and not mended,
        shape_of=row.get("like"),
        parameters=row.get("hf_params_total"),
        **_use(row["model"]),
        checkpoint_bytes=_index_total(files),
        modules=row.get("modules"),
        config=config if is_recorded(config) else _keep(config, row["model"]),
        hf_quant_config=_pack_names(files.get("hf_quant_config.json")),
        preprocessor_config=_preprocessor(files.get("preprocessor_config.json")),
    )


def _relative(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the line of a model that is known by another's config.json."""
    is_rebuilt = row.get("kind") == "reconstructed"
    return _line(
        id=row["model"],
        source=row["source"],
        certain=False,
        shape_of=None if is_rebuilt else row["like"],
        parameters=row.get("parameters"),
        **_use(row["model"]),
        like=row["like"],
        modules=row.get("modules"),
        changes=row.get("changes"),
        hf_quant_config=row.get("hf_quant_config"),
    )


def _line(**facts: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    return {key: value for key, value in facts.items() if value not in (None, {})}


def _use(model: str) -> dict[str, Any]:
    """Return how much a model is used; `recipe` only where it is so."""
    known = configs.popularity()
    is_in_recipes = True if model in known["recipes"] else None
    return {"downloads": known["downloads"].get(model), "recipe": is_in_recipes}


def _is_edited(source: str, config: Mapping[str, Any]) -> bool:
    """Whether a source edits what it copies, and did so here."""
    who, length = EDITED
    parts = [config, *(part for part in config.values() if isinstance(part, dict))]
    lengths = [part.get(name) for part in parts for name in _LENGTHS]
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


def add(found: Iterable[Found]) -> tuple[str, ...]:
    """Keep the files of models, and return the names of those that are new."""
    known = known_folders()
    new = [one for one in found if one.row["dir"] not in known]
    if not new:
        return ()
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder)
        configs.unpack(kept)
        index = kept / configs.INDEX
        for one in new:
            configs.write(kept / one.row["dir"], one.files)
        rows = "".join(json.dumps(one.row) + "\n" for one in new)
        index.write_text(index.read_text() + rows)
        configs.pack(kept)
    names = tuple(one.name for one in new)
    configs.forget_relatives(names)
    used = {one.name: one.num_downloads for one in new if one.num_downloads}
    configs.note_downloads(used)
    return names


def known_folders() -> frozenset[str]:
    """Return the folders of the models that are kept already."""
    return frozenset(str(row["dir"]) for row in configs.index())


def _asked(texts: Iterable[str]) -> Iterator[str]:
    """Yield names, those in lists too."""
    for text in texts:
        if not text.startswith("@"):
            yield text
            continue
        for line in Path(text[1:]).read_text(encoding="utf-8").splitlines():
            yield from line.partition("#")[0].split()


def main(arguments: list[str]) -> None:
    """Add what is asked for, and build.

    Raises:
        SystemExit: for something else than a folder, a name or a list; and, once
            everything else was added, where a model was left out.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="FOLDER|owner/name|@LIST")
    parser.add_argument("--source", default="", help="from where a folder's files are")
    parser.add_argument(
        "--releases",
        type=int,
        default=0,
        metavar="COUNT",
        help="quantised releases of each name to add, the most downloaded",
    )
    options = parser.parse_args(arguments)
    folders, names = [], []
    for text in _asked(options.models):
        if Path(text).is_dir():
            folders.append(Path(text))
        elif re.fullmatch(r"[\w.-]+/[\w.-]+", text):
            names.append(text)
        else:
            raise SystemExit(f"{text!r} is neither a folder nor owner/name.")
    left_out: dict[str, str] = {}
    for folder in folders:
        left_out |= _take(catalogue_found.in_folder(folder, options.source))
    left_out |= _take_of_hub(names, options.releases)
    DATA.write_text(build(), encoding="utf-8")
    if left_out:
        lines = "\n".join(f"  {name}: {why}" for name, why in left_out.items())
        raise SystemExit(f"{len(left_out)} left out:\n{lines}")


def _take(found: Iterable[Found]) -> dict[str, str]:
    """Keep the models that can be bundled; return the others with the reason."""
    known = known_folders()
    harvest = catalogue_found.checked(
        one for one in found if one.row["dir"] not in known
    )
    names = add(harvest.found)
    sys.stdout.write(f"{len(names)} added{': ' if names else ''}{', '.join(names)}\n")
    return harvest.left_out


def _take_of_hub(names: Sequence[str], count: int) -> dict[str, str]:
    if not names:
        return {}
    wanted = catalogue_found.releases(names, count) if count else names
    known = known_folders()
    new = [name for name in wanted if name.replace("/", "--") not in known]
    harvest = catalogue_found.on_hub(new)
    return harvest.left_out | _take(harvest.found)


if __name__ == "__main__":
    main(sys.argv[1:])
