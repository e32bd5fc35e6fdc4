"""`planner models --hub`, against a small server that speaks the Hub's interface."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.app import cli
from planner.models.sources import hub_search
from tests.hub_server import Hub, HubServer, Repo, close_session

huggingface_hub = pytest.importorskip("huggingface_hub")

BASE = "nobody/tiny-model"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A Hub with a model and a release of it, and nobody logged in."""
    token = str(tmp_path / "token")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", token)
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    close_session()
    hub_search._remembered.cache_clear()
    with HubServer() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        counts = {"BF16": 1_500_000_000}
        running.repos[BASE] = Repo(
            files={}, downloads=4_200, parameters=counts, is_gated=True
        )
        tags = (f"base_model:quantized:{BASE}",)
        running.repos["other/small-FP8"] = Repo(files={}, downloads=7, tags=tags)
        yield running
    close_session()


@pytest.mark.usefixtures("hub")
def test_models_of_the_hub_follow_the_bundled_ones(capsys) -> None:
    """Each with what it is, above its releases."""
    assert cli.FITS == cli.main(["models", "tiny-model", "--hub"])
    lines = capsys.readouterr().out.splitlines()
    start = lines.index("On the Hugging Face Hub, most downloaded first")

    assert lines[start + 1].split(None, 1) == [
        BASE,
        "1.5 B, 4.2 k downloads, gated",
    ]
    assert lines[start + 2].startswith("  other/small-FP8 ")
    assert lines[start + 2].endswith("FP8, 7 downloads")


@pytest.mark.usefixtures("hub")
def test_json_has_both_lists(capsys) -> None:
    """The Hub's in groups."""
    assert cli.FITS == cli.main(["models", "tiny-model", "--hub", "--json"])
    found = json.loads(capsys.readouterr().out)

    assert [group["name"] for group in found["hub"]] == [BASE]
    assert found["hub"][0]["releases"][0]["quantization"] == "FP8"
    assert isinstance(found["bundled"], list)


@pytest.mark.usefixtures("hub")
def test_nothing_found_is_said(capsys) -> None:
    """The status is that of a plan that does not fit."""
    assert cli.DOES_NOT_FIT == cli.main(["models", "zzzz-no-such", "--hub"])
    assert "no model of this name" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "setting", "says"),
    [("", {}, "3 characters or more"), ("tiny", {"HF_HUB_OFFLINE": "1"}, "OFFLINE")],
)
def test_what_cannot_be_searched_is_refused(
    hub: Hub, monkeypatch, capsys, text, setting, says
) -> None:
    """In one sentence, and nothing is requested."""
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    assert cli.BAD_INPUT == cli.main(["models", text, "--hub"])
    assert says in capsys.readouterr().err
    assert hub.asked == []


def test_a_hub_that_does_not_answer_is_said_to(hub: Hub, capsys) -> None:
    """With what to do instead."""
    hub.status = 503
    assert cli.BAD_INPUT == cli.main(["models", "tiny", "--hub"])
    assert "choose a bundled one" in capsys.readouterr().err
