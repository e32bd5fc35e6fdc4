"""Reading models from the Hub, against a server that speaks its interface."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from planner.errors import (
    GatedModel,
    ModelNotFound,
    ModelUnavailable,
    PlannerError,
)
from planner.models.sources import hub_bounds, hub_errors, hub_search, huggingface
from planner.models.sources.finding import model_files
from planner.models.sources.folder import SIDE_FILES
from planner.models.sources.hub_lists import models
from planner.models.sources.hub_models import by_name
from planner.models.sources.huggingface import fetch
from tests.gguf_files import QWEN3, gguf_bytes, qwen3_tensors
from tests.hub_server import (
    VALID_TOKEN,
    Hub,
    HubServer,
    Repo,
    close_session,
    safetensors_file,
)

huggingface_hub = pytest.importorskip(
    "huggingface_hub", reason="the extra `notebook` brings huggingface_hub"
)
constants = pytest.importorskip("huggingface_hub.constants")

counts_requests = pytest.mark.skipif(
    not hub_bounds.can_bound(), reason="before 1.0 each header is one more request"
)
asks_for_all_headers = pytest.mark.skipif(
    not hasattr(huggingface_hub.HfApi, "get_sharded_safetensors_metadata"),
    reason="the first releases of 1 read each header by itself",
)

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
NAME = "nobody/tiny"


def _config_only() -> Repo:
    return Repo(files={"config.json": json.dumps(CONFIG).encode()})


def _with_weights(size: int = 0) -> Repo:
    repo = _config_only()
    repo.files["model.safetensors"] = safetensors_file(
        {"embed": ("BF16", [8, 4]), "norm": ("F32", [4])}, size
    )
    return repo


def _sharded(num_shards: int, size: int) -> Repo:
    repo = _config_only()
    repo.files["model.safetensors.index.json"] = b"{}"
    for number in range(1, num_shards + 1):
        tensors = {f"layers.{number}.weight": ("BF16", [16, 16])}
        name = f"model-{number:05d}-of-{num_shards:05d}.safetensors"
        repo.files[name] = safetensors_file(tensors, size)
    return repo


with_either = pytest.mark.parametrize(
    "hub", ["huggingface_hub", "standard library"], indirect=True
)
"""Of tests that hold whichever of the two asks."""


@pytest.fixture
def hub(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Hub]:
    """A running server, an empty cache, and nobody logged in."""
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_ASSETS_CACHE", str(tmp_path / "assets"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    close_session()
    hub_search._remembered.cache_clear()
    with HubServer() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        with monkeypatch.context() as patched:
            if getattr(request, "param", "") == "standard library":
                patched.setitem(sys.modules, "huggingface_hub", None)
            yield running
    close_session()


@with_either
def test_a_public_model_gives_its_config_and_where_it_came_from(hub: Hub):
    """The source names repository and commit, so that a plan can be repeated."""
    hub.repos[NAME] = _config_only()
    files = fetch(NAME)
    assert (files.name, files.config) == (NAME, CONFIG)
    assert files.source == f"Hub: {NAME}@aaaaaaaa"


@with_either
def test_headers_give_every_tensor_and_the_count_by_type(hub: Hub):
    """8 x 4 elements of BF16 and 4 of F32: 64 + 16 bytes."""
    hub.repos[NAME] = _with_weights()
    files = fetch(NAME)
    assert files.tensor_shapes == {"embed": ("BF16", (8, 4)), "norm": ("F32", (4,))}
    assert files.num_parameters_by_dtype == {"BF16": 32, "F32": 4}
    assert files.checkpoint_bytes == 80


@with_either
@pytest.mark.parametrize("has_header_route", [True, False])
def test_weights_are_never_read(hub: Hub, has_header_route: bool):
    """Four shards of 20 MB: only their beginnings are served, at once or one by one."""
    hub.repos[NAME] = _sharded(num_shards=4, size=20_000_000)
    hub.has_header_route = has_header_route
    files = fetch(NAME)
    assert files.num_parameters_by_dtype == {"BF16": 4 * 256}
    assert hub.bytes_served() < 4 * 100_001 + 5_000


@asks_for_all_headers
def test_a_sharded_model_takes_four_requests(hub: Hub):
    """What there is, config.json (asked and fetched), and all headers at once."""
    hub.repos[NAME] = _sharded(num_shards=4, size=1_000)
    fetch(NAME)
    assert hub.paths()[0] == f"/api/models/{NAME}?blobs=true"
    assert sorted(hub.paths()[1:]) == [
        f"/api/models/{NAME}/safetensors-metadata/model.safetensors.index.json",
        f"/{NAME}/resolve/main/config.json",
        f"/{NAME}/resolve/main/config.json",
    ]


@with_either
def test_a_header_longer_than_the_first_answer_is_read_whole(hub: Hub):
    """3,000 tensors need more than the first 100 kB."""
    repo = hub.repos[NAME] = _config_only()
    tensors = {f"layers.{n}.weight": ("BF16", [2, 2]) for n in range(3_000)}
    repo.files["model.safetensors"] = safetensors_file(tensors, 1_000_000)
    assert fetch(NAME).num_parameters_by_dtype == {"BF16": 12_000}


@counts_requests
def test_the_second_time_one_request_is_enough(hub: Hub):
    """The commit is still the newest, so everything else is on disk."""
    hub.repos[NAME] = _with_weights()
    first = asdict(fetch(NAME))
    hub.asked.clear()
    assert asdict(fetch(NAME)) == first
    assert hub.paths() == [f"/api/models/{NAME}?blobs=true"]


@with_either
def test_a_new_commit_is_read_again(hub: Hub):
    """The cache never hides what the publisher changed."""
    hub.repos[NAME] = _config_only()
    fetch(NAME)
    changed = {**CONFIG, "num_hidden_layers": 3}
    hub.repos[NAME] = Repo(
        files={"config.json": json.dumps(changed).encode()}, commit="b" * 40
    )
    assert fetch(NAME).config == changed


@with_either
def test_side_files_are_fetched_where_the_repository_has_them(hub: Hub):
    """ModelOpt's hf_quant_config.json decides the size of the weights."""
    repo = hub.repos[NAME] = _config_only()
    repo.files["hf_quant_config.json"] = b'{"quantization": {"quant_algo": "FP8"}}'
    files = fetch(NAME)
    assert files.hf_quant_config == {"quantization": {"quant_algo": "FP8"}}
    assert files.params is None


