"""All that is compared of one release, kept beside the planner's sources."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from planner.engine.releases import number_of
from tools.dry_sweep import rows
from tools.release import sentences, sources
from tools.release.symbols import Citation, Sources

FOLDER = Path(__file__).parent / "recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a release's sources say, and what it answered."""

    release: str
    names: dict[str, list[str]]
    """Of each kind in `sources.NAMES`."""
    values: dict[str, dict[str, str]]
    """Of each kind in `sources.VALUES`."""
    symbols: dict[str, str]
    """The digest of each cited "file::symbol" that it has."""
    sentences: list[str]
    """The planner's wordings that it has."""
    answers: list[dict[str, Any]] = field(default_factory=list)


def of_sources(
    release: str, package: Path, cited: list[Citation], planner: Path
) -> Record:
    """Read a release's package `vllm`."""
    read = Sources(package)
    written = sentences.texts(read)
    return Record(
        release=release,
        names=sources.names(package),
        values=sources.values(package),
        symbols=read.digests(cited),
        sentences=sentences.found_in(
            written, sentences.patterns(), sentences.quoted(planner)
        ),
    )


def keep(record: Record, folder: Path = FOLDER) -> Path:
    """Write a record without its answers, which `answers_of` names."""
    content = asdict(record)
    del content["answers"]
    path = folder / f"{record.release}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=0) + "\n", encoding="utf-8")
    return path


def answers_of(release: str, folder: Path = FOLDER) -> Path:
    """Return the file with a release's answers, one a line."""
    return folder / f"{release}.jsonl"


def last_before(release: str, folder: Path = FOLDER) -> Record:
    """Return the newest record that is older than a release.

    Raises:
        SystemExit: when there is none.
    """
    known = [path.stem for path in folder.glob("*.json")]
    older = [one for one in known if number_of(one) < number_of(release)]
    if not older:
        raise SystemExit(
            f"No release before {release} is recorded in {folder}: record the last "
            "one first, with `python -m tools.release RELEASE --record-only`."
        )
    newest = max(older, key=number_of)
    content = json.loads((folder / f"{newest}.json").read_text(encoding="utf-8"))
    return Record(**content, answers=rows(answers_of(newest, folder)))
