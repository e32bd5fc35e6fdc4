"""Files that users name: what is no regular file, or too large, is a sentence."""

from __future__ import annotations

import contextlib
import io
import json
import os
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import planner
from planner import user_files
from planner.app.cli import main
from planner.errors import PlannerError
from planner.learn.progress import kept
from planner.models import catalogue
from planner.models.recordings import read_recording
from planner.planning.calibrations.reading import read_folder
from planner.user_files import read_file, read_input, read_text, user_path

MOST_SECONDS = 20.0
"""After which reading has no end, on the busiest machine too."""
FILES = catalogue.find("Qwen/Qwen3-8B")
CONFIG = dict(FILES.config if FILES else {})


def _fifo(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def _sparse(folder: Path) -> Path:
    path = folder / "config.json"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    return path


def _loop(folder: Path) -> Path:
    path = folder / "loop"
    path.symlink_to(path)
    return path


ODD: tuple[Callable[[Path], Path], ...] = (
    _fifo,
    _sparse,
    _loop,
    lambda _: Path("/dev/zero"),
    lambda _: Path("/proc/kmsg"),
    lambda folder: folder,
)
READERS: dict[str, Callable[[Path], object]] = {
    "model": lambda path: planner.plan(path / "x" if path.is_dir() else path),
    "plan file": lambda path: _refused("plan", "-f", str(path)),
    "log": lambda path: _refused("confirm", "--log", str(path)),
    "text": planner.read,
    "check": lambda path: _refused("check", str(path)),
    "check of a list": lambda path: _refused("check", str(_named(path, "a.jsonl"))),
    "check of JSON": lambda path: _refused("check", str(_named(path, "a.json"))),
    "recording": read_recording,
    "measurements": lambda path: _refused("calibration", "import", str(path)),
}


def _named(path: Path, name: str) -> Path:
    """Return a link of another name to a path."""
    link = Path(tempfile.mkdtemp(), name)
    link.symlink_to(path)
    return link


def _refused(*words: str) -> None:
    """Run a command, and raise its sentence."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        assert main(list(words)) == 2
    raise PlannerError(said.getvalue())


@pytest.mark.skipif(not Path("/proc/kmsg").exists(), reason="files of Linux")
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("reader", READERS)
def test_an_odd_file_is_a_sentence_in_time(
    odd: Callable[[Path], Path], reader: str, tmp_path: Path
) -> None:
    """A pipe without a writer, a device, a file of a hundred megabytes, links."""
    path = odd(tmp_path)
    before = time.process_time()
    words = (
        r"it is a|is larger than|symbolic links|never ends|is not|of a folder|neither"
    )
    with pytest.raises(PlannerError, match=words):
        READERS[reader](path)

    assert time.process_time() - before < MOST_SECONDS


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "params.json"])
def test_a_pipe_in_a_models_folder_does_not_hang(name: str, tmp_path: Path) -> None:
    """Each file of a model is opened in the same place."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)

    with pytest.raises(PlannerError, match=f"{name} cannot be read: it is a pipe"):
        planner.plan(tmp_path)


def test_a_pipe_among_the_measurements_is_left_alone(tmp_path: Path) -> None:
    """Plans go on without it."""
    os.mkfifo(tmp_path / "abc.json")
    (sentence,) = read_folder(str(tmp_path)).messages

    assert "abc.json cannot be read: it is a pipe" in sentence


def _written(folder: Path, *parts: str, pause_seconds: float = 0.0) -> Path:
    """Return a pipe to which a thread writes, with a pause before each part."""
    path = folder / "written"
    os.mkfifo(path)

    def write() -> None:
        with contextlib.suppress(BrokenPipeError), path.open("w") as pipe:
            for part in parts:
                time.sleep(pause_seconds)
                pipe.write(part)
                pipe.flush()

    threading.Thread(target=write, daemon=True).start()
    return path


def test_a_text_may_come_from_a_pipe(tmp_path: Path) -> None:
    """`planner read <(kubectl logs vllm-0)`: in parts, however large, to its end."""
    pipe = _written(tmp_path, "vllm serve ", "Qwen/Qwen3-8B\n", pause_seconds=0.7)

    assert planner.read(pipe).model == "Qwen/Qwen3-8B"
    pipe.unlink()
    assert read_text(_written(tmp_path, "x" * 300_000)) == "x" * 300_000


def test_a_file_to_check_may_come_from_a_pipe(tmp_path: Path) -> None:
    """`planner check <(helm template ...)`: a pipe can be read only once."""
    pipe = _written(tmp_path, "vllm serve a/b\nvllm serve c/d\n")

    assert ["a/b", "c/d"] == [row.model for row in planner.check(pipe).rows]


def test_a_learners_progress_that_is_no_file_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook goes on without it."""
    os.mkfifo(tmp_path / "workshop.json")
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path))

    assert ({}, {}) == (kept().exercises, kept().predictions)


def test_a_pipe_to_which_nothing_is_written_ends_within_a_second(
    tmp_path: Path,
) -> None:
    """By the clock, not by the processor's time."""
    began = time.monotonic()
    with pytest.raises(PlannerError, match="a pipe to which nothing is written"):
        planner.read(_fifo(tmp_path))

    assert time.monotonic() - began < MOST_SECONDS


def test_a_pipe_without_an_end_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`planner read <(tail -f vllm.log)`; and one that gives more than is read."""
    monkeypatch.setattr(user_files, "MOST_PIPE_SECONDS", 0.7)
    with pytest.raises(PlannerError, match="has not ended after 1 seconds"):
        read_text(_written(tmp_path, *"abcd", pause_seconds=0.4))
    (tmp_path / "written").unlink()
    with pytest.raises(PlannerError, match="is larger than 0 MiB"):
        read_text(_written(tmp_path, "x" * 11), 10)


def test_a_file_that_grew_is_not_read_to_its_end(tmp_path: Path) -> None:
    """Files of /proc say that they have no size."""
    path = tmp_path / "text"
    path.write_bytes(b"x" * 11)

    assert read_file(path, 11) == b"x" * 11
    with pytest.raises(PlannerError, match="is larger than 0 MiB"):
        read_file(path, 10)


def test_an_unknown_users_folder_is_a_path_that_is_not_there() -> None:
    """`Path.expanduser` raises RuntimeError for it."""
    assert Path("~nosuchuser/m") == user_path("~nosuchuser/m")
    with pytest.raises(PlannerError, match="No such file or folder"):
        planner.plan("~nosuchuser/m")


def test_a_closed_input_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """`planner read - <&-`."""
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(PlannerError, match="Standard input is closed"):
        read_input()


HEADERS = (
    '{"a": ' + "[" * 100_000,
    '{"a": {"dtype": "F16", "shape": [1e400]}}',
    '{"a": {"dtype": "F16", "shape": [NaN]}}',
    '{"a": {"dtype": "F16", "shape": [-5, 3]}}',
    '{"a": {"dtype": "F16", "shape": [9223372036854775808]}}',
    '{"a": {"dtype": "F16", "shape": [4294967296, 4294967296]}}',
    '{"a": {"dtype": "F16", "shape": "12"}}',
    '{"a": {"dtype": "F16", "shape": [' + ",".join("9" * 100_000) + "]}}",
)


@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
def test_a_header_of_impossible_shapes_is_refused(header: str, tmp_path: Path) -> None:
    """Depth, infinite, negative and too many elements, in time."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    raw = header.encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(raw)) + raw)
    before = time.process_time()
    with pytest.raises(PlannerError, match="is not a whole safetensors file"):
        planner.plan(tmp_path)

    assert time.process_time() - before < MOST_SECONDS


def test_weights_that_are_a_folder_are_refused(tmp_path: Path) -> None:
    """A download that was laid out wrongly."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(PlannerError, match="it is a folder"):
        planner.plan(tmp_path)


@pytest.mark.parametrize("named", [["b"], {"b": 1}, 1, None])
def test_an_index_that_names_no_files_is_refused(named: object, tmp_path: Path) -> None:
    """`weight_map` of lists, tables and numbers."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    index = {"weight_map": {"a": named}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(PlannerError, match="`weight_map` names the file"):
        planner.plan(tmp_path)


PLAN_FILES = {
    "model: !!set {a, b}\n": "set is not a type",
    "model: m\nengine_args: !!set {max_model_len}\n": "set is not a type",
    "model: m\nengine_args: {max_logprobs: .nan}\n": "has nan or inf",
    '{"model": "m", "engine_args": {"hf_overrides": {"a": [Infinity]}}}': "nan or inf",
    '{"model": "m", "seed": ' + "9" * 5_000 + "}": "more digits",
    '{"model": ' + "[" * 100_000: "nested too deeply",
}


@pytest.mark.parametrize("text", PLAN_FILES, ids=range(len(PLAN_FILES)))
def test_a_plan_file_with_odd_values_is_refused(text: str) -> None:
    """YAML sets, numbers that are none, and numbers without end."""
    with pytest.raises(PlannerError, match=PLAN_FILES[text]):
        planner.export.read_yaml(text)
