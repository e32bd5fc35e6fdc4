"""The one door: where a model is looked for, and in which order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.errors import ModelNotFound, PlannerError
from planner.models.files import ModelFiles
from planner.models.sources import finding as door
from planner.models.sources import huggingface, periods
from planner.models.sources.finding import model_files
from planner.models.sources.hub_errors import is_repo_id

CONFIG = {"architectures": ["LlamaForCausalLM"], "hidden_size": 8}
BUNDLED = "Qwen/Qwen3-8B"


@pytest.fixture(autouse=True)
def hub_calls(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> list[tuple[str, str | None]]:
    """An empty working folder, and a Hub that answers everything and keeps count."""
    calls: list[tuple[str, str | None]] = []

    def fetch(name: str, *, revision: str | None, token: str | None) -> ModelFiles:
        del token
        calls.append((name, revision))
        return ModelFiles(name=name, config=CONFIG, source="Hub")

    monkeypatch.setattr(huggingface, "fetch", fetch)
    monkeypatch.chdir(tmp_path)
    door._from_hub.cache_clear()
    return calls


def _folder(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(CONFIG))
    return path


def test_an_existing_folder_comes_before_everything(hub_calls: list):
    """As in vLLM: a folder of that name hides the published model."""
    _folder(Path(BUNDLED))
    assert model_files(BUNDLED).config == CONFIG
    assert hub_calls == []


def test_a_path_may_be_text_or_a_path_and_begin_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """~ is written out, as a shell would."""
    monkeypatch.setenv("HOME", str(tmp_path))
    place = _folder(tmp_path / "tiny")
    assert model_files(place) is model_files(str(place)) is model_files("~/tiny")
    assert model_files("~/tiny").name == str(place)


def test_a_bundled_name_needs_no_hub(hub_calls: list):
    """The same object each time, so that a repeated plan costs next to nothing."""
    files = model_files(BUNDLED)
    assert files is model_files(BUNDLED)
    assert files.config["architectures"] == ["Qwen3ForCausalLM"]
    assert hub_calls == []


@pytest.mark.parametrize(
    "text", ["qwen/qwen3-8b", "Qwen3-8B", "qwen3-8B", f" {BUNDLED} "]
)
def test_a_bundled_name_may_be_written_loosely(text: str):
    """Case, and an organisation that leaves no doubt; the result has the true name."""
    assert model_files(text).name == BUNDLED


def test_other_names_are_asked_of_the_hub_once(hub_calls: list):
    """Within one process the answer is kept for a while."""
    assert model_files("nobody/tiny") is model_files("nobody/tiny")
    assert hub_calls == [("nobody/tiny", None)]


def test_an_answer_of_the_hub_grows_old(
    hub_calls: list, monkeypatch: pytest.MonkeyPatch
):
    """An app that runs for days sees new commits."""
    model_files("nobody/tiny")
    later = periods.time.monotonic() + 601
    monkeypatch.setattr(periods.time, "monotonic", lambda: later)
    model_files("nobody/tiny")
    assert len(hub_calls) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{BUNDLED}@main", (BUNDLED, "main")),
        ("https://hub.example/nobody/tiny", ("nobody/tiny", None)),
        ("https://hub.example/nobody/tiny/tree/v2", ("nobody/tiny", "v2")),
        ("gpt-unheard-of", ("gpt-unheard-of", None)),
    ],
)
def test_revisions_and_addresses_go_to_the_hub(
    hub_calls: list, text: str, expected: tuple[str, str | None]
):
    """A named revision is never answered from the bundled facts."""
    model_files(text)
    assert hub_calls == [expected]


def test_an_address_of_a_bundled_model_needs_no_hub(hub_calls: list):
    """Pasted from a browser."""
    assert model_files(f"https://hub.example/{BUNDLED}").name == BUNDLED
    assert hub_calls == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("./nowhere", "No such file or folder"),
        ("models/tiny/config.json", "No such file or folder"),
        ("a name with spaces", "No such model"),
        ("x" * 5_000, "No such model"),
        ("nul\0byte", "No such model"),
    ],
)
def test_what_can_be_nothing_is_refused_at_once(hub_calls: list, text: str, words: str):
    """The Hub is not bothered with what it could not have."""
    with pytest.raises(ModelNotFound, match=words) as raised:
        model_files(text)
    assert "planner models" in str(raised.value)
    assert hub_calls == []


def test_a_slip_names_the_nearest_bundled_model():
    """Spaces for signs are no name on the Hub, but the meaning is clear."""
    with pytest.raises(ModelNotFound, match=BUNDLED):
        model_files("Qwen/Qwen3 8B")


@pytest.mark.parametrize("model", [None, 5, "", "  ", b"Qwen/Qwen3-8B", ["a"]])
def test_what_is_no_name_is_refused(model: object):
    """The message says what may stand there."""
    with pytest.raises(PlannerError, match="give the path of a folder"):
        model_files(model)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpt2", True),
        ("owner/Model-1.5_x", True),
        ("a/b/c", False),
        ("owner/", False),
        ("/model", False),
        ("owner/a--b", False),
        ("owner/a..b", False),
        ("owner/model.git", False),
        (".hidden/model", False),
        ("owner/" + "x" * 96, False),
    ],
)
def test_names_that_the_hub_could_have(text: str, expected: bool):
    """The Hub's own rule for names."""
    assert is_repo_id(text) is expected