@asks_for_all_headers
def test_all_files_are_read_at_the_same_time(hub: Hub):
    """One request says what there is; then each file takes two, side by side.

    Each of the six files beside the headers is looked at and read (12 requests), the
    headers are one more. Three after one another are enough, and one or two more on a
    busy machine.
    """
    side = {name: json.dumps({name: 1}).encode() for name in SIDE_FILES}
    hub.repos[NAME] = _sharded(num_shards=4, size=0)
    hub.repos[NAME].files |= side
    hub.delay_seconds = 0.3
    fetch(NAME)

    assert len(hub.asked) == 1 + 2 * (1 + len(side)) + 1
    assert hub.rounds() <= 5


@with_either
def test_a_header_that_is_elsewhere_is_followed(hub: Hub, monkeypatch):
    """As the Hub sends a client for large files."""
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True, raising=False)
    hub.repos[NAME] = _with_weights(size=1 << 20)
    hub.redirects = True

    assert fetch(NAME).num_parameters_by_dtype == {"BF16": 32, "F32": 4}
    assert any(path.startswith("/elsewhere/") for path in hub.paths())
    assert hub.bytes_served() < 300_000


@with_either
def test_a_small_file_that_is_large_is_not_read(hub: Hub, monkeypatch):
    """The first answer says how large each is."""
    monkeypatch.setattr(hub_errors, "LARGEST_FILE_BYTES", 1 << 20)
    hub.repos[NAME] = _config_only()
    hub.repos[NAME].files["params.json"] = b" " * (3 << 20)
    with pytest.raises(PlannerError, match=r"params.json of .* has 3 MiB"):
        fetch(NAME)
    assert len(hub.asked) == 1


@with_either
def test_processor_sizes_come_from_the_newer_file_too(hub: Hub):
    """Its nested parts replace what the older file says, as Transformers reads them."""
    hub.repos[NAME] = _config_only()
    older = {"size": {"longest_edge": 1}, "image_mean": [0.5]}
    newer = {"image_processor": {"size": {"longest_edge": 2}}}
    hub.repos[NAME].files |= {
        "preprocessor_config.json": json.dumps(older).encode(),
        "processor_config.json": json.dumps(newer).encode(),
    }
    sizes = fetch(NAME).preprocessor_config
    assert sizes == {"size": {"longest_edge": 2}, "image_mean": [0.5]}


