"""The Hub with the standard library: whom it asks, with which token, and how much.

What both clients share is in test_huggingface.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.errors import ModelUnavailable, PlannerError
from planner.models.sources import plain_hub
from planner.models.sources.huggingface import fetch
from tests.hub_server import VALID_TOKEN, Hub, HubServer, Repo, safetensors_file

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
NAME = "nobody/tiny"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A running server with a model, no library, nobody logged in, an empty cache."""
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "HF_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with HubServer() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        running.repos[NAME] = Repo(
            files={
                "config.json": json.dumps(CONFIG).encode(),
                "model.safetensors": safetensors_file({"w": ("BF16", [8, 4])}, 1000),
            }
        )
        yield running


def test_each_file_takes_one_request(hub: Hub) -> None:
    """What there is, then config.json and the header of the weights."""
    assert fetch(NAME).config == CONFIG
    assert hub.paths()[0] == f"/api/models/{NAME}?blobs=true"
    assert sorted(hub.paths()[1:]) == [
        f"/{NAME}/resolve/{'a' * 40}/{name}"
        for name in ("config.json", "model.safetensors")
    ]


def test_an_address_that_is_not_the_hubs_is_not_followed(hub: Hub) -> None:
    """Another host may be anything, such as a service of a network."""
    with HubServer() as other:
        hub.says["config.json"] = (302, {"Location": f"{other.url}/config.json"}, b"")
        with pytest.raises(ModelUnavailable, match="not its own host"):
            fetch(NAME, token=VALID_TOKEN)

        assert [] == other.asked


def test_a_file_of_the_disk_is_not_followed(hub: Hub) -> None:
    """Nor any other scheme."""
    hub.says["config.json"] = (302, {"Location": "file:///etc/hostname"}, b"")
    with pytest.raises(ModelUnavailable):
        fetch(NAME)


def test_redirects_in_a_circle_end(hub: Hub) -> None:
    """After five."""
    hub.says["config.json"] = (302, {"Location": f"{hub.url}/config.json"}, b"")
    with pytest.raises(ModelUnavailable):
        fetch(NAME)

    assert len(hub.asked) <= 10


def test_the_token_goes_along_on_the_same_host(hub: Hub) -> None:
    """As where a repository was renamed."""
    hub.redirects = True
    hub.repos[NAME].is_gated = True

    assert fetch(NAME, token=VALID_TOKEN).num_parameters_by_dtype == {"BF16": 32}
    assert {f"Bearer {VALID_TOKEN}"} == set(hub.tokens)


def test_the_token_stays_with_the_endpoint() -> None:
    """The Hub's other hosts serve large files without it."""
    follows = plain_hub._OnTheHub("https://huggingface.co")
    asked = plain_hub.Request("https://huggingface.co/a/b/resolve/main/c")
    asked.add_unredirected_header("Authorization", "Bearer secret")

    def at(address: str) -> plain_hub.Request:
        made = follows.redirect_request(asked, None, 302, "Found", {}, address)
        assert made is not None
        return made

    assert at("https://huggingface.co/x").has_header("Authorization")
    assert not at("https://cdn-lfs.hf.co/x").has_header("Authorization")
    with pytest.raises(OSError, match=r"points to 169\.254\.169\.254"):
        at("https://169.254.169.254/x")
    with pytest.raises(OSError, match="not its own host"):
        at("http://huggingface.co/x")


def test_the_login_of_this_machine_is_taken(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """That of `hf auth login`; not where the user forbids it."""
    hub.repos[NAME].is_private = True
    (tmp_path / "token").write_text(f"{VALID_TOKEN}\n")
    assert fetch(NAME).config == CONFIG

    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
    hub.tokens.clear()
    with pytest.raises(PlannerError, match="If it is private"):
        fetch(NAME)

    assert {None} == set(hub.tokens)


def test_a_large_answer_is_given_up(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the first answer said of its size."""
    monkeypatch.setattr(plain_hub, "LARGEST_FILE_BYTES", 1 << 20)
    hub.says["config.json"] = (200, {}, b" " * (2 << 20))
    with pytest.raises(PlannerError, match="more than the 1 MiB"):
        fetch(NAME)


def test_a_slow_answer_is_given_up(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a few bytes of it come."""
    monkeypatch.setattr(plain_hub, "_MOST_SECONDS", -1.0)
    with pytest.raises(ModelUnavailable, match="did not answer in time"):
        fetch(NAME)
    assert len(hub.asked) == 1


def test_a_silent_hub_is_given_up_on(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variable that huggingface_hub has for it."""
    monkeypatch.setenv("HF_HUB_ETAG_TIMEOUT", "0.2")
    hub.delay_seconds = 1.5
    with pytest.raises(ModelUnavailable, match="HF_HUB_ETAG_TIMEOUT"):
        fetch(NAME)
    assert len(hub.asked) == 1


def test_offline_the_librarys_cache_answers(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where another program read the model with huggingface_hub."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tmp_path / "hub" / "models--nobody--tiny"
    commit = folder / "snapshots" / ("b" * 40)
    commit.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("b" * 40)
    (commit / "config.json").write_text(json.dumps(CONFIG))
    files = fetch(NAME)

    assert (CONFIG, []) == (files.config, hub.asked)
    assert files.source == f"Hub: {NAME}@bbbbbbbb (from the cache on disk)"


@pytest.mark.parametrize("content", [b"[1]", b"{}", b'{"siblings": [{}]}', b"<html>"])
def test_an_answer_that_describes_no_model_is_refused(hub: Hub, content: bytes) -> None:
    """A mirror may send a page instead."""
    hub.says[NAME] = (200, {}, content)
    with pytest.raises(ModelUnavailable):
        fetch(NAME)


def test_an_endpoint_that_is_no_address_is_named(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the web is asked."""
    monkeypatch.setenv("HF_ENDPOINT", "file:///etc")
    with pytest.raises(ModelUnavailable, match="HF_ENDPOINT is 'file:///etc'"):
        fetch(NAME)
    assert [] == hub.asked


@pytest.mark.usefixtures("hub")
def test_in_a_browser_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python has no connections there."""
    monkeypatch.setattr(sys, "platform", "emscripten")
    with pytest.raises(ModelUnavailable, match="browser edition"):
        fetch(NAME)
