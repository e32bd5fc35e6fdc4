"""Searching the Hub by name, against a small server that speaks its interface."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.errors import ModelUnavailable
from planner.models.sources import allowance, hub_bounds, hub_search
from planner.models.sources.hub_models import by_name, quantised_of, ungated_of
from planner.models.sources.hub_search import search
from planner.surroundings import is_in_browser
from tests.hub_server import VALID_TOKEN, Hub, HubServer, Repo, close_session
from tests.published import published_hub

huggingface_hub = pytest.importorskip("huggingface_hub")

BASE = "nobody/tiny"


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


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A Hub for a published process."""
    with published_hub(monkeypatch, tmp_path) as running:
        yield running


def put(hub: Hub, name: str, downloads: int = 0, **more) -> None:
    """Put a model on the Hub."""
    hub.repos[name] = Repo(files={}, downloads=downloads, **more)


def put_release(hub: Hub, name: str, downloads: int = 0, **more) -> None:
    """Put a quantised release of the base model on the Hub."""
    tags = (f"base_model:{BASE}", f"base_model:quantized:{BASE}", "safetensors")
    put(hub, name, downloads, **{"tags": tags} | more)


def names(hub_groups) -> list[tuple[str, list[str]]]:
    """Each group's name, and those of its releases."""
    return [
        (group.name, [release.name for release in group.releases])
        for group in hub_groups
    ]


def test_models_come_by_downloads_with_their_releases_below_them(hub: Hub) -> None:
    """Releases whose name lacks what was typed are found by what they were made of."""
    put(hub, "nobody/tiny-large", 70, parameters={"BF16": 2_000_000_000})
    put(hub, BASE, 900, is_gated=True)
    put_release(hub, "nobody/tiny-AWQ", 50)
    put_release(hub, "someone/T-FP8", 600)

    groups = search("TINY ")

    assert names(groups) == [
        (BASE, ["someone/T-FP8", "nobody/tiny-AWQ"]),
        ("nobody/tiny-large", []),
    ]
    model = groups[0].model
    assert model is not None
    assert (model.is_gated, model.num_downloads) == (True, 900)
    assert [one.quantization for one in groups[0].releases] == ["FP8", "AWQ"]


def test_a_release_is_shown_below_a_model_that_was_not_found(hub: Hub) -> None:
    """Whoever types the format finds releases, and their base is named."""
    put(hub, BASE, 900)
    put_release(hub, "nobody/tiny-AWQ", 50)
    (group,) = search("tiny-awq")

    assert (group.name, group.model) == (BASE, None)
    assert [one.name for one in group.releases] == ["nobody/tiny-AWQ"]


def test_at_most_five_releases_are_shown(hub: Hub) -> None:
    """The most downloaded; of the others the number."""
    put(hub, BASE, 900)
    for number in range(9):
        put_release(hub, f"someone/v{number}-FP8", number)
    (group,) = search("tiny")

    assert [one.num_downloads for one in group.releases] == [8, 7, 6, 5, 4]
    assert group.rest == 4


def test_two_rounds_of_requests_are_enough(hub: Hub) -> None:
    """The names, then the releases of the first three models at the same time.

    One round more may be a busy machine's; the same text asks nobody again.
    """
    for number in range(5):
        put(hub, f"nobody/tiny-{number}", 10 - number)
    hub.delay_seconds = 0.3
    found = search("tiny")
    asked = len(hub.asked)

    assert search("Tiny") == found
    assert (len(hub.asked), asked) == (4, 4)
    assert hub.rounds() <= 3


def test_a_text_that_is_no_longer_wanted_costs_one_request(hub: Hub) -> None:
    """Somebody typed on."""
    put(hub, BASE)
    found = search("tiny", is_wanted=lambda: False)

    assert names(found) == [(BASE, [])]
    assert len(hub.asked) == 1


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "ti", "t" * 97),
        *("/home/me/tiny", "./tiny", "~/tiny", "C:\\tiny", "https://tiny.example/x"),
    ],
)
def test_what_cannot_be_part_of_a_name_asks_nobody(hub: Hub, text) -> None:
    """Such as the first two letters, or the path of a folder, which nobody is told."""
    assert search(text) == ()
    assert hub.asked == []


def test_releases_that_cannot_be_read_leave_the_names(hub: Hub) -> None:
    """The Hub allows so many requests; the first answer is shown."""
    put(hub, BASE)
    hub.refused_after = 1

    assert names(search("tiny")) == [(BASE, [])]
    assert len(hub.asked) == 2