@with_either
def test_the_publishers_count_stands_in_where_there_are_no_headers(hub: Hub):
    """The Hub counts parameters itself; shapes stay unknown."""
    repo = hub.repos[NAME] = _config_only()
    repo.parameters = {"BF16": 7}
    files = fetch(NAME)
    assert files.num_parameters_by_dtype == {"BF16": 7}
    assert files.tensor_shapes == {}


@with_either
def test_damaged_headers_do_not_stop_a_plan(hub: Hub):
    """The config decides; headers only confirm."""
    repo = hub.repos[NAME] = _config_only()
    repo.files["model.safetensors"] = b"\xff" * 64
    files = fetch(NAME)
    assert (files.config, files.tensor_shapes) == (CONFIG, {})


@with_either
def test_a_revision_is_asked_for_by_name(hub: Hub):
    """A commit works as a revision, and an unknown one is refused."""
    repo = hub.repos[NAME] = _config_only()
    assert fetch(NAME, revision=repo.commit).config == CONFIG
    with pytest.raises(ModelNotFound, match="no revision 'v9'"):
        fetch(NAME, revision="v9")


def test_offline_the_cache_answers_alone(hub: Hub, monkeypatch: pytest.MonkeyPatch):
    """HF_HUB_OFFLINE set after the library was imported counts too."""
    hub.repos[NAME] = _with_weights()
    online = fetch(NAME)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.asked.clear()
    offline = fetch(NAME)
    assert offline.source == f"{online.source} (from the cache on disk)"
    assert offline.tensor_shapes == online.tensor_shapes
    assert hub.asked == []


@with_either
def test_offline_and_not_cached_names_the_switch(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
):
    """It says what forbids the network, and what else can be done."""
    hub.repos[NAME] = _config_only()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelUnavailable, match="HF_HUB_OFFLINE forbids") as raised:
        fetch(NAME)
    assert "path" in str(raised.value)
    assert hub.asked == []


@with_either
def test_gated_without_a_token_says_how_to_get_in(hub: Hub):
    """Two steps: accept the terms on the model's page, then give a token."""
    repo = hub.repos[NAME] = _config_only()
    repo.is_gated = True
    with pytest.raises(ModelUnavailable) as raised:
        fetch(NAME)
    message = str(raised.value)
    assert "is gated and no token was given" in message
    assert f"{hub.url}/{NAME}" in message
    assert "HF_TOKEN" in message
    assert "hf auth login" in message


@with_either
def test_of_a_gated_model_a_release_of_the_same_shapes_is_offered(hub: Hub):
    """Made of it, not gated, not quantised, and with as many parameters."""
    tags = (f"base_model:{NAME}", f"base_model:finetune:{NAME}")
    gated = hub.repos[NAME] = _with_weights()
    gated.is_gated, gated.parameters = True, {"BF16": 36}

    def made(name: str, count: int, **more) -> None:
        repo = Repo(files={}, tags=tags, parameters={"BF16": count}, **more)
        hub.repos[name] = repo

    made("open/tiny", 36, downloads=5)
    made("open/tiny-longer", 40, downloads=9)
    made("other/tiny", 36, is_gated=True)
    made("open/tiny-FP8", 36)
    with pytest.raises(GatedModel, match="same shapes and not gated: open/tiny") as got:
        fetch(NAME)

    assert got.value.instead == ("open/tiny",)
    # What it is, its config in vain, and who else has it: no further file.
    assert len(hub.asked) == 3


@with_either
def test_of_a_gated_model_bundled_ones_are_offered_first(hub: Hub):
    """A fine-tune of a bundled model with its number of parameters."""
    base = "meta-llama/Llama-3.1-8B-Instruct"
    repo = hub.repos[NAME] = _config_only()
    repo.is_gated, repo.parameters = True, {"BF16": 8030261248}
    repo.tags = (f"base_model:{base}", f"base_model:finetune:{base}")
    with pytest.raises(GatedModel) as got:
        fetch(NAME)

    assert got.value.instead[0] == base


