"""What a published app takes for a model, and what it asks the Hub."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.engine.devices import gpu_named
from planner.engine.devices.attached import processor_line, survey
from planner.errors import (
    GatedModel,
    ModelNotFound,
    ModelUnavailable,
    PlannerError,
    TooOften,
)
from planner.export import links, needs
from planner.models.sources import allowance, hub_bounds, hub_published, hub_store
from planner.models.sources.finding import model_files
from planner.planning.planning import plan
from planner.solve.advice.situation import Situation
from tests.hub_server import VALID_TOKEN, Hub
from tests.published import CONFIG, NAME, published_hub, repo, sharded


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A published process and a Hub."""
    with published_hub(monkeypatch, tmp_path) as running:
        yield running


def test_a_public_model_is_read_and_planned(hub: Hub) -> None:
    """The positive control of all refusals below."""
    hub.repos[NAME] = sharded(3)
    files = model_files(NAME)

    assert (files.name, files.config) == (NAME, CONFIG)
    assert len(files.tensor_shapes) == 3
    assert files.source == f"Hub: {NAME}@aaaaaaaa"
    assert plan(NAME, gpu="H100").fits


def test_a_bundled_model_asks_nobody(hub: Hub) -> None:
    """The list works without a network."""
    assert model_files("Qwen/Qwen3-8B").name == "Qwen/Qwen3-8B"
    assert model_files("Qwen/Qwen3-8B~AWQ").name == "Qwen/Qwen3-8B~AWQ"
    assert hub.asked == []


def test_advice_asks_for_a_model_no_second_time(hub: Hub) -> None:
    """Estimated checkpoints of it are made of the files that were read."""
    hub.repos[NAME] = sharded(3)
    read = plan(NAME, gpu="H100")
    asked = list(hub.asked)
    hub_published._from_hub.cache_clear()  # ten minutes later
    changed = Situation.of(read, None).again(model=f"{NAME}~FP8")

    assert changed is not None
    assert changed.name == f"{NAME}~FP8"
    assert changed.limiting_rank.weights_bytes < read.limiting_rank.weights_bytes
    assert hub.asked == asked


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "/etc~AWQ",
        "/etc",
        ".",
        "..",
        "../..",
        "~",
        "~root/.ssh",
        "config.json",
        "./config.json",
        "folder/config.json/..",
        "file:///etc/passwd",
        "http://169.254.169.254/latest/meta-data",
        "https://169.254.169.254/latest/meta-data",
        "https://evil.example/owner/name",
        "https://huggingface.co.evil.example/owner/name",
        "https://huggingface.co@evil.example/owner/name",
        "http://huggingface.co/owner/name",
        "//evil.example/x",
        "169.254.169.254",
        "localhost",
        "localhost:8866/x",
        "owner/../name",
        "owner/name/../../api/whoami-v2",
        "owner/name?x=1",
        "owner/name#x",
        "owner/name%2f..",
        "owner/name@../../x",
        "owner/name@a?b",
        "owner/name@/x",
        "owner\\name",
        "owner/na\nme",
        "owner/na\x00me",
        "<script>/alert",
        "a" * 100_000,
        "a/" * 50_000,
    ],
)
def test_what_is_no_hub_id_is_refused_unasked(hub: Hub, name: str) -> None:
    """Nothing is fetched and no file opened; the words are short and name the list."""
    with pytest.raises(ModelNotFound, match="Choose one from the list") as refused:
        model_files(name)

    assert hub.asked == []
    assert len(str(refused.value)) < 600


def test_a_folder_of_that_name_is_not_read(hub: Hub, tmp_path, monkeypatch) -> None:
    """A folder beside the server stays the server's."""
    folder = tmp_path / "here" / NAME
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    monkeypatch.chdir(tmp_path / "here")
    for name in (NAME, str(folder), f"{NAME}/config.json"):
        with pytest.raises(ModelNotFound):
            model_files(name)

    hub.repos[NAME] = repo()
    made = plan(NAME, gpu="H100")
    assert made.model is not None
    assert made.model.source.startswith("Hub:") if made.model.source else True
    assert needs.local_folder(made) is None
    assert not links._is_local(NAME)


def test_the_page_of_a_model_on_the_hub_names_it(hub: Hub) -> None:
    """Of an address only owner, name and revision are read."""
    hub.repos[NAME] = repo()

    assert model_files(f"https://huggingface.co/{NAME}/tree/main").config == CONFIG
    assert all("huggingface.co" not in path for path in hub.paths())


