"""The outputs in docs/solve.md are what the commands print."""

import re
import shlex

import pytest

from planner import cli
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "solve.md").read_text(encoding="utf-8")
RUNS = re.findall(r"```text\n\$ (planner solve .*)\n((?:.*\n)*?)```", PAGE)


@pytest.mark.parametrize(("command", "output"), RUNS, ids=[run[0] for run in RUNS])
def test_the_page_shows_what_a_command_prints(command, output, capsys):
    """Run each of them again."""
    cli.main(shlex.split(command)[1:])

    assert output == capsys.readouterr().out


def test_every_question_is_shown():
    """One run or more of each."""
    asked = {run[0].split()[2] for run in RUNS}
    assert {
        "context",
        "requests",
        "gpus",
        "utilization",
        "kv-cache-memory",
        "instances",
    } == asked
