"""Older releases: the planner beside the answers of vLLM's own code.

Each file of tests/data/releases is what one release answered to the cases of
`tools/release/older.jsonl`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.dry_sweep import rows
from tools.release import answers

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests/data/releases"
RELEASES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))
LISTED = [answers.key(case) for case in rows(answers.CASES.with_name("older.jsonl"))]
LEAST = 0.95
"""Share of a release's cases that the planner has to answer alike."""
MOST_REFUSED = 0.25

_NANO = "nvidia/NVIDIA-Nemotron-Nano-9B-v2 on H100 (dry)"
_NO_CLASS = (
    "refused: The checkpoint you are trying to load has model type `nemotron_h` but "
    "Transformers does not recognize this architecture."
)
_NO_PIXTRAL = "refused: cannot import name 'PixtralRotaryEmbedding'"
EAGER = " enforce_eager=true max_model_len=4096"
# Published files name code for their classes, and the copies at hand do not.
_HYBRIDS = {
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 on H100 (meta)": (
        "refused: The repository nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 contains "
        "custom code"
    ),
    _NANO + EAGER: _NO_CLASS,
}

# What the planner misses, by release: the beginning of each difference.
MISSED: dict[str, dict[str, str]] = {
    "0.12.0": _HYBRIDS,
    "0.16.0": {
        **_HYBRIDS,
        # vLLM knows the class, and Transformers of its day not the type.
        "zai-org/GLM-5-FP8 on B200 (meta) tensor_parallel_size=8": (
            "refused: The checkpoint you are trying to load has model type "
            "`glm_moe_dsa` but Transformers does not recognize this architecture."
        ),
    },
    "0.29.0": {
        # Transformers 5 of a few days later, which pip installs with it, lacks a name.
        "llava-hf/llava-1.5-7b-hf on H100 (meta)": _NO_PIXTRAL,
        "mistralai/Mistral-Small-3.2-24B-Instruct-2506 on H100 (meta)": _NO_PIXTRAL,
    },
    "0.33.0": {
        # A few MiB of experts' larger blocks.
        "openai/gpt-oss-20b on H100 (dry)" + EAGER: (
            "peak 2,958,734,848, planned 2,935,881,728"
        ),
    },
}


@pytest.mark.parametrize("release", RELEASES)
def test_every_case_is_answered(release: str) -> None:
    """In the order of the list; starts with their weights and peak, or a refusal."""
    found = rows(FOLDER / f"{release}.jsonl")
    known = {*map(answers.key, found)}
    assert [one for one in LISTED if one in known] == [*map(answers.key, found)]
    refused = [row for row in found if row.get("refused")]
    assert len(refused) <= MOST_REFUSED * len(found)
    for row in found:
        if row["way"] == "meta":
            # Some models need a device while they are built.
            is_built = bool(row.get("weights") or row.get("unbuilt"))
            assert row.get("refused") or (row["resolved"] and is_built)
        else:
            assert row.get("refused") or min(row["weights"], row["peak"]) > 0


@pytest.mark.parametrize("release", RELEASES)
def test_the_planner_answers_as_the_release(release: str) -> None:
    """Settings, weights within a percent, peaks within 0.02 GiB, refusals."""
    found = dict(answers.differing(rows(FOLDER / f"{release}.jsonl"), release))
    known = MISSED.get(release, {})
    assert {*known} == {*found}
    assert all(found[name].startswith(begin) for name, begin in known.items())
    assert len(known) <= (1 - LEAST) * len(rows(FOLDER / f"{release}.jsonl"))


def test_the_page_lists_each_release() -> None:
    """docs/conformance.md: how many cases, how many alike, how many refused."""
    text = (ROOT / "docs/conformance.md").read_text(encoding="utf-8")
    for release in RELEASES:
        found = rows(FOLDER / f"{release}.jsonl")
        alike = len(found) - len(MISSED.get(release, {}))
        refused = sum(bool(row.get("refused")) for row in found)
        share = f"{alike} ({100 * alike / len(found):.1f} %)"
        assert f"| {release} | {len(found)} | {share} | {refused} |" in text