def test_the_servers_own_login_is_not_sent(hub: Hub, monkeypatch, tmp_path) -> None:
    """Neither HF_TOKEN nor the stored login; a private model does not exist."""
    (tmp_path / "token").write_text(VALID_TOKEN)
    monkeypatch.setenv("HF_TOKEN", VALID_TOKEN)
    hub.repos[NAME] = repo()
    hub.repos["me/secret"] = repo()
    hub.repos["me/secret"].is_private = True
    model_files(NAME)
    with pytest.raises(ModelNotFound, match="that is public"):
        model_files("me/secret")

    assert len(hub.tokens) >= 3
    assert set(hub.tokens) == {None}


def test_the_publishers_token_is_sent_but_opens_nothing_private(
    hub: Hub, monkeypatch
) -> None:
    """PLANNER_HUB_TOKEN lends access to gated models, not to private ones."""
    monkeypatch.setenv("PLANNER_HUB_TOKEN", VALID_TOKEN)
    hub.repos["me/gated"], hub.repos["me/secret"] = repo(), repo()
    hub.repos["me/gated"].is_gated = hub.repos["me/secret"].is_private = True

    assert model_files("me/gated").config == CONFIG
    assert set(hub.tokens) == {f"Bearer {VALID_TOKEN}"}
    with pytest.raises(ModelNotFound, match="that is public"):
        model_files("me/secret")


def test_a_gated_model_is_named_as_such(hub: Hub) -> None:
    """Without talk of tokens, which a visitor cannot set."""
    hub.repos[NAME] = repo()
    hub.repos[NAME].is_gated = True
    with pytest.raises(ModelUnavailable, match="is gated") as refused:
        model_files(NAME)

    assert "HF_TOKEN" not in str(refused.value)


def test_an_open_release_of_a_gated_model_is_offered(hub: Hub) -> None:
    """One search of the visitor's allowance finds it."""
    hub.repos[NAME] = repo()
    hub.repos[NAME].is_gated, hub.repos[NAME].parameters = True, {"BF16": 36}
    hub.repos["open/tiny"] = repo()
    hub.repos["open/tiny"].tags = (f"base_model:{NAME}",)
    hub.repos["open/tiny"].parameters = {"BF16": 36}
    with pytest.raises(GatedModel, match="not gated: open/tiny") as refused:
        model_files(NAME)

    assert refused.value.instead == ("open/tiny",)
    assert len(hub.asked) == 3


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1:1/x",
        "http://[::1]/x",
        "file:///etc/passwd",
        "https://evil.example/x",
    ],
)
def test_the_hub_cannot_send_the_server_elsewhere(hub: Hub, target: str) -> None:
    """A redirect to another host is not followed."""
    hub.repos[NAME] = repo()
    hub.says["/config.json"] = (302, {"Location": target}, b"")
    with pytest.raises(PlannerError) as refused:
        model_files(NAME)

    assert "169.254" not in str(refused.value)
    assert "evil" not in str(refused.value)


def test_a_redirect_within_the_hub_is_followed(hub: Hub) -> None:
    """As the Hub does for renamed models and large files."""
    hub.repos[NAME] = repo(**{"other.json": json.dumps(CONFIG).encode()})
    there = f"/{NAME}/resolve/{'a' * 40}/other.json"
    hub.says["/config.json"] = (302, {"Location": there}, b"")

    assert model_files(NAME).config == CONFIG


def _padded(num_bytes: int) -> bytes:
    return json.dumps(CONFIG | {"pad": "x" * num_bytes}).encode()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (_padded(3 << 20), "larger than the 2 MiB"),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "is not JSON"),
        (b"[" * 200_000, "is not JSON"),
        (b"[" * 1_000_000, "more than 250,000 values"),
        (json.dumps({f"k{n}": n for n in range(200_000)}).encode(), "larger than"),
        (b'{"model_type": ' + b"9" * 5_000 + b"}", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"null", "null"),
    ],
)
def test_a_hostile_config_is_refused(hub: Hub, content: bytes, why: str) -> None:
    """Too large, too deep, too many keys, a number of 5,000 digits, no text."""
    hub.repos[NAME] = repo()
    hub.repos[NAME].files["config.json"] = content
    with pytest.raises(PlannerError, match=why):
        model_files(NAME)


def test_a_config_of_three_gigabytes_ends_early(hub: Hub) -> None:
    """Bytes are counted as they come, whatever the length that is promised."""
    hub.repos[NAME] = repo()
    promised = {"Content-Length": str(3 << 30)}
    hub.says["/config.json"] = (200, promised, bytes(12 << 20))
    with pytest.raises(PlannerError, match="larger than the 2 MiB"):
        model_files(NAME)


