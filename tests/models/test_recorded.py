"""Models that are known from what vLLM built: a made-up one, written by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import planner
from planner.errors import PlannerError
from planner.models.families.recorded import architecture_of, read_recorded
from planner.models.files import ModelFiles
from planner.models.recordings import (
    Recording,
    config_key,
    find_recording,
    read_recording,
    write_recording,
)

DATA = json.loads(
    Path(__file__).parents[1].joinpath("data/recordings/made_up.json").read_text()
)
CONFIG = DATA["config"]
RECORDING = Recording(
    model="made/up",
    vllm_version="0.33.0",
    gpu="H100",
    date="2026-11-23",
    config_key=config_key(CONFIG),
    whole=DATA["whole"],
    halved=DATA["halved"],
)
FILES = ModelFiles(name="made/up", config=CONFIG)
# qkv (8 + 2 x 2) x 16 rows, o 8 x 16 columns, the MLP's 2 x 256 and 256, a norm.
CUT = 128 * (12 * 16 + 8 * 16 + 2 * 256 + 256)
LAYER = CUT + 128
WORDS = 640 * 128


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The folder of the made-up model; its recording is among the user's own."""
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path / "data"))
    write_recording(RECORDING)
    model = tmp_path / "made-up"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(CONFIG))
    return model


def test_every_tensor_is_counted(folder) -> None:
    """Two layers, embeddings, head and final norm, 2 bytes each."""
    plan = planner.plan(folder, max_model_len=1024)

    assert 2 * (2 * LAYER + 2 * WORDS + 128) == plan.ranks[0].weights_bytes


def test_the_forward_pass_knows_its_widths(folder) -> None:
    """Gate and up of 256 each and their product: 768 values per token of 2 bytes.

    Without compilation a layer holds three hidden states of 128 beside them.
    """
    plan = planner.plan(folder, max_model_len=1024, enforce_eager=True, max_num_seqs=2)

    why = plan.ranks[0].line("peak activation").why
    assert "2,048 max_num_batched_tokens x 2 bytes x 1,152 values" in why
    assert 3 * 128 + 2 * 256 + 256 == 1152


def test_what_two_ranks_cut_is_cut_by_more(folder) -> None:
    """Norms stay whole; everything else is halved, and so the KV heads."""
    plan = planner.plan(folder, max_model_len=1024, tensor_parallel_size=2)

    halved = 2 * (CUT // 2 + 128) + WORDS + 128
    assert 2 * halved == plan.ranks[0].weights_bytes
    # Keys and values of one head of 16, 2 bytes, 16 tokens, 2 layers.
    assert 2 * 16 * 2 * 16 * 2 == plan.ranks[0].bytes_per_block


def test_kv_heads_are_repeated_where_there_are_fewer_than_ranks(folder) -> None:
    """On 4 ranks 2 heads of queries and one of keys and values each: 4 of 12 rows."""
    plan = planner.plan(folder, max_model_len=1024, tensor_parallel_size=4)

    qkv = 128 * (2 + 2) * 16
    rest = 128 * (8 * 16 + 2 * 256 + 256) // 4
    expected = 2 * (qkv + rest + 128) + 2 * WORDS // 4 + 128
    assert 2 * expected == plan.ranks[0].weights_bytes


def test_another_config_has_no_recording(folder) -> None:
    """A recording answers for its own config.json only."""
    other = CONFIG | {"hidden_size": 256}
    (folder / "config.json").write_text(json.dumps(other))

    assert find_recording(other) is None
    error = planner.plan(folder).error
    assert error is not None
    assert "MadeUpForCausalLM" in error.message


def test_what_does_not_matter_to_vllm_does_not_matter() -> None:
    """The release of Transformers that wrote the file."""
    assert config_key(CONFIG | {"transformers_version": "5"}) == config_key(CONFIG)


def test_one_layout_alone_answers_for_no_other() -> None:
    """A dry run with one rank says nothing of two."""
    model = architecture_of(FILES, DATA["whole"], None, source="a dry run")

    alone = planner.plan(model, max_model_len=1024)
    assert alone.fits
    with pytest.raises(planner.UnknownArchitecture, match="tensor_parallel_size=1"):
        planner.plan(model, max_model_len=1024, tensor_parallel_size=2)


def test_states_of_any_kind_are_kept() -> None:
    """A layer with two states: 64 x 3 of the model's dtype, 64 x 16 in float32."""
    whole = json.loads(json.dumps(DATA["whole"]))
    whole["caches"]["kinds"] = [
        {
            "kind": "MambaSpec",
            "page_size_bytes": 64 * 3 * 2 + 64 * 16 * 4,
            "state_sizes": [64 * 3, 64 * 16],
            "state_dtypes": ["bfloat16", "float32"],
        }
    ]

    model = read_recorded(FILES, replace(RECORDING, whole=whole))

    plan = planner.plan(model, max_model_len=1024, max_num_seqs=8)
    assert 2 * (64 * 3 * 2 + 64 * 16 * 4) == plan.ranks[0].bytes_per_block


def test_a_cache_of_an_unknown_kind_is_refused() -> None:
    """With what answers instead."""
    whole = json.loads(json.dumps(DATA["whole"]))
    whole["caches"]["kinds"][0]["kind"] = "TelepathicSpec"

    with pytest.raises(planner.UnknownArchitecture, match="planner dry-run"):
        read_recorded(FILES, replace(RECORDING, whole=whole))


def test_a_recording_is_read_as_it_was_written(tmp_path) -> None:
    """By way of its file."""
    path = write_recording(RECORDING, tmp_path / "sent.json")

    assert RECORDING.to_dict() == read_recording(path).to_dict()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "cannot be read as JSON"),
        ("{}", "not a recording"),
        ('{"kind": "vllm-memory-planner recording", "schema": 9}', "schema 9"),
        ('{"kind": "vllm-memory-planner recording", "schema": 1}', "'model'"),
    ],
)
def test_other_files_are_refused(tmp_path, text, says) -> None:
    """In one sentence."""
    path = tmp_path / "other.json"
    path.write_text(text)

    with pytest.raises(PlannerError, match=says):
        read_recording(path)


def test_what_a_reader_refuses_is_looked_up_as_well(folder) -> None:
    """Llama has a reader, and "many" is no size that it could read."""
    config = {
        **CONFIG,
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "intermediate_size": "many",
    }
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(planner.UnknownArchitecture):
        planner.plan(folder, max_model_len=1024)

    write_recording(replace(RECORDING, config_key=config_key(config)))

    plan = planner.plan(folder, max_model_len=1024)
    assert plan.model is not None
    assert plan.model.source == "recorded from vLLM 0.33.0, 2026-11-23"


def test_another_quantisation_than_the_recorded_one_is_refused(folder) -> None:
    """Its tensors are not in the recording."""
    with pytest.raises(planner.UnknownArchitecture, match="quantization='fp8'"):
        planner.plan(folder, max_model_len=1024, quantization="fp8")


@pytest.mark.usefixtures("folder")
def test_a_published_app_reads_no_folder(monkeypatch) -> None:
    """It answers the same to everyone."""
    assert find_recording(CONFIG) is not None

    monkeypatch.setenv("PLANNER_PUBLISHED", "1")

    assert find_recording(CONFIG) is None
