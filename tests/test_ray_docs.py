"""The samples of docs/ray.md run, and show what they give."""

from __future__ import annotations

import doctest
import re
import shlex

import pytest

from planner import cli

SAMPLE = re.compile(r"```python\n(.*?)```\n", re.S)
COMMAND = re.compile(r"```text\n\$ planner (.+)\n((?:.*\n)*?)```\n")


def page(root):
    """Return the page."""
    return (root / "docs" / "ray.md").read_text(encoding="utf-8")


def test_each_sample_gives_what_it_shows(root):
    """One after the other, as a reader types them."""
    names: dict[str, object] = {}
    samples = SAMPLE.findall(page(root))
    runner = doctest.DocTestRunner()
    for number, sample in enumerate(samples):
        test = doctest.DocTestParser().get_doctest(
            sample, names, f"docs/ray.md, sample {number + 1}", None, None
        )
        assert test.examples
        runner.run(test, clear_globs=False)
        names.update(test.globs)

    assert 0 == runner.summarize().failed
    assert len(samples) >= 4


@pytest.mark.parametrize("number", range(2))
def test_each_command_prints_what_it_shows(number, root, capsys):
    """Command by command."""
    command, shown = COMMAND.findall(page(root))[number]

    assert cli.FITS == cli.main(shlex.split(command))
    assert shown == capsys.readouterr().out


def test_every_command_of_the_page_is_tried(root):
    """None is left out of the test above."""
    assert 2 == len(COMMAND.findall(page(root)))
