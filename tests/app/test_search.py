"""Names from the Hub as one types, against a small server that speaks its interface."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.app.widgets.background import HubSearch
from planner.app.widgets.explorer import Explorer
from planner.models.sources import hub_search
from tests.hub_server import Hub, HubServer, Repo, close_session

huggingface_hub = pytest.importorskip("huggingface_hub")


@pytest.fixture(autouse=True)
def _forget() -> None:
    """Remember no answer of another test."""
    hub_search._remembered.cache_clear()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A Hub for a process of the user's own, who is not logged in."""
    token = str(tmp_path / "token")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", token)
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    close_session()
    with HubServer() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running
    close_session()


def fill(hub: Hub, count: int) -> None:
    """Put models of alike names on the Hub."""
    for number in range(count):
        hub.repos[f"nobody/tiny-{number}"] = Repo(files={})


# In the box


@pytest.fixture
def explorer(monkeypatch) -> Explorer:
    """Its answers come back in the thread that asked."""
    monkeypatch.setattr(
        "planner.app.widgets.background._poster", lambda: lambda call: call()
    )
    return Explorer()


UNREACHED = {"found": "tiny", "rows": [], "remark": "Hub not reachable"}


def told(explorer: Explorer, text: str) -> list[dict]:
    """Ask as a page does; return what it is told."""
    sent: list[dict] = []
    explorer.form.main.send = sent.append
    explorer.form.main._handle_custom_msg({"find": text}, [])
    explorer.form.search.wait(10)
    return sent


def test_the_box_is_told_the_names(explorer, hub: Hub) -> None:
    """With the text they were found for, and of what each is a release."""
    fill(hub, 2)
    tags = ("base_model:quantized:nobody/tiny-1",)
    hub.repos["other/tiny-FP8"] = Repo(files={}, tags=tags, downloads=1_200)

    assert told(explorer, "tiny") == [
        {
            "found": "tiny",
            "rows": [
                ["nobody/tiny-1", "", ""],
                ["other/tiny-FP8", "FP8, 1.2 k downloads", "nobody/tiny-1"],
                ["nobody/tiny-0", "", ""],
            ],
            "remark": "",
        }
    ]


def test_the_box_is_told_that_the_hub_was_not_reached(explorer, monkeypatch) -> None:
    """Nobody listens on port 9 of this machine."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    assert told(explorer, "tiny") == [UNREACHED]


def test_a_step_does_not_wait_for_a_search(explorer, hub: Hub) -> None:
    """The Hub answers after a second; the step is planned and answered before."""
    fill(hub, 1)
    hub.delay_seconds = 1.0
    sent: list[dict] = []
    explorer.form.main.send = sent.append
    explorer.form.main._handle_custom_msg({"find": "tiny"}, [])
    step = {"set": "max_num_seqs", "value": 8, "n": 1}
    explorer.form.main._handle_custom_msg(step, [])
    explorer.form.search.wait(10)

    assert ["ack" in one for one in sent] == [True, False]
    assert explorer.plan.resolved.max_num_seqs == 8
    assert sent[1]["found"] == "tiny"


def test_too_many_searches_are_not_called_unreachable(explorer, hub: Hub) -> None:
    """A pause helps against them, a cable does not."""
    hub.status = 429

    (answer,) = told(explorer, "tiny")
    assert answer["remark"] == "Hub: no more searches for now"


def test_a_mistake_of_ours_ends_the_search_and_is_logged(
    explorer, monkeypatch, caplog
) -> None:
    """The box can be used on."""

    def broken(_text: str, **_more: object) -> tuple[str, ...]:
        raise ZeroDivisionError

    monkeypatch.setattr(hub_search, "search", broken)

    assert told(explorer, "tiny") == [UNREACHED]
    assert "ZeroDivisionError" in caplog.text


def test_of_many_texts_the_first_and_the_newest_are_looked_up(monkeypatch) -> None:
    """However fast a page sends them, there is one thread."""
    monkeypatch.setattr(
        "planner.app.widgets.background._poster", lambda: lambda call: call()
    )
    asked, go_on, is_done = [], threading.Event(), threading.Event()
    wanted = []

    def slow(text: str, *, is_wanted) -> tuple[str, ...]:
        asked.append(text)
        go_on.wait(10)
        wanted.append(is_wanted())
        return ()

    monkeypatch.setattr(hub_search, "search", slow)
    found = HubSearch()
    for number in range(50):
        found.find(f"text {number}", lambda _found, _why: None)
    found.find("last", lambda _found, _why: is_done.set())
    go_on.set()

    assert is_done.wait(10)
    assert asked == ["text 0", "last"]
    assert wanted == [False, True]


def test_an_open_release_of_a_gated_model_can_be_pressed(explorer, hub: Hub) -> None:
    """The names that the error offers stand at the field, not those nearest to it."""
    tags = ("base_model:nobody/closed", "base_model:finetune:nobody/closed")
    counts = {"BF16": 36}
    hub.repos["nobody/closed"] = Repo(
        files={"config.json": b"{}"}, is_gated=True, parameters=counts
    )
    hub.repos["open/tiny"] = Repo(files={}, tags=tags, parameters=counts)
    explorer.form.model.receive("nobody/closed")
    explorer._reader.wait(10)
    state = explorer.form.model.state()

    assert "gated" in str(state["e"])
    assert state["try"] == ("open/tiny",)


@pytest.mark.usefixtures("hub")
def test_a_page_is_told_whether_the_hub_may_be_searched(monkeypatch) -> None:
    """Once, with the list; a page that may not sends no text."""
    assert Explorer().form.model.state()["hub"] is True
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "hub" not in Explorer().form.model.state()
