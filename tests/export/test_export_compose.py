"""Compose files: they hold to the specification, and start the same plan."""

from __future__ import annotations

import json
import shlex
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner import GPU, PlannerError
from planner.engine.gpu import Processor
from planner.engine.releases import NEWEST
from planner.export import compose
from planner.export.yaml_text import yaml_text
from planner.models import catalogue
from tests import plans
from tests.export.test_export_command import ARGUMENTS

MODEL = "Qwen/Qwen3-8B"
CPU = GPU(name="CPU", total_memory_bytes=64 * 2**30)
SCHEMA = json.loads(
    files("check_jsonschema")
    .joinpath("builtin_schemas/vendor/compose-spec.json")
    .read_text(encoding="utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def read(plan):
    """Read a plan's file back, and hold it to the Compose specification."""
    document = yaml.safe_load(compose(plan))
    VALIDATOR.validate(document)
    return document["services"]["vllm"]


def words(service):
    """Return the words that the container runs, as Compose hands them on."""
    return [*service["entrypoint"], *(w.replace("$$", "$") for w in service["command"])]


def test_a_plan_of_two_gpus_is_one_container():
    """Image of the release, both GPUs, a volume for the model, patience for loading."""
    plan = planner.plan(MODEL, gpu="H100", tensor_parallel_size=2, max_model_len=8192)
    service = read(plan)

    assert f"vllm/vllm-openai:v{NEWEST}" == service["image"]
    assert shlex.split(plan.command()) == words(service)
    assert [{"driver": "nvidia", "capabilities": ["gpu"], "count": 2}] == service[
        "deploy"
    ]["resources"]["reservations"]["devices"]
    assert ["huggingface:/root/.cache/huggingface"] == service["volumes"]
    assert ["127.0.0.1:8000:8000"] == service["ports"]
    # 4 GiB, and 2 for each GPU.
    assert "8gb" == service["shm_size"]
    assert "/health" in service["healthcheck"]["test"][-1]
    # 15.27 GiB at 50 MB/s are 5.5 minutes; with 10 for the rest, 16.
    assert "16m" == service["healthcheck"]["start_period"]


def test_a_token_is_handed_on_and_never_written():
    """Its name stands there with no value: Compose takes the shell's."""
    plan = planner.plan(
        MODEL, hf_token="hf_x1", env={"HF_TOKEN": "hf_x2", "A_SECRET": "hf_x3"}
    )

    assert "hf_x" not in compose(plan)
    assert {"HF_TOKEN": None, "A_SECRET": None} == read(plan)["environment"]


def test_variables_of_the_plan_are_set():
    """A dollar sign stays one: Compose would put a variable in."""
    plan = planner.plan(MODEL, env={"VLLM_USE_FLASHINFER_SAMPLER": "0", "A": "$HOME"})

    assert {
        "HF_TOKEN": None,
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        "A": "$$HOME",
    } == read(plan)["environment"]


def test_a_processor_needs_another_image_and_no_gpu():
    """vLLM's CPU build, for the kind of processor."""
    x86 = read(planner.plan(MODEL, gpu=CPU, max_model_len=2048))
    arm = GPU(
        name="CPU",
        total_memory_bytes=64 * 2**30,
        processor=Processor(architecture="aarch64"),
    )

    assert x86["image"].endswith(f"/vllm-cpu-release-repo:v{NEWEST}")
    assert "deploy" not in x86
    assert "vllm-arm64-cpu" in read(planner.plan(MODEL, gpu=arm))["image"]


def test_a_slice_of_a_gpu_is_named_by_whoever_starts_it():
    """A count would take whole GPUs."""
    service = read(planner.plan("Qwen/Qwen3-0.6B", gpu="H100-MIG-1g.10gb"))
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]

    assert "count" not in device
    assert "MIG_DEVICE" in device["device_ids"][0]


def test_a_folder_is_mounted(tiny_folder):
    """The container sees it under /models, and cannot write to it."""
    service = read(planner.plan(tiny_folder, max_model_len=1024))

    assert ["vllm", "serve", "/models/tiny"] == words(service)[:3]
    assert {
        "type": "bind",
        "source": str(tiny_folder.resolve()),
        "target": "/models/tiny",
        "read_only": True,
    } == service["volumes"][1]


@pytest.mark.parametrize(
    "arguments",
    [
        {"tensor_parallel_size": 8, "pipeline_parallel_size": 2},
        {"tensor_parallel_size": 2, "nnodes": 2},
    ],
)
def test_several_machines_are_no_compose_file(arguments):
    """More than eight GPUs, or nnodes: Compose starts containers on one machine."""
    with pytest.raises(PlannerError, match="one machine"):
        compose(planner.plan(MODEL, **arguments))


def test_gpus_that_cannot_be_divided_are_named():
    """12 GPUs over two machines are six each; three machines of 8 GPUs are not."""
    with pytest.raises(PlannerError, match="8 GPUs cannot be divided over 3"):
        compose(planner.plan(MODEL, tensor_parallel_size=8, nnodes=3))


@pytest.mark.parametrize("make", plans.ALL)
def test_every_kind_of_plan_has_a_file(make):
    """Also one that does not fit: the comment says so."""
    plan = make()

    assert read(plan)["command"][0] == plan.name
    assert f"{plan.outcome}." in compose(plan).splitlines()[0]


@given(ARGUMENTS)
def test_any_file_runs_the_plan_s_own_command(arguments):
    """Word by word, whatever YAML and Compose make of quotes and dollars."""
    try:
        plan = planner.plan(MODEL, **arguments)
    except PlannerError:
        return
    if plan.gpus_total > 8:  # several machines
        return

    assert shlex.split(plan.command()) == words(read(plan))


PLAIN = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(exclude_categories=["Cs"])),
        st.sampled_from(
            ["no", "1e3", "0x1", "12:30", "~", "- a", "a: b", "#", "2026-01-01"]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=5), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(PLAIN)
def test_yaml_is_read_back_as_it_was_written(value):
    """Words like `no` and times like 12:30 stay texts."""
    assert value == yaml.safe_load(yaml_text(value))


def test_a_dollar_sign_in_a_folders_name_stays(tmp_path: Path) -> None:
    """Compose would put a variable in its place, in the target as well."""
    found = catalogue.find("Qwen/Qwen3-8B")
    assert found is not None
    folder = tmp_path / "a$HOME"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(dict(found.config)))
    service = yaml.safe_load(compose(planner.plan(folder, gpu="H100")))["services"][
        "vllm"
    ]

    assert service["volumes"][1]["target"] == "/models/a$$HOME"
    assert "/models/a$$HOME" in service["command"]