def test_a_packed_answer_is_refused(hub: Hub) -> None:
    """Twenty kilobytes can hold as many megabytes."""
    hub.repos[NAME] = repo()
    packed = gzip.compress(bytes(20 << 20))
    hub.says["/config.json"] = (200, {"Content-Encoding": "gzip"}, packed)
    with pytest.raises(PlannerError, match="packed"):
        model_files(NAME)


def test_an_endless_list_of_files_is_refused(hub: Hub) -> None:
    """The answer about a model is bounded as well."""
    hub.repos[NAME] = repo()
    hub.says[f"/api/models/{NAME}"] = (200, {}, b" " * (hub_bounds.ANSWER_BYTES + 1))
    with pytest.raises(PlannerError, match="larger than this page reads"):
        model_files(NAME)


@pytest.mark.parametrize(
    "odd",
    [
        {"siblings": "config.json"},
        {"siblings": [{"rfilename": 7}]},
        {"siblings": [{}]},
        {"siblings": 3},
        {"sha": ["a" * 40]},
        {"safetensors": "BF16"},
        {"safetensors": {"parameters": {"BF16": "many"}, "total": 1}},
        {"safetensors": {"parameters": ["BF16"], "total": 1}},
    ],
)
@pytest.mark.parametrize("is_published", [True, False])
def test_an_answer_that_describes_no_model_is_refused(
    hub: Hub, monkeypatch, odd: dict[str, object], *, is_published: bool
) -> None:
    """The library makes an object of whatever comes; here and in a personal app."""
    hub.repos[NAME] = repo()
    answer = {"id": NAME, "sha": "a" * 40, "siblings": [], **odd}
    hub.says[f"/api/models/{NAME}"] = (200, {}, json.dumps(answer).encode())
    if not is_published:
        monkeypatch.delenv("PLANNER_PUBLISHED")
    with pytest.raises(ModelUnavailable, match="does not describe a model"):
        model_files(NAME)


@pytest.mark.parametrize(
    "start",
    [
        (1 << 60).to_bytes(8, "little"),
        b"\xff" * 8,
        b"",
        (2 << 20).to_bytes(8, "little"),
    ],
)
def test_a_lying_header_of_weights_leaves_the_plan_as_it_is(
    hub: Hub, start: bytes
) -> None:
    """A header of 2^60 bytes, of 2^64 - 1, none, and one that is cut off."""
    hub.repos[NAME] = repo(**{"model.safetensors": start + b"{}"})

    assert model_files(NAME).tensor_shapes == {}
    assert plan(NAME, gpu="H100").fits


def test_a_model_of_very_many_files_costs_few_requests(hub: Hub) -> None:
    """Headers of 65 files are not asked for one by one."""
    hub.has_header_route = False
    hub.repos[NAME] = sharded(65)

    assert model_files(NAME).tensor_shapes == {}
    assert len(hub.asked) <= 3


def test_a_slow_hub_costs_a_bounded_time(hub: Hub, monkeypatch) -> None:
    """Every piece in time, the whole too late."""
    hub.repos[NAME] = repo()
    hub.delay_seconds = 0.05
    monkeypatch.setattr(
        "planner.models.sources.hub_published.RequestBudget",
        lambda: hub_bounds.RequestBudget(seconds=0.01),
    )
    with pytest.raises(PlannerError, match="took longer than this page waits"):
        model_files(NAME)


def test_what_was_read_is_not_asked_for_again(hub: Hub) -> None:
    """Another process finds it on the disk, tensors and all."""
    hub.repos[NAME] = sharded(2)
    first = model_files(NAME)
    asked = len(hub.asked)
    hub_published._from_hub.cache_clear()

    again = model_files(NAME)
    assert (again.config, again.source) == (first.config, first.source)
    assert again.tensor_shapes == first.tensor_shapes != {}
    assert len(hub.asked) == asked


def test_an_old_copy_serves_while_the_hub_is_silent(hub: Hub, monkeypatch) -> None:
    """And while nothing may be asked; without a copy the visitor is told."""
    hub.repos[NAME] = repo()
    model_files(NAME)
    monkeypatch.setattr(hub_store, "_FRESH_SECONDS", 0)
    for status, rate in ((503, "20"), (200, "0")):
        hub.status = status
        monkeypatch.setenv(allowance.PER_MINUTE, rate)
        hub_published._from_hub.cache_clear()
        assert model_files(NAME).config == CONFIG
    hub.status = 503
    monkeypatch.setenv(allowance.PER_MINUTE, "20")
    with pytest.raises(ModelUnavailable, match="does not answer just now"):
        model_files("nobody/other")


