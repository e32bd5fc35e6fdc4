"""Standard output that lacks characters, is closed, full, or no longer read."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from planner.app.cli import INTERRUPTED, main
from planner.app.cli.export import write_whole
from planner.errors import PlannerError

ROOT = Path(__file__).parents[2]
PLANNER = f"{shlex.quote(sys.executable)} -m planner"
PLAN = f"{PLANNER} plan Qwen/Qwen3-8B --gpu H100"


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
        (f"{PLANNER} models >/dev/full", "cannot be written"),
        (f"{PLANNER} plan --help >/dev/full", "cannot be written"),
        (f"{PLANNER} --version >/dev/full", "cannot be written"),
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
        f"{PLANNER} read --gpu H100 <(echo {text})",
        f"{PLANNER} plan --gpu H100 <(echo {text})",
        f"{PLANNER} plan -f <(echo '{yaml}')",
    ):
        status, out, err = run(line)

        assert (status, err) == (0, "")
        assert "Qwen/Qwen3-8B on H100" in out


def test_a_reader_that_ends_is_no_error() -> None:
    """`planner gpus | head -1`."""
    line = f"set -o pipefail; {PLANNER} gpus --json | head -1"

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


def on_a_terminal(*words: str) -> str:
    """What a terminal gets of a command."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "planner", *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=theirs, stderr=theirs):
        os.close(theirs)
        got = b""
        with suppress(OSError):  # the terminal's end
            while more := os.read(ours, 4096):
                got += more
    os.close(ours)
    return got.decode()


def test_a_terminal_obeys_no_name_of_a_file(tmp_path: Path) -> None:
    """A title of the window, a bell, a cleared screen: in an answer and an error."""
    hostile = "a\x1b]0;own\x07\x9b2Jb"
    answer = on_a_terminal(
        *("plan", "Qwen/Qwen3-8B", "--gpu", "H100", "--served-model-name", hostile)
    )
    error = on_a_terminal("read", str(tmp_path / hostile))

    for text in (answer, error):
        assert r"a\x1b]0;own\x07\x9b2Jb" in text
        assert not re.search(r"\x1b(?!\[[\d;]*m)|[\x07\x9b]", text)
    assert "\x1b[" in answer  # its verdict is in colour


@pytest.mark.parametrize("command", ["read", "check"])
def test_the_log_of_a_workflow_obeys_no_text_either(
    command: str, tmp_path: Path
) -> None:
    """A pipe ends on a terminal, too; hidden text is no colour."""
    script = tmp_path / "start.sh"
    script.write_text("vllm serve a/b\x1b[8mc\x1b]0;own\x07\x9b2J\n", encoding="utf-8")
    words = [sys.executable, "-m", "planner", command, str(script), "--gpu", "L4"]
    done = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, check=False, encoding="utf-8"
    )

    assert r"a/b\x1b[8mc" in done.stdout
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", done.stdout + done.stderr)


def test_an_error_that_cannot_be_written_keeps_its_status() -> None:
    """1 would mean that it does not fit."""
    assert 2 == run(f"{PLANNER} plan nosuch 2>/dev/full")[0]


def test_an_interrupt_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """The status that shells give it; a notebook gets the exception."""
    from planner.app import cli

    def interrupted(_words: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupted)
    monkeypatch.setattr(cli, "prepare_output", lambda: None)
    monkeypatch.setattr(sys, "argv", ["planner", "gpus"])
    assert INTERRUPTED == main()
    with pytest.raises(KeyboardInterrupt):
        main(["gpus"])


def test_bytes_that_are_no_text_are_written_as_their_numbers(tmp_path: Path) -> None:
    """A file has them, and a link cannot."""
    write_whole(tmp_path / "out", "a\udcff")
    assert (tmp_path / "out").read_bytes() == rb"a\udcff"
    line = f"{PLANNER} export Qwen/Qwen3-8B --gpu H100 --format"
    for form, status in (("link", 2), ("markdown", 0)):  # a report says why
        found, out, err = run(rf"{line} {form} --served-model-name $'a\xff'")
        assert found == status
        assert "no link can have it" in out + err