@pytest.mark.parametrize("status", [401, 404, 429, 500, 503])
def test_a_hub_that_refuses_is_said_to(hub: Hub, status) -> None:
    """Whatever its reason; nothing is remembered of it."""
    hub.status = status
    with pytest.raises(ModelUnavailable):
        search("tiny")
    hub.status = 200
    put(hub, BASE)

    assert names(search("tiny")) == [(BASE, [])]


@pytest.mark.parametrize("made", [by_name, quantised_of, ungated_of])
def test_queries_are_those_of_the_library(hub: Hub, made) -> None:
    """`HfApi.list_models` sends the same parameters for the same question."""
    asked = {
        by_name: {"search": BASE},
        quantised_of: {"filter": [f"base_model:quantized:{BASE}", "safetensors"]},
        ungated_of: {"filter": [f"base_model:{BASE}", "safetensors"], "gated": False},
    }
    expand = ["downloads", "gated", "library_name", "private", "safetensors", "tags"]
    api = huggingface_hub.HfApi(endpoint=hub.url)
    list(api.list_models(**asked[made], sort="downloads", limit=7, expand=expand))
    (sent,) = hub.queries()
    own: dict[str, list[str]] = {}
    for key, value in made(BASE, 7):
        own.setdefault(key, []).append(value)

    # Before 1.0 the library wrote Python's "False".
    assert own == sent | {key: ["false"] for key in sent if key == "gated"}


# Where it may not be searched


@pytest.mark.parametrize(
    ("name", "value"), [("HF_HUB_OFFLINE", "1"), (allowance.PER_MINUTE, "0")]
)
def test_where_there_are_no_requests_there_is_no_search(
    public: Hub, monkeypatch, name, value
) -> None:
    """A published app of its list alone: nothing is found, and that is no error."""
    assert hub_search.can_search()
    monkeypatch.setenv(name, value)

    assert not hub_search.can_search()
    assert search("tiny") == ()
    assert public.asked == []


@pytest.mark.usefixtures("hub")
def test_before_its_client_could_be_bounded_a_published_app_does_not_search(
    monkeypatch,
) -> None:
    """huggingface_hub 0.30, as notebook services have it, would answer unbounded."""
    monkeypatch.setenv("PLANNER_PUBLISHED", "1")
    monkeypatch.setattr("planner.models.sources.hub_bounds.can_bound", lambda: False)
    with pytest.raises(ModelUnavailable, match="does not query the Hub"):
        hub_bounds.api()

    assert not hub_search.can_search()


def test_the_browser_edition_does_not_search(monkeypatch) -> None:
    """Nor does one without huggingface_hub."""
    monkeypatch.setattr("sys.platform", "emscripten")
    assert is_in_browser()
    assert not hub_search.can_search()


# In a published app


def test_a_published_app_counts_what_it_asks(public: Hub, monkeypatch) -> None:
    """One visitor gets half of a minute's searches; releases of one model are asked."""
    monkeypatch.setenv(allowance.PER_MINUTE, "3")
    for number in range(4):
        put(public, f"nobody/tiny-{number}")
    found = search("tiny")
    assert len(found) == 4
    assert len(public.asked) == 2
    search("nobody")
    with pytest.raises(ModelUnavailable):
        search("tiny-1")

    assert len(public.asked) == 3


def test_the_publishers_token_finds_nothing_private(public: Hub, monkeypatch) -> None:
    """The token may see what visitors may not."""
    monkeypatch.setenv("PLANNER_HUB_TOKEN", VALID_TOKEN)
    put(public, BASE, is_private=True)
    put(public, "nobody/tiny-open")

    assert names(search("tiny")) == [("nobody/tiny-open", [])]
    assert set(public.tokens) == {f"Bearer {VALID_TOKEN}"}


@pytest.mark.parametrize("status", [404, 429, 500])
def test_a_hub_that_refuses_a_published_app_gives_no_names(public: Hub, status) -> None:
    """Whatever its reason."""
    public.status = status
    with pytest.raises(ModelUnavailable):
        search("tiny")


def test_a_slow_hub_costs_a_published_app_a_bounded_time(public: Hub, monkeypatch):
    """The time-out of one request holds for its whole answer."""
    monkeypatch.setattr(hub_search, "_SECONDS", 0.2)
    public.delay_seconds = 1.0
    put(public, BASE)
    with pytest.raises(ModelUnavailable):
        search("tiny")
