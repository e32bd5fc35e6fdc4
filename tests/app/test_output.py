"""Standard output that lacks characters, is closed, full, or no longer read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from planner.app.cli import main
from planner.app.cli.export import write_whole
from planner.errors import PlannerError

ROOT = Path(__file__).parents[2]
PLAN = f"{sys.executable} -m planner plan Qwen/Qwen3-8B --gpu H100"


def run(line: str) -> tuple[int, str, str]:
    """Run a line of a shell."""
    done = subprocess.run(
        ["bash", "-c", line], cwd=ROOT, capture_output=True, check=False
    )
    return done.returncode, done.stdout.decode("cp1252"), done.stderr.decode()


def test_an_old_code_page_gets_plain_characters() -> None:
    """The tick of a verdict is not in cp1252."""
    status, out, err = run(f"PYTHONIOENCODING=cp1252 {PLAN}")

    assert (0, "") == (status, err)
    assert "\nOK Fits: " in out


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (f"{PLAN} >&-", "Standard output is closed"),
        (f"{PLAN} >/dev/full", "The output cannot be written: No space left"),
        (f"{sys.executable} -m planner models >/dev/full", "cannot be written"),
        (f"{sys.executable} -m planner plan --help >/dev/full", "cannot be written"),
        (f"{sys.executable} -m planner --version >/dev/full", "cannot be written"),
    ],
)
def test_an_output_that_takes_nothing_is_a_sentence(line: str, sentence: str) -> None:
    """With the status of bad input, and no traceback."""
    status, _, err = run(line)

    assert status == 2
    assert sentence in err
    assert err.count("\n") == 1


def test_a_shells_own_pipe_is_read() -> None:
    """A text of a command, where a file could stand: a plan's own file as well."""
    text, yaml = "vllm serve Qwen/Qwen3-8B", "model: Qwen/Qwen3-8B"
    for line in (
        f"{sys.executable} -m planner read --gpu H100 <(echo {text})",
        f"{sys.executable} -m planner plan --gpu H100 <(echo {text})",
        f"{sys.executable} -m planner plan -f <(echo '{yaml}')",
    ):
        status, out, err = run(line)

        assert (status, err) == (0, "")
        assert "Qwen/Qwen3-8B on H100" in out


def test_a_reader_that_ends_is_no_error() -> None:
    """`planner gpus | head -1`."""
    line = f"set -o pipefail; {sys.executable} -m planner gpus --json | head -1"

    assert (0, "[\n", "") == run(line)


def test_half_of_a_character_is_printed_as_its_number() -> None:
    """A file name of a terminal in another encoding."""
    status, out, err = run(rf"{PLAN} --served-model-name $'a\xff'")

    assert (0, "") == (status, err)
    assert r"a\udcff" in out


@pytest.mark.parametrize("text", ["[" * 50_000, '{"a":' * 5_000 + "1" + "}" * 5_000])
def test_deep_json_of_a_flag_is_a_sentence(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python's parser of JSON gives up at a thousand; from 3.14 on it reads more."""
    try:
        status: object = main(["plan", "Qwen/Qwen3-8B", "--hf-overrides", text])
    except SystemExit as end:
        status = end.code
    (said,) = capsys.readouterr().err.splitlines()

    assert status == 2
    assert re.match(r"planner: .*hf.overrides(: (its JSON is )?nested|='\[\[)", said)


def test_an_export_into_a_pipe_does_not_wait_for_a_reader(tmp_path: Path) -> None:
    """Nor does one into links in a circle end in a traceback."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PlannerError, match=r"--output .*/pipe: No such device"):
        write_whole(tmp_path / "pipe", "text")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(PlannerError, match=r"--output .*/loop: .*(loop|links)"):
        write_whole(tmp_path / "loop", "text")
