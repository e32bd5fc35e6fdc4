"""What docs/advice.md shows is what its commands print, and its code gives."""

import re
import shlex

import pytest

import planner
from planner import cli
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "advice.md").read_text(encoding="utf-8")
RUNS = re.findall(r"```text\n\$ (planner advise .*)\n((?:.*\n)*?)```", PAGE)
CODE = re.findall(r"```python\n((?:.*\n)*?)```", PAGE)


def test_the_page_shows_a_run():
    """Without one, nothing below would look at anything."""
    assert len(RUNS) >= 2
    assert len(CODE) == 1


@pytest.mark.parametrize(("command", "shown"), RUNS, ids=[run[0] for run in RUNS])
def test_the_page_shows_what_a_command_prints(command, shown, capsys):
    """Run each of them again; a line of three dots stands for what is left out."""
    cli.main(shlex.split(command)[1:])
    printed = capsys.readouterr().out

    parts = re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)
    assert printed.startswith(parts[0])
    assert printed.endswith(parts[-1])
    place = 0
    for part in parts:
        assert part in printed[place:]
        place += printed[place:].index(part) + len(part)


def test_the_page_shows_what_its_code_gives():
    """Each expression with a value behind it."""
    namespace = {"planner": planner}
    shown = re.findall(r"^(.+?)  # ('.*'|True)", CODE[0], flags=re.MULTILINE)
    exec(CODE[0], namespace)

    assert shown
    for expression, value in shown:
        assert repr(eval(expression, namespace)) == value