@with_either
def test_a_bundled_copy_of_a_gated_name_is_offered(hub: Hub):
    """Asked for by a revision, the Hub was needed; without it the list suffices."""
    name = "meta-llama/Llama-3.1-8B-Instruct"
    hub.repos[name] = _config_only()
    hub.repos[name].is_gated = True
    with pytest.raises(GatedModel, match="settings/tokens") as got:
        fetch(name)

    assert got.value.instead[0] == name


@with_either
def test_a_gated_model_without_any_like_it_is_only_that(hub: Hub):
    """Nothing is offered where nothing is known to have its shapes."""
    hub.repos[NAME] = _with_weights()
    hub.repos[NAME].is_gated = True
    with pytest.raises(GatedModel) as got:
        fetch(NAME)

    assert got.value.instead == ()
    assert "same shapes" not in str(got.value)


@with_either
@pytest.mark.parametrize("way", ["argument", "environment"])
def test_gated_with_a_token_is_read(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, way: str
):
    """A token may come as an argument or from HF_TOKEN."""
    repo = hub.repos[NAME] = _with_weights()
    repo.is_gated = True
    if way == "environment":
        monkeypatch.setenv("HF_TOKEN", VALID_TOKEN)
    files = fetch(NAME, token=VALID_TOKEN if way == "argument" else None)
    assert files.config == CONFIG
    assert files.num_parameters_by_dtype == {"BF16": 32, "F32": 4}


@with_either
def test_gated_and_not_granted_speaks_of_the_account(hub: Hub):
    """With a token, logging in again would not help."""
    repo = hub.repos[NAME] = _config_only()
    repo.is_gated, repo.is_granted = True, False
    with pytest.raises(ModelUnavailable, match="your token has no access"):
        fetch(NAME, token=VALID_TOKEN)


@with_either
def test_a_refused_token_is_said_to_be_the_trouble(hub: Hub):
    """A wrong token fails even for public models."""
    hub.repos[NAME] = _config_only()
    with pytest.raises(ModelUnavailable, match="refused your token"):
        fetch(NAME, token="hf_wrong")


@with_either
def test_no_such_model_names_the_nearest_bundled_ones(hub: Hub):
    """A slip of the finger is answered with the right name."""
    with pytest.raises(ModelNotFound) as raised:
        fetch("meta-llama/Llama-3.1-8B-Instuct")
    message = str(raised.value)
    assert "No model 'meta-llama/Llama-3.1-8B-Instuct' on the Hub" in message
    assert "meta-llama/Llama-3.1-8B-Instruct" in message
    assert hub.url in message


@with_either
def test_a_private_model_looks_like_none_and_the_message_says_so(hub: Hub):
    """The Hub answers the same for both, unless one is logged in."""
    repo = hub.repos[NAME] = _config_only()
    repo.is_private = True
    with pytest.raises(ModelNotFound, match="If it is private, set HF_TOKEN"):
        fetch(NAME)
    assert fetch(NAME, token=VALID_TOKEN).config == CONFIG


def test_a_name_the_hub_could_not_have_is_refused_without_asking(hub: Hub):
    """The library checks names itself."""
    with pytest.raises(ModelNotFound):
        fetch("not//a-name")
    assert hub.asked == []


def test_a_silent_hub_is_given_up_on(hub: Hub, monkeypatch: pytest.MonkeyPatch):
    """One time-out, no minutes of retries; the message names the setting."""
    hub.repos[NAME] = _config_only()
    hub.delay_seconds = 1.5
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 0.2)
    with pytest.raises(ModelUnavailable, match="HF_HUB_ETAG_TIMEOUT"):
        fetch(NAME)
    assert len(hub.asked) == 1


def test_a_silent_hub_does_not_hide_the_cache(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
):
    """What was read yesterday can be planned on the train."""
    hub.repos[NAME] = _config_only()
    fetch(NAME)
    hub.delay_seconds = 1.5
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 0.2)
    assert fetch(NAME).config == CONFIG


