"""What a release's sources list, and what the planner cites of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.confirming.log.sentences import compiled
from tests.release.wheels import NEW, OLD, package
from tools.release import sentences, sources
from tools.release.symbols import Citation, Sources, citations


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Return the package of the older release."""
    return package(tmp_path / "old", OLD)


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """Return the package of the newer release."""
    return package(tmp_path / "new", NEW)


def test_names_are_read_of_every_kind(old: Path, new: Path) -> None:
    """Architectures in the registry's order, which refusals list."""
    listed = old.parent / "vllm-0.98.0.dist-info" / "METADATA"
    listed.parent.mkdir()
    needs = (
        "torch==2.14.0",
        "nvidia-nccl-cu13==2.28; a == 'b'",
        "regex",
        "torchvision",
    )
    lines = (f"Requires-Dist: {one}" for one in needs)
    listed.write_text("\n".join(["Name: vllm", *lines]), encoding="utf-8")
    assert {
        "architectures": ["LlamaForCausalLM", "OldForCausalLM"],
        "arguments": ["max_model_len", "swap_space"],
        "kv_cache_dtypes": ["auto", "fp8"],
        "quantization": ["awq", "fp8"],
        "variables": ["VLLM_KEPT", "VLLM_GONE"],
        "backends": ["FLASH_ATTN"],
        "requirements": ["torch==2.14.0", "nvidia-nccl-cu13==2.28"],
        "dropped_architectures": [],
    } == sources.names(old)
    assert ["OldForCausalLM (last in 0.1.0)"] == sources.names(new)[
        "dropped_architectures"
    ]


def test_defaults_are_read_with_their_conditions(old: Path) -> None:
    """Of a configuration class, and of the GPU."""
    values = sources.values(old)
    assert {"CacheConfig.gpu_memory_utilization": "0.9"} == values["config_defaults"]
    assert {
        "default_max_num_seqs if (memory >= 70)": "{'server': 1024}",
        "default_max_num_seqs if not (memory >= 70)": "{'server': 256}",
    } == values["batch_defaults"]


def test_a_citation_is_a_file_a_symbol_or_both(tmp_path: Path) -> None:
    """With the rule that rests on it; other projects are left out."""
    planner = tmp_path / "planner"
    planner.mkdir()
    (planner / "rule.py").write_text(
        '''"""A module.

Source: vLLM 0.33.0 `envs.py`.
"""
_LIMITS = (0, 14)
"""What changed.

Source: vLLM 0.14.0 `config/cache.py` CacheConfig.room; Ray 2.60 `core.py` Placement.
"""

def rule():
    """Do.

    Source: vLLM 0.33.0 `v1/worker/gpu_worker.py` request_memory, and
    `llama.py`.
    """
''',
        encoding="utf-8",
    )
    assert [
        ("envs.py", "", "planner/rule.py"),
        ("config/cache.py", "CacheConfig.room", "planner/rule.py::_LIMITS"),
        ("v1/worker/gpu_worker.py", "request_memory", "planner/rule.py::rule"),
        ("llama.py", "", "planner/rule.py::rule"),
    ] == [(one.path, one.symbol, one.rule) for one in citations(planner)]


def cited(path: str, symbol: str = "") -> Citation:
    """Return a citation of the rule "rule"."""
    return Citation(path=path, symbol=symbol, rule="rule")


@pytest.mark.parametrize(
    ("citation", "place"),
    [
        (
            cited("config/cache.py", "CacheConfig.room"),
            "config/cache.py::CacheConfig.room",
        ),
        (cited("config/cache.py", "room"), "config/cache.py::CacheConfig.room"),
        (cited("models/llama.py"), "model_executor/models/llama.py::"),
        (cited("", "CacheConfig"), "config/cache.py::CacheConfig"),
        (cited("envs.py", "VLLM_KEPT"), "envs.py::VLLM_KEPT"),
        (cited("envs.py", "VLLM_OTHER"), None),
        (cited("no.py"), None),
    ],
)
def test_a_citation_is_found(old: Path, citation: Citation, place: str | None) -> None:
    """By its path, the end of its path, its name alone, or a key of a table."""
    found = Sources(old).find(citation)
    assert place == (found and f"{found[0]}::{found[1]}")


def test_a_digest_is_of_the_syntax_alone(old: Path, new: Path) -> None:
    """Comments, layout and docstrings do not count; values do."""
    both = Sources(old), Sources(new)
    method, whole = (
        {s.digest("config/cache.py", n) for s in both} for n in ("CacheConfig.room", "")
    )
    assert len(method) == 1
    assert len(whole) == 2


def test_a_symbol_that_moved_is_found_elsewhere(new: Path) -> None:
    """In the file that now has it."""
    places = list(Sources(new).moved("v1/worker/gpu_worker.py", "request_memory"))
    assert [("v1/worker/memory.py", "request_memory")] == places


def test_a_wording_is_looked_for_with_numbers_filled_in(old: Path, new: Path) -> None:
    """The older release writes it, the newer does not."""
    wordings = {"kv": compiled("Available KV cache memory: S")}
    found = [
        sentences.found_in(sentences.texts(Sources(one)), wordings, ())
        for one in (old, new)
    ]
    assert [["kv"], []] == found


def test_every_pattern_of_the_logs_is_looked_for() -> None:
    """The sentences of all releases, and the alternatives of the other patterns."""
    found = sentences.patterns()
    assert any("Model loading" in name for name in found)
    assert any("outcome.py READY: Avg prompt throughput:" in name for name in found)


def test_alternatives_are_split_outside_of_brackets() -> None:
    """Each is a pattern of its own."""
    assert ["ab", "c(?:d|e)", "[|]", r"\|"] == list(
        sentences._split(r"ab|c(?:d|e)|[|]|\|")
    )


def test_runs_of_words_are_what_stands_between_figures(tmp_path: Path) -> None:
    """Short ones say nothing."""
    rules = tmp_path / "planner" / "planning"
    rules.mkdir(parents=True)
    (rules / "refusals.py").write_text(
        'f"The number of heads that are left ({heads}) must be divided by {size} ok"\n',
        encoding="utf-8",
    )
    assert {
        "The number of heads that are left (": "planner/planning/refusals.py"
    } == sentences.quoted(tmp_path / "planner")
