"""The newest release is written once, in `planner/engine/releases/__init__.py`."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import planner
from planner.engine.releases import MODELLED, NEWEST
from tools.release.following import FOLLOWING, followed, named

_HERE = "planner/engine/releases/__init__.py"
_VERSION = re.compile(rf"\b{re.escape(NEWEST)}\b")

# What vLLM said of this release itself.
ABOUT_IN_CODE = {
    "0.33.0": {
        "planner/models/drafts/dflash.py": 1,
        "planner/models/quantization/methods.py": 1,
        "tools/recipes_page.py": 1,
    }
}

# Tests about 0.33 in particular: a boundary of it, what was recorded of it, or a text
# that names it. When another release is the newest, this list begins empty again.
ABOUT = {
    "0.33.0": {
        "tests/app/test_feature_controls.py": 3,
        "tests/app/test_run_panel.py": 3,
        "tests/confirming/test_log_setting.py": 2,
        "tests/confirming/test_run.py": 1,
        "tests/engine/test_environment_variables.py": 2,
        "tests/export/test_export_kubernetes.py": 1,
        "tests/export/test_export_link.py": 1,
        "tests/export/test_export_python.py": 1,
        "tests/export/texts/test_container.py": 2,
        "tests/export/texts/test_explaining.py": 1,
        "tests/export/texts/test_running.py": 4,
        "tests/memory/test_attention_backend.py": 1,
        "tests/memory/test_compilation_recorded.py": 1,
        "tests/memory/test_compiling.py": 4,
        "tests/memory/test_encoder.py": 2,
        "tests/memory/test_expert_workspace.py": 1,
        "tests/memory/test_latent_context.py": 1,
        "tests/memory/test_lora.py": 2,
        "tests/memory/test_multimodal_oracle.py": 1,
        "tests/memory/test_non_torch.py": 5,
        "tests/memory/test_sampler.py": 2,
        "tests/memory/test_shared_lines.py": 1,
        "tests/models/test_medusa.py": 1,
        "tests/models/test_older.py": 2,
        "tests/models/test_quantization_inc.py": 1,
        "tests/models/test_recorded.py": 2,
        "tests/models/test_registry_answers.py": 1,
        "tests/models/test_speculating.py": 2,
        "tests/planning/test_cpu_build.py": 4,
        "tests/planning/test_defaults.py": 4,
        "tests/planning/test_dtypes.py": 1,
        "tests/release/test_report.py": 3,
        "tests/release/test_sources.py": 1,
        "tests/show/test_certainty.py": 1,
        "tests/show/test_panels.py": 1,
        "tests/solve/test_advice_makers.py": 1,
        "tests/solve/test_sweep.py": 1,
        "tests/solve/test_upgrading.py": 12,
        "tests/test_docs_site.py": 2,
        "tests/test_dry_corpus.py": 2,
        "tests/test_dry_rows.py": 6,
        "tests/test_measure.py": 1,
        "tests/test_newest_release.py": 2,
        "tests/test_questions.py": 1,
    }
}


def _literals(path: Path) -> Iterator[str]:
    """Yield strings of a file that name the newest release; no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
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
    assert {_HERE: 1} | ABOUT_IN_CODE.get(NEWEST, {}) == dict(found)


def test_a_test_names_it_only_where_it_is_about_that_release(root: Path) -> None:
    """Use NEWEST, or, for a test about this release, change the count in ABOUT."""
    assert ABOUT.get(NEWEST, {}) == dict(_count(root, ("tests",)))


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
