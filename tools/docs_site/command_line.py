"""The command line's reference: what each command says to `--help`.

vLLM's engine arguments, which most commands take, have a page of their own.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from unittest import mock

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from planner.app import cli
from planner.app.cli.engine_flags import ENGINE_ARGUMENTS, title_of
from planner.engine.arguments import ARGUMENTS, Group

_COLUMNS = "72"


@dataclass(frozen=True, slots=True, kw_only=True)
class Help:
    """What one command says of itself."""

    command: str
    """As it is typed, such as `planner solve context`."""
    about: str
    """One sentence, from the list that the command stands in."""
    text: str
    """Without vLLM's engine arguments."""


def helps() -> Iterator[Help]:
    """Yield every command's help, in the order of `planner --help`."""
    with mock.patch.dict(os.environ, COLUMNS=_COLUMNS):
        yield from _helps(cli.build_parser(), "")


def _helps(parser: argparse.ArgumentParser, about: str) -> Iterator[Help]:
    commands = _commands(parser)
    _forget_engine_arguments(parser)
    said = _with_one_word(parser.format_help(), "|".join(commands))
    yield Help(command=parser.prog, about=about, text=said.strip())
    for about_inner, inner in commands.values():
        yield from _helps(inner, about_inner)


def _forget_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """Take them out of a parser that only writes its help from now on."""
    titles = {ENGINE_ARGUMENTS, *map(title_of, Group)}
    named = {argument.name for argument in ARGUMENTS.values()}
    kept = [group for group in parser._action_groups if group.title not in titles]
    parser._action_groups = kept
    parser._actions = [one for one in parser._actions if one.dest not in named]


def _commands(
    parser: argparse.ArgumentParser,
) -> dict[str, tuple[str, argparse.ArgumentParser]]:
    """Return what a command is about, and its parser, by its name.

    argparse has no public door to the commands of a parser.
    """
    return {
        one.dest: (one.help or "", action.choices[one.dest])
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for one in action._choices_actions
    }


def _with_one_word(text: str, names: str) -> str:
    """Write COMMAND for all names of commands in a row, wider than a page."""
    if not names:
        return text
    usage = re.sub(rf"\s+{re.escape(names)}\s+\.\.\.", " COMMAND ...", text, count=1)
    return usage.replace(names, "COMMAND")


class CommandLine(SphinxDirective):
    """`{command-line}`: a section for each command."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        return [self._section(one.command, one.about, one.text) for one in helps()]

    def _section(self, title: str, about: str, text: str) -> nodes.section:
        section = nodes.section("", nodes.title("", title), names=[title])
        self.state.document.note_implicit_target(section)
        if about:
            sentence = f"{about[0].upper()}{about[1:].rstrip('.')}."
            inline, _messages = self.parse_inline(sentence)
            section += nodes.paragraph("", "", *inline)
        section += nodes.literal_block(text, text, language="none")
        return section


def setup(app: Sphinx) -> dict[str, bool]:
    """Give Sphinx the directive."""
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True}
