"""The bundled models."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.errors import PlannerError
from planner.models import catalogue
from tools import configs
from tools.build_catalogue import build, is_published

DATA = Path(__file__).parents[2] / "planner" / "data" / "models.jsonl"


def _index() -> list[dict[str, Any]]:
    return list(filter(is_published, configs.index()))


def test_there_are_at_least_two_hundred_models():
    """Each with a source, sorted by name without regard to case."""
    entries = catalogue.entries()
    names = [entry.name for entry in entries]
    assert len(entries) >= 200
    assert names == sorted(names, key=str.lower)
    assert all(entry.source for entry in entries)


def test_the_file_stays_small():
    """It travels with every installation and is read by every first plan."""
    assert DATA.stat().st_size < 1_000_000


def test_an_entry_says_how_large_and_how_certain():
    """As the list of models shows it."""
    by_name = {entry.name: entry for entry in catalogue.entries()}
    assert by_name["01-ai/Yi-34B"].num_parameters == 34_388_917_248
    assert by_name["01-ai/Yi-34B"].is_certain
    assert not by_name["codellama/CodeLlama-7b-hf"].is_certain


def test_a_model_is_found_with_its_facts_and_their_source():
    """What a plan needs, and from where it is."""
    files = catalogue.find("Qwen/Qwen3-8B")
    assert files is not None
    assert files.config["num_hidden_layers"] == 36
    assert files.source.startswith("bundled catalogue: ai-dynamo/aiconfigurator")
    assert files.is_certain


def test_what_is_reconstructed_is_labelled():
    """A plan repeats it."""
    files = catalogue.find("codellama/CodeLlama-7b-hf")
    assert files is not None
    assert not files.is_certain


def test_a_copy_that_was_edited_for_a_compiler_is_labelled():
    """512 tokens, where the model was published for 32,768: a plan says so."""
    plan = planner.plan("mistralai/Mistral-7B-Instruct-v0.2", gpu="H100")
    assert plan.resolved.max_model_len == 512
    assert any("512 is not the published number" in note for note in plan.notes)


def test_no_copy_for_a_compiler_passes_for_published():
    """Each that says so few tokens is labelled; encoders are published with 512."""
    labelled = [e.name for e in catalogue.entries() if "for a compiler" in e.source]
    assert labelled == [
        "01-ai/Yi-6B-Chat",
        "mistralai/Mistral-7B-Instruct-v0.2",
        "openbmb/MiniCPM-V-2_6",
        "OpenGVLab/InternVL2-2B",
        "OpenGVLab/InternVL2-4B",
        "Qwen/Qwen-1_8B-Chat",
        "Qwen/Qwen-7B-Chat",
        "Qwen/Qwen1.5-1.8B-Chat",
    ]


@pytest.mark.parametrize("text", ["qwen/QWEN3-8b", "Qwen3-8B", "qwen3-8b"])
def test_case_and_organisation_may_be_left_to_the_catalogue(text: str):
    """The answer carries the true name and is the same object."""
    assert catalogue.find(text) is catalogue.find("Qwen/Qwen3-8B")


def test_a_name_that_two_organisations_use_is_left_open(
    monkeypatch: pytest.MonkeyPatch,
):
    """Which of the two is for the user to say."""
    both = {"one/tiny": None, "two/Tiny": None}
    monkeypatch.setattr(catalogue, "_models", lambda: both)
    names = catalogue._names.__wrapped__()
    assert "tiny" not in names
    assert names["two/tiny"] == "two/Tiny"


@pytest.mark.parametrize("text", ["", "nobody/tiny", "Qwen/"])
def test_what_is_not_there_is_none(text: str):
    """No guess here: `nearest` guesses."""
    assert catalogue.find(text) is None


def test_search_ranks_and_limits():
    """Models that begin so come first, the shortest of them before its variants."""
    found = [entry.name for entry in catalogue.search("qwen3-8", limit=2)]
    assert found == ["Qwen/Qwen3-8B", "Qwen/Qwen3-8B-FP8"]


def test_search_for_nothing_is_the_whole_list():
    """Up to the limit."""
    assert catalogue.search("", limit=10_000) == catalogue.entries()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("meta-llama/Llama-3.1-8B-Instuct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("lama-3.2-1b-instruct", "meta-llama/Llama-3.2-1B-Instruct"),
    ],
)
def test_nearest_knows_a_slip_of_the_finger(text: str, expected: str):
    """With or without the organisation."""
    assert catalogue.nearest(text)[0] == expected


def test_nearest_does_not_force_an_answer():
    """Nothing is like this."""
    assert catalogue.nearest("zzzzzz") == ()


def test_the_file_names_no_machine():
    """Sources are repositories and libraries: no absolute path, no address."""
    text = DATA.read_text()
    assert "://" not in text
    assert re.search(r"(?<![\w.})-])/\w+/", text) is None


def test_every_published_config_is_bundled_and_no_synthetic_one():
    """By the name that the index gives."""
    expected = {row["model"] for row in _index()}
    assert {entry.name for entry in catalogue.entries()} == expected


def test_the_committed_file_is_what_the_tool_builds():
    """Run `python -m tools.build_catalogue` after a change."""
    assert DATA.read_text() == build()


def test_lists_of_modules_come_back_whole():
    """Patterns in the file, every name in the answer."""
    for row in _index():
        files = catalogue.find(row["model"])
        published = configs.files(row["dir"])
        assert files is not None
        expected = _unordered(published["config.json"].get("quantization_config"))
        assert _unordered(files.config.get("quantization_config")) == expected
        expected = _unordered(published.get("hf_quant_config.json"))
        assert _unordered(files.hf_quant_config) == expected


def _unordered(value: Any) -> Any:
    """The order of a list of module names means nothing."""
    if isinstance(value, dict):
        return {key: _unordered(inner) for key, inner in value.items()}
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return sorted(value)
    return value


def _answer(model: object, **settings: Any) -> Any:
    """What a plan says, without the name that the model was called by.

    Without the files' size too: the catalogue may know it, a folder with nothing but a
    config.json does not.
    """
    try:
        plan = planner.plan(model, gpu="H100", trust_remote_code=True, **settings)
        answer = plan.to_dict()
    except PlannerError as error:
        return type(error).__name__, str(error).replace(str(model), "it")
    for other in ("model", "command", "notes", "loading"):
        answer.pop(other, None)
    return answer


@pytest.mark.parametrize(
    "settings", [{}, {"tensor_parallel_size": 4, "max_model_len": 2048}], ids=str
)
def test_what_the_catalogue_leaves_out_changes_no_answer(settings: dict[str, Any]):
    """Every model, planned from its published files and from the catalogue."""
    rows = _index()
    published = {
        r["model"]: _answer(configs.folder(r["dir"]), **settings) for r in rows
    }
    bundled = {r["model"]: _answer(r["model"], **settings) for r in rows}
    assert bundled == published
