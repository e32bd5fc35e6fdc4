"""The newest release is written once, in `planner/engine/releases/__init__.py`."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

import planner
from planner.engine.releases import MODELLED, NEWEST, NEWEST_ON, known
from tools.release.following import FOLLOWING, followed, named

_HERE = "planner/engine/releases/__init__.py"
_VERSION = re.compile(rf"\b{re.escape(NEWEST)}\b")

# What vLLM said of one release itself; it stays when another is the newest.
ABOUT = {
    "planner/learn/debugging.py",
    "planner/models/drafts/dflash.py",
    "planner/models/drafts/head_shapes.py",
    "planner/models/quantization/methods.py",
    "tools/recipes_page.py",
}


def _literals(path: Path) -> Iterator[str]:
    """Yield strings of a file that name the newest release.

    Docstrings and what a `Change` says of the release it is about do not count.
    """
    text = path.read_text(encoding="utf-8")
    if not _VERSION.search(text):
        return
    tree = ast.parse(text)
    texts = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for call in ast.walk(tree):
        if isinstance(call, ast.Call):
            is_change = ast.unparse(call.func) == "Change"
            texts |= {
                id(keyword.value)
                for keyword in call.keywords
                if is_change or keyword.arg == "source"
            }
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and id(node) not in texts and _VERSION.search(value):
            yield value


def _count(root: Path, folders: tuple[str, ...]) -> Counter[str]:
    return Counter(
        path.relative_to(root).as_posix()
        for folder in folders
        for path in sorted((root / folder).rglob("*.py"))
        if path.relative_to(root).as_posix() not in FOLLOWING
        if not {"fake_vllm", "data"} & {*path.relative_to(root / folder).parts}
        for _one in _literals(path)
    )


def test_code_and_tools_name_the_newest_release_once(root: Path) -> None:
    """All else reads NEWEST."""
    found = _count(root, ("planner", "tools", "benchmarks"))
    assert found.pop(_HERE) == 1
    assert set() == {*found} - ABOUT


def test_pages_and_stand_ins_follow_it(root: Path) -> None:
    """Output, images and commands that are not about an older release."""
    assert {NEWEST} == {release for _path, release in named(root)}
    assert {*FOLLOWING} == {path for path, _release in named(root)}


def test_a_page_is_made_to_follow() -> None:
    """Only where the newest is meant."""
    text = "pip install vllm==0.1.0\nSource: vLLM 0.1.0\n(vLLM 0.1.0) for 1 request\n"
    after = followed(text, FOLLOWING["docs/solve.md"], "0.2.0")
    assert after == (
        "pip install vllm==0.2.0\nSource: vLLM 0.1.0\n(vLLM 0.2.0) for 1 request\n"
    )


@pytest.mark.parametrize("release", ["0.99.0", "1.2.3"])
def test_a_newer_release_is_planned_by_the_newest_rules_with_a_note(
    release: str,
) -> None:
    """The same figures to the byte."""
    newer = planner.plan("Qwen/Qwen3-8B", gpu="L4", vllm_version=release)
    newest = planner.plan("Qwen/Qwen3-8B", gpu="L4", vllm_version=MODELLED[0])
    assert newest.kv_cache_size_tokens == newer.kv_cache_size_tokens > 0
    assert any(release in note and NEWEST in note for note in newer.notes)


def test_an_upgrade_to_a_newer_release_says_so() -> None:
    """Nothing changes after the newest, and the plan has the note."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="L4", vllm_version=NEWEST)
    found = planner.upgrade(plan, to="0.99.0")
    assert found.after is not None
    assert plan.kv_cache_size_tokens == found.after.kv_cache_size_tokens
    assert any("0.99.0" in note and NEWEST in note for note in found.after.notes)
    assert f"newer than the planner: planned with the rules of {NEWEST}." in str(found)
    assert f"meets changed up to {NEWEST}. What 0.99.0 changes is not known" in str(
        found
    )
    assert f"0.99.0 by the rules of {NEWEST}" in str(found)


def test_the_newest_release_has_an_age() -> None:
    """Once a newer one may be out, the sentence says what becomes of it."""
    day = date.fromisoformat(NEWEST_ON)
    after = [known(str(day + timedelta(days=days))) for days in (7, 60)]
    assert after[0].endswith(f"vLLM {NEWEST} of {NEWEST_ON}, 7 days old.")
    assert "60 days old. A newer one may be out" in after[1]
    assert f"planned with the rules of {NEWEST}" in after[1]