def test_the_cache_of_the_servers_user_is_not_looked_into(
    hub: Hub, monkeypatch
) -> None:
    """Offline, a published process knows its list only."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelUnavailable, match="does not query the Hub"):
        model_files(NAME)

    assert hub.asked == []


def test_the_allowance_holds_for_models(hub: Hub, monkeypatch) -> None:
    """Two a minute in all, one for a visitor; wrong names count as well."""
    monkeypatch.setenv(allowance.PER_MINUTE, "2")
    with pytest.raises(ModelNotFound):
        model_files("nobody/one")
    asked = len(hub.asked)
    with pytest.raises(TooOften, match=r"One visitor .* at most 1 times"):
        model_files("nobody/two")

    assert len(hub.asked) == asked


def test_no_message_names_a_path_or_the_server(hub: Hub, tmp_path, monkeypatch) -> None:
    """Whatever the Hub answers, the visitor reads of the model only."""
    hub.repos[NAME] = repo()
    said = []
    monkeypatch.setenv(allowance.PER_MINUTE, "100")
    for status in (302, 400, 401, 403, 404, 418, 429, 500, 502):
        hub.says["/config.json"] = (status, {"Location": "/loop/config.json"}, b"{}")
        with pytest.raises(PlannerError) as refused:
            model_files(NAME)
        said.append(str(refused.value))

    for text in said:
        assert NAME in text
        assert str(tmp_path) not in text
        assert "127.0.0.1" not in text
        assert "HF_" not in text


def test_the_hardware_of_the_server_is_not_told(hub: Hub) -> None:
    """Neither its GPUs nor its processor, by any door."""
    assert survey().gpus == ()
    assert processor_line() == ""
    for name in ("attached", "CPU", " cpu "):
        with pytest.raises(PlannerError, match="does not read its server's hardware"):
            gpu_named(name)
        with pytest.raises(PlannerError, match="does not read its server's hardware"):
            plan("Qwen/Qwen3-8B", gpu=name)
    assert gpu_named("H100").name == "H100"
    assert hub.asked == []


def test_a_length_beyond_any_number_of_the_machine_is_refused() -> None:
    """10^21 tokens: an answer in words, as for every wrong input."""
    with pytest.raises(PlannerError, match="max_model_len=1000000000000000000000: at"):
        plan("Qwen/Qwen3-8B", gpu="H100", max_model_len=10**21)


_HEADERS = (
    b"[" * 100_000,
    b'{"a": {"dtype": "F16", "shape": [1e400], "data_offsets": [0, 0]}}',
    b'{"a": {"dtype": "F16", "shape": [-5], "data_offsets": [0, 0]}}',
    b'{"a": {"dtype": "F16", "shape": [9223372036854775808], "data_offsets": [0, 0]}}',
    b'{"a": {"dtype": "F16", "shape": ["x"], "data_offsets": [0, 0]}}',
    b'{"a": {"dtype": ["F16"], "shape": 5}}',
    b'{"a": 5}',
)


@pytest.mark.parametrize("header", _HEADERS, ids=range(len(_HEADERS)))
def test_odd_headers_on_the_hub_are_left_aside(hub: Hub, header: bytes) -> None:
    """A visitor sees a plan from config.json, not an error of the planner itself."""
    weights = len(header).to_bytes(8, "little") + header
    hub.repos[NAME] = repo(**{"model.safetensors": weights})

    assert plan(NAME, gpu="H100").fits


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.json", b'{"model_type": ' + b"[" * 100_000),
        (
            "config.json",
            b'{"model_type": "llama", "vocab_size": ' + b"9" * 9_000 + b"}",
        ),
        ("config.json", json.dumps(CONFIG | {"hidden_size": float("inf")}).encode()),
        ("config.json", b"\xff\xfe"),
        ("hf_quant_config.json", b'{"a": ' * 9_000),
        ("preprocessor_config.json", b"5"),
        ("modules.json", b"[" * 9_000),
    ],
)
def test_odd_files_on_the_hub_are_a_sentence(hub: Hub, name: str, text: bytes) -> None:
    """Each names the file or the field."""
    hub.repos[NAME] = repo(**{name: text})
    with pytest.raises(PlannerError, match=r"\.json|hidden_size|nested"):
        plan(NAME, gpu="H100")
