"""`planner export` and `planner plan -f`: what they write, and where."""

from __future__ import annotations

import json

import pytest
import yaml

import planner
from planner import PlannerError
from planner.app import cli
from planner.app.cli.export import FORMATS, write_whole

MODEL = "Qwen/Qwen3-8B"
FILE = """\
model: Qwen/Qwen3-8B
gpu: L40S
engine_args:
  max_model_len: 8192
  kv_cache_dtype: fp8
"""


@pytest.fixture
def plan_file(tmp_path):
    """Return the path of a plan file."""
    path = tmp_path / "plan.yaml"
    path.write_text(FILE, encoding="utf-8")
    return path


def out(capsys, *words):
    """Return what a command that succeeds prints."""
    assert cli.FITS == cli.main([*map(str, words)])
    return capsys.readouterr().out


@pytest.mark.parametrize("kind", FORMATS)
def test_each_format_is_what_the_function_returns(kind, capsys):
    """Standard output holds the text and nothing else."""
    bare = kind in ("ray-data", "ray-job", "ray-cluster")
    door = {"entrypoint": "engine"} if bare else {}
    plan = planner.plan(MODEL, max_model_len=4096, **door)
    printed = out(capsys, "export", MODEL, "--max-model-len", 4096, "--format", kind)
    expected = (
        plan.command()
        if kind == "command"
        else getattr(planner.export, kind.replace("-", "_"))(plan)
    )

    assert expected.rstrip("\n") == printed.rstrip("\n")
    assert printed.endswith("\n")


def test_a_ray_pipeline_is_asked_for_by_ray_s_names(capsys):
    """Engines, accelerator, tables in JSON; a program of an older Ray."""
    words = ["--concurrency", "2,4", "--accelerator-type", "H100", "--batch-size", 8]
    table = ["--preprocess-map-kwargs", '{"num_gpus": 0.5}']
    export = ("export", MODEL, "--format", "ray-data")
    code = out(capsys, *export, *words, *table)
    older = out(capsys, *export, "--concurrency", 4, "--ray-version", "2.52.1")

    for line in (
        "    concurrency=(2, 4),",
        '    accelerator_type="H100",',
        "    batch_size=8,",
        '        preprocess_map_kwargs={"num_gpus": 0.5},',
    ):
        assert line in code.splitlines()
    assert "engine_kwargs" not in code
    assert "build_llm_processor" in older


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--format", "csv", "--concurrency", "2"], "concurrency: part of a Ray"),
        (["--format", "ray-data", "--concurrency", "4,2"], "the minimum, 4, is above"),
        (["--format", "ray-data", "--ray-version", "1.0"], "ray_version='1.0'"),
    ],
)
def test_what_a_pipeline_cannot_be_is_said(words, reason, capsys):
    """In one sentence on standard error."""
    assert cli.FITS != cli.main(["export", MODEL, *words])
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--concurrency", "x"], ["--preprocess-map-kwargs", "[]"]]
)
def test_flags_of_a_pipeline_that_cannot_be_read_are_refused(words, capsys):
    """As every flag of a wrong type is."""
    assert cli.BAD_INPUT == cli.main(["export", MODEL, "--format", "ray-data", *words])
    assert words[0] in capsys.readouterr().err


def test_a_plan_file_is_planned(plan_file, capsys):
    """As if its lines had been typed."""
    whole = json.loads(out(capsys, "plan", "-f", plan_file, "--json"))

    assert (MODEL, "L40S") == (whole["model"], whole["gpu"]["name"])
    assert 8192 == whole["resolved"]["max_model_len"]


