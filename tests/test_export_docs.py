"""The outputs in docs/export.md are those of the commands above them."""

from __future__ import annotations

import re
import shlex

import pytest

from planner import cli
from planner.export import read_link

BLOCK = re.compile(r"```text\n\$ planner (export .+)\n((?:.*\n)*?)```\n")


def blocks(root):
    """Return each command of the page with the output below it."""
    return BLOCK.findall((root / "docs" / "export.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("number", range(8))
def test_the_page_shows_what_is_printed(number, root, capsys):
    """Command by command."""
    command, shown = blocks(root)[number]

    assert cli.FITS == cli.main(shlex.split(command))
    assert shown == capsys.readouterr().out


def test_every_command_of_the_page_is_tried(root):
    """None is left out of the test above."""
    assert 8 == len(blocks(root))


def test_the_page_s_hostile_link_opens_and_says_what_was_left_out():
    """The GPU is taken; the folder and the code are named."""
    opened = read_link("?model=/etc/passwd&gpu=L4&worker_extension_cls=os.system")

    assert "L4" == opened.inputs.gpu
    assert 2 == len(opened.ignored)