@with_either
@pytest.mark.usefixtures("hub")
def test_without_a_network_the_message_names_the_address(
    monkeypatch: pytest.MonkeyPatch,
):
    """Nobody listens on port 9 of this machine."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelUnavailable, match=r"127\.0\.0\.1:9\) cannot be reached"):
        fetch(NAME)


@with_either
@pytest.mark.parametrize(
    ("status", "words"), [(429, "no more requests"), (503, "answered with an error")]
)
def test_a_busy_hub_is_not_a_missing_model(hub: Hub, status: int, words: str):
    """Too many requests, or trouble at the other end: try later."""
    hub.status = status
    with pytest.raises(ModelUnavailable, match=words):
        fetch(NAME)


@with_either
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"<html>", "is not JSON"),
        (b"[1]", "holds a JSON list"),
        (b'{"a": 1}', "neither `architectures` nor `model_type`"),
    ],
)
def test_a_config_that_is_none_is_refused(hub: Hub, content: bytes, words: str):
    """The message says what lies there instead."""
    hub.repos[NAME] = Repo(files={"config.json": content})
    with pytest.raises(PlannerError, match=words):
        fetch(NAME)


@with_either
@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("model.Q4_K_M.gguf", "GGUF"),
        ("adapter_config.json", "LoRA adapter"),
        ("model_index.json", "Diffusers"),
        ("README.md", "no model that vLLM could load"),
    ],
)
def test_without_config_json_the_message_says_what_there_is(
    hub: Hub, file: str, words: str
):
    """Each kind of repository wants another next step."""
    hub.repos[NAME] = Repo(files={file: b""})
    with pytest.raises(ModelNotFound, match=words):
        fetch(NAME)


@with_either
def test_of_a_gguf_file_only_the_header_is_read(hub: Hub):
    """By its type or its name; 20 MB of weights stay where they are."""
    content = gguf_bytes(QWEN3, qwen3_tensors()) + bytes(20 << 20)
    hub.repos[NAME] = Repo(files={"m-Q4_K_M.gguf": content})
    by_type, by_name = (
        model_files(f"{NAME}:Q4_K_M"),
        model_files(f"{NAME}/m-Q4_K_M.gguf"),
    )
    assert by_type.gguf_tensors == by_name.gguf_tensors == qwen3_tensors()
    assert by_type.config["architectures"] == ["Qwen3ForCausalLM"]
    assert hub.bytes_served() < 10 << 20
    with pytest.raises(ModelNotFound, match=r"no file for 'Q8_0'; it has m-Q4_K_M"):
        model_files(f"{NAME}:Q8_0")


@with_either
def test_a_long_gguf_header_takes_several_requests(hub: Hub):
    """Each for a part of the file."""
    words = ["word" * 50] * 40_000
    content = gguf_bytes({**QWEN3, "words": words}, qwen3_tensors())
    hub.repos[NAME] = Repo(files={"m-Q4_0.gguf": content, **_config_only().files})
    found = model_files(f"{NAME}:Q4_0")
    assert found.gguf_tensors == qwen3_tensors()
    assert found.config["architectures"] == ["LlamaForCausalLM"]
    assert len(content) > 8_000_000


def test_a_disk_that_takes_no_notes_does_not_stop_a_plan(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """A file stands where the folder of remembered headers should be made."""
    (tmp_path / "occupied").write_text("")
    occupied = str(tmp_path / "occupied")
    monkeypatch.setattr(constants, "HF_ASSETS_CACHE", occupied)
    hub.repos[NAME] = _with_weights()
    assert fetch(NAME).num_parameters_by_dtype == {"BF16": 32, "F32": 4}


@with_either
def test_a_list_does_not_wait_long(hub: Hub):
    """A suggestion that comes late is worth nothing."""
    hub.delay_seconds = 1.0
    with pytest.raises(ModelUnavailable, match="gave no suggestions for 'tiny'"):
        models(by_name("tiny", 8), timeout_seconds=0.1)


@with_either
def test_too_many_searches_are_said_to_be_so(hub: Hub):
    """One request, no retry."""
    hub.status = 429
    with pytest.raises(ModelUnavailable, match="allows no more requests for now"):
        models(by_name("tiny", 8), timeout_seconds=5.0)
    assert len(hub.asked) == 1


@with_either
def test_a_list_is_empty_offline(hub: Hub, monkeypatch: pytest.MonkeyPatch):
    """No request leaves the machine."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert models(by_name("tiny", 8), timeout_seconds=5.0) == []
    assert hub.asked == []


@with_either
def test_our_own_mistakes_are_not_blamed_on_the_network(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
):
    """Only what the library raises is translated."""
    hub.repos[NAME] = _config_only()

    def mistaken(*_: object, **__: object) -> None:
        raise AttributeError

    monkeypatch.setattr(huggingface, "model_config", mistaken)
    with pytest.raises(AttributeError):
        fetch(NAME)
