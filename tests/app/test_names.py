"""The name that was typed, in helps, hints, errors and completion."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import pytest

from planner.app import cli
from planner.app.cli.names import COMMANDS, as_typed

LONG = "vllm-memory-planner"
OTHER_NAME = re.compile(rf"(?<![\w-])planner (?:{'|'.join(COMMANDS)}|--\w)")
"""A command line that begins with the other name."""


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program was started as `vllm-memory-planner`."""
    monkeypatch.setattr("sys.argv", [f"/some/bin/{LONG}"])


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """All that a command prints."""
    with suppress(SystemExit):  # help ends the program
        cli.main(list(words))
    told = capsys.readouterr()
    return told.out + told.err


@pytest.mark.usefixtures("typed")
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_a_help_names_the_command_that_was_typed(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In its usage, its examples and its sentences."""
    text = printed(capsys, *filter(None, [command]), "--help")

    assert text.startswith(f"usage: {' '.join(filter(None, [LONG, command]))}")
    assert text.count(LONG) > 1
    assert None is OTHER_NAME.search(text)


@pytest.mark.usefixtures("typed")
@pytest.mark.parametrize(
    "line",
    [
        "",
        "plam",
        "plan",
        "plan --made-up",
        "plan ./nowhere",
        "gpus --made-up",
        "schema plam",
        "read",
        "calibration show none",
    ],
)
def test_an_error_names_the_command_that_was_typed(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a sentence, and in JSON with what to do."""
    text = printed(capsys, *line.split())
    found: dict[str, Any] = json.loads(printed(capsys, *line.split(), "--json"))

    assert None is OTHER_NAME.search(text)
    assert None is OTHER_NAME.search(found["error"] + found["allowed"] + found["do"])
    assert LONG in text + found["do"]


@pytest.mark.usefixtures("typed")
def test_what_is_no_command_line_is_kept() -> None:
    """A sentence about the planner, a path, an address."""
    for text in ("What the planner models is told.", "/a/planner plan", "planner:"):
        assert text == as_typed(text)
    assert f"`{LONG} gpus` lists them." == as_typed("`planner gpus` lists them.")


def test_another_name_leaves_a_text_as_it_is() -> None:
    """`python -m planner`, a notebook's kernel, `planner` itself."""
    assert "`planner gpus`" == as_typed("`planner gpus`")