@pytest.mark.parametrize(
    ("requests", "status"), [(16, cli.FITS), (500, cli.DOES_NOT_FIT)]
)
def test_a_file_s_load_decides_as_well(plan_file, requests, status, capsys):
    """An L40S holds 16 requests of 4,000 tokens in fp8, not 500."""
    load = f"load: {{prompt_tokens: 3000, output_tokens: 1000, requests: {requests}}}\n"
    plan_file.write_text(FILE + load, encoding="utf-8")

    assert status == cli.main(["plan", "-f", str(plan_file)])
    is_served = status == cli.FITS
    text = capsys.readouterr().out
    assert f"of {requests} at once" in text.splitlines()[1]
    assert f"{requests} requests of 4,000 tokens need {requests} x 250 + 1" in text

    assert status == cli.main(["plan", "-f", str(plan_file), "--json"])
    assert is_served is json.loads(capsys.readouterr().out)["serves"]["is_served"]


def test_flags_count_instead_of_the_file(plan_file, capsys):
    """GPU, model and arguments; the rest of the file stays."""
    words = ("--gpu", "H100", "--max-model-len", 4096, "--json")
    whole = json.loads(out(capsys, "plan", "Qwen/Qwen3-4B", "-f", plan_file, *words))

    assert ("Qwen/Qwen3-4B", "H100") == (whole["model"], whole["gpu"]["name"])
    assert 4096 == whole["resolved"]["max_model_len"]
    assert "fp8" == whole["resolved"]["kv_cache_dtype"]


def test_a_plan_can_be_kept_and_planned_again(tmp_path, capsys):
    """What `--format yaml` writes, `-f` reads."""
    path = tmp_path / "kept.yaml"
    arguments = (
        "--limit-mm-per-prompt",
        '{"image": 2}',
        "--served-model-name",
        "a",
        "b",
    )
    out(capsys, "export", MODEL, *arguments, "--format", "yaml", "--output", path)
    command = out(capsys, "export", "-f", path, "--format", "command").strip()

    assert {"image": 2} == yaml.safe_load(path.read_text())["engine_args"][
        "limit_mm_per_prompt"
    ]
    assert command.endswith("--served-model-name a b")


def test_a_link_opens_the_page_that_was_named(capsys):
    """--base-url goes before the query."""
    words = ("--format", "link", "--base-url", "http://127.0.0.1:8866/")

    assert out(capsys, "export", MODEL, *words).startswith(
        "http://127.0.0.1:8866/?model=Qwen/Qwen3-8B&"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plan"], "Name a model"),
        (["plan", "-f", "no/such.yaml"], "No such file"),
        (["export", MODEL, "--format", "compose", "-xy"], "'-xy' was not expected"),
        (
            ["export", MODEL, "--format", "json", "--output", "no/such/folder/x"],
            "No such file or directory",
        ),
        (
            ["export", MODEL, "--tensor-parallel-size", "16", "--format", "compose"],
            "one machine",
        ),
    ],
)
def test_bad_input_ends_with_two(words, message, capsys):
    """The sentence stands on standard error; nothing is written."""
    assert cli.BAD_INPUT == cli.main(words)
    told = capsys.readouterr()
    assert message in told.err
    assert "" == told.out


def test_a_mistake_in_a_file_names_file_and_line(tmp_path, capsys):
    """So that an editor finds it."""
    path = tmp_path / "plan.yaml"
    path.write_text("model: m\nengine_args:\n  max_modle_len: 1\n")

    assert cli.BAD_INPUT == cli.main(["plan", "-f", str(path)])
    assert f"{path}: Line 3:" in capsys.readouterr().err


def test_a_file_is_replaced_whole_or_stays(tmp_path, monkeypatch):
    """A full disk leaves what was there, and nothing beside it."""
    path = tmp_path / "report.html"
    path.write_text("old")
    path.chmod(0o640)

    def fail(*_arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.replace", fail)
        with pytest.raises(PlannerError, match="No space left on device"):
            write_whole(path, "new")
    assert "old" == path.read_text()

    write_whole(path, "new")
    assert ("new", 0o640) == (path.read_text(), path.stat().st_mode & 0o777)
    assert [path] == list(tmp_path.iterdir())
