"""Architectures of vLLM 0.33.0's registry, beside what its own code answered.

`tests/data/registry*.jsonl.xz` hold answers for configs of the classes' own defaults;
the tests on `../shared` hold more, and are skipped where that folder is not.
"""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.errors import UnknownArchitecture
from planner.models.families import supported_architectures
from planner.models.families.refused import vllm_architectures
from tools import answers, configs

_DATA = Path(__file__).parent.parent / "data"
_UNSEEN = Path(__file__).parents[3] / "shared" / "oracle" / "unseen"
_DRAFTS = (
    *("MTP", "Eagle", "DFlash", "DSpark", "Peagle", "PEagle", "Assistant", "XPress"),
    *("LiLiCorr", "ExtractHiddenStates"),
)


def _read() -> list[dict[str, Any]]:
    files = sorted(_DATA.glob("registry*.jsonl.xz"))
    texts = [lzma.decompress(file.read_bytes()).decode() for file in files]
    return [json.loads(line) for text in texts for line in text.splitlines()]


_RECORDED = _read()


@pytest.mark.parametrize("row", _RECORDED, ids=lambda row: row["model"])
def test_vllms_answer_is_met(
    row: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lengths, weights of each rank, KV cache groups, blocks and tokens."""
    own = {"config.json": row["config"]} if row["config"] else {}
    for name, content in {**own, **row.get("files", {})}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setattr(configs, "folder", _always(tmp_path))

    wrong = {
        json.dumps(case["engine_args"]): answers.differences({**row, **case})
        for case in row["cases"]
    }

    assert {arguments: [] for arguments in wrong} == wrong


def _always(folder: Path) -> Callable[[str], Path]:
    return lambda _name: folder


@pytest.mark.skipif(not _UNSEEN.is_dir(), reason="../shared/oracle/unseen is not here")
def test_nine_in_ten_unseen_answers_are_met_and_none_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the planner does not read it says; what it reads is vLLM's."""
    monkeypatch.setattr(configs, "folder", lambda name: _UNSEEN / "configs" / name)
    text = gzip.decompress((_UNSEEN / "vllm-0.33.0-unseen.jsonl.gz").read_bytes())
    cases = [json.loads(line) for line in text.decode().splitlines()]
    wrong, unread = {}, 0
    for case in cases:
        try:
            differing = answers.differences(case)
        except UnknownArchitecture:
            unread += 1
            continue
        if set(differing) - {answers.BEFORE_LOADING}:
            wrong[case["id"]] = differing

    assert {} == wrong
    assert len(cases) - unread >= 0.9 * len(cases)


def test_most_of_the_registry_is_read() -> None:
    """Of the names that are neither drafts nor the Transformers backend's own."""
    read = set(supported_architectures())
    names = [
        name
        for name in vllm_architectures()
        if not name.startswith("Transformers")
        and not any(word in name for word in _DRAFTS)
    ]

    assert sum(name in read for name in names) >= 0.8 * len(names)
