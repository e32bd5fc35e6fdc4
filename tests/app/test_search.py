"""Names from the Hub as one types, against a small server that speaks its interface."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.app.widgets import background
from planner.app.widgets.background import HubSearch
from planner.app.widgets.explorer import Explorer
from planner.errors import ModelUnavailable
from planner.models.sources import allowance, load
from tests.hub_server import Hub, HubServer, Repo
from tests.published import published_hub

huggingface_hub = pytest.importorskip("huggingface_hub")


@pytest.fixture(autouse=True)
def _forget() -> None:
    """Remember no answer of another test."""
    load._names.cache_clear()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A Hub for a process of the user's own, who is not logged in."""
    token = str(tmp_path / "token")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", token)
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    huggingface_hub.close_session()
    with HubServer() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running
    huggingface_hub.close_session()


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A Hub for a published process."""
    with published_hub(monkeypatch, tmp_path) as running:
        yield running


def fill(hub: Hub, count: int) -> None:
    """Put models of alike names on the Hub."""
    for number in range(count):
        hub.repos[f"nobody/tiny-{number}"] = Repo(files={})


def test_names_are_found_in_one_request_and_remembered(hub: Hub) -> None:
    """At most eight; the same text in another case asks nobody again."""
    fill(hub, 12)
    found = load.names("TINY ")

    assert found == tuple(f"nobody/tiny-{number}" for number in range(8))
    assert load.names("tiny") == found
    assert len(hub.asked) == 1


@pytest.mark.parametrize("text", ["", "  ", "ti", "t" * 97])
def test_texts_that_say_too_little_or_too_much_ask_nobody(hub: Hub, text) -> None:
    """Such as the first two letters."""
    assert load.names(text) == ()
    assert hub.asked == []


def test_what_no_repository_is_called_is_left_out(hub: Hub) -> None:
    """The Hub's answer is untrusted as well."""
    hub.repos["nobody/<img src=x>tiny"] = Repo(files={})
    hub.repos["../tiny"] = Repo(files={})
    fill(hub, 1)

    assert load.names("tiny") == ("nobody/tiny-0",)


def test_a_published_app_counts_what_it_asks(public: Hub, monkeypatch) -> None:
    """One visitor gets half of the searches of a minute."""
    monkeypatch.setenv(allowance.PER_MINUTE, "2")
    fill(public, 3)
    found = [load.names("tiny"), load.names("nobody")]
    with pytest.raises(ModelUnavailable, match="wait"):
        load.names("tiny-1")

    assert len(found[0]) == len(found[1]) == 3
    assert len(public.asked) == 2


@pytest.mark.parametrize("status", [404, 429, 500])
def test_a_hub_that_refuses_a_published_app_gives_no_names(public: Hub, status) -> None:
    """Whatever its reason."""
    public.status = status
    with pytest.raises(ModelUnavailable):
        load.names("tiny")


# In the box


@pytest.fixture
def explorer(monkeypatch) -> Explorer:
    """Its answers come back in the thread that asked."""
    monkeypatch.setattr(
        "planner.app.widgets.background._poster", lambda: lambda call: call()
    )
    return Explorer()


UNREACHED = {"found": "tiny", "names": [], "is_reached": False}


def told(explorer: Explorer, text: str) -> list[dict]:
    """Ask as a page does; return what it is told."""
    sent: list[dict] = []
    explorer.form.main.send = sent.append
    explorer.form.main._handle_custom_msg({"find": text}, [])
    explorer.form.search.wait(10)
    return sent


def test_the_box_is_told_the_names(explorer, hub: Hub) -> None:
    """With the text they were found for."""
    fill(hub, 2)

    assert told(explorer, "tiny") == [
        {
            "found": "tiny",
            "names": ["nobody/tiny-0", "nobody/tiny-1"],
            "is_reached": True,
        }
    ]


def test_the_box_is_told_that_the_hub_was_not_reached(explorer, monkeypatch) -> None:
    """Nobody listens on port 9 of this machine."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    assert told(explorer, "tiny") == [UNREACHED]


def test_a_mistake_of_ours_ends_the_search_and_is_logged(
    explorer, monkeypatch, caplog
) -> None:
    """The box can be used on."""

    def broken(_text: str) -> tuple[str, ...]:
        raise ZeroDivisionError

    monkeypatch.setattr(background, "names_on_hub", broken)

    assert told(explorer, "tiny") == [UNREACHED]
    assert "ZeroDivisionError" in caplog.text


def test_of_many_texts_the_first_and_the_newest_are_looked_up(monkeypatch) -> None:
    """However fast a page sends them, there is one thread."""
    monkeypatch.setattr(
        "planner.app.widgets.background._poster", lambda: lambda call: call()
    )
    asked, go_on, is_done = [], threading.Event(), threading.Event()

    def slow(text: str) -> tuple[str, ...]:
        asked.append(text)
        go_on.wait(10)
        return ()

    monkeypatch.setattr(background, "names_on_hub", slow)
    found = HubSearch()
    for number in range(50):
        found.find(f"text {number}", lambda _names: None)
    found.find("last", lambda _names: is_done.set())
    go_on.set()

    assert is_done.wait(10)
    assert asked == ["text 0", "last"]
