"""What a text names that may run code is asked about before vLLM is started."""

from __future__ import annotations

import io
import sys

import pytest

from planner.app.cli import BAD_INPUT, confirm, dry_run, main, record
from planner.app.cli.consent import TRUST_TEXT

TEXT = "VLLM_PLUGINS=evil vllm serve Qwen/Qwen3-8B --middleware a.b --max-model-len 4k"
PLAN_FILE = """model: Qwen/Qwen3-8B
gpu: H100
engine_args: {compilation_config: {backend: a.b, mode: 3}, worker_cls: a.b}
"""
COMMANDS = ("confirm", "dry-run", "record")


class Started(Exception):  # noqa: N818 - reads as what it says
    """vLLM would be started now."""


class Terminal(io.StringIO):
    """What a user types."""

    def isatty(self) -> bool:
        """As a terminal says."""
        return True


@pytest.fixture(autouse=True)
def _start(monkeypatch) -> None:
    """Nothing is started, and nobody can be asked."""

    def start(*_given: object, **_more: object) -> None:
        raise Started

    for module, name in (
        (confirm, "_plan_here"),
        (dry_run, "dry_run"),
        (record, "record"),
    ):
        monkeypatch.setattr(module, name, start)
    monkeypatch.setattr(sys, "stdin", io.StringIO())


def started(words: list[str]) -> bool:
    """Whether a command would start vLLM."""
    try:
        status = main(words)
    except Started:
        return True
    assert status == BAD_INPUT
    return False


@pytest.fixture
def files(tmp_path) -> list[str]:
    """A command and a plan file."""
    (tmp_path / "serve.sh").write_text(TEXT)
    (tmp_path / "plan.yaml").write_text(PLAN_FILE)
    return [str(tmp_path / "serve.sh"), str(tmp_path / "plan.yaml")]


def test_a_text_starts_nothing_before_somebody_agrees(
    files, monkeypatch, capsys
) -> None:
    """From a file, as a plan file, after `--`; with a flag or a y it starts."""
    ways = (
        [[one] for one in files]
        + [["-f", one] for one in files]
        + [["--", *TEXT.split()[1:]]]
    )
    lines = [[name, *way] for name in COMMANDS for way in ways]
    silent = [line for line in lines if started(line)]
    told = capsys.readouterr().err
    trusted = [line for line in lines if not started([line[0], TRUST_TEXT, *line[1:]])]
    answers = {}
    for answer in ("y\n", "YES\n", "n\n", "\n", ""):
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        monkeypatch.setattr(sys, "stderr", Terminal())
        answers[answer] = started(["confirm", files[0]])
        asked = sys.stderr.getvalue()

    assert [] == silent
    assert [] == trusted
    for one in (
        "--middleware a.b names code",
        "--worker-cls a.b names code",
        TRUST_TEXT,
    ):
        assert one in told
    assert "VLLM_PLUGINS=evil may name code or a file" in told
    assert "--compilation-config.backend a.b may name code or a file" in told
    assert {"y\n": True, "YES\n": True, "n\n": False, "\n": False, "": False} == answers
    assert "Start vLLM with them? [y/N] " in asked


def test_own_flags_and_a_text_without_code_are_not_asked_about(tmp_path) -> None:
    """Who typed them knows them."""
    text = tmp_path / "serve.sh"
    text.write_text("vllm serve Qwen/Qwen3-8B --max-model-len 4k --port 80 -tp 2")
    own = ["Qwen/Qwen3-8B", "--worker-cls", "a.b", "--env", "VLLM_PLUGINS=mine"]

    assert [] == [
        [name, *words]
        for name in COMMANDS
        for words in (own, [str(text)], [str(text), "--middleware", "a.b"])
        if not started([name, *words])
    ]


def test_a_log_is_compared_without_a_question(tmp_path, capsys) -> None:
    """Nothing is started for it, so a command after `--` may name what it likes."""
    log = tmp_path / "vllm.log"
    log.write_text("INFO nothing of vLLM")

    assert BAD_INPUT == main(["confirm", "--log", str(log), "--", *TEXT.split()[1:]])
    assert "may run code" not in capsys.readouterr().err
