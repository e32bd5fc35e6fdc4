"""The command line's reference: what each command says to `--help`.

vLLM's engine arguments, which most commands take, are shown once.
"""

from __future__ import annotations

import argparse
import os
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from unittest import mock

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from planner import cli

ENGINE_ARGUMENTS = "vLLM's engine arguments"
_COLUMNS = "72"
_ENGINE_FLAGS = re.compile(rf"^{ENGINE_ARGUMENTS}:\n(?:[ ]+.*\n?)+", re.MULTILINE)
_IN_BRACKETS = re.compile(r"\[(--?[\w-]+)(?:[^\[\]]|\[[^\]]*\])*\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Help:
    """What one command says of itself."""

    command: str
    """As it is typed, such as `planner solve context`."""
    about: str
    """One sentence, from the list that the command stands in."""
    text: str
    """Without vLLM's engine arguments."""
    engine_arguments: str
    """Those; empty where the command takes none."""


def helps() -> Iterator[Help]:
    """Yield every command's help, in the order of `planner --help`."""
    with mock.patch.dict(os.environ, COLUMNS=_COLUMNS):
        yield from _helps(cli.build_parser(), "")


def _helps(parser: argparse.ArgumentParser, about: str) -> Iterator[Help]:
    commands = _commands(parser)
    said = _with_one_word(parser.format_help(), "|".join(commands))
    found = _ENGINE_FLAGS.search(said)
    engine = found[0] if found else ""
    yield Help(
        command=parser.prog,
        about=about,
        text=_shortened(said.replace(engine, ""), engine).strip(),
        engine_arguments=engine,
    )
    for about_inner, inner in commands.values():
        yield from _helps(inner, about_inner)


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


def _shortened(text: str, engine: str) -> str:
    """Take the engine arguments out of the line of usage."""
    if not engine:
        return text
    flags = set(re.findall(r"^ +(?:-\w.*, )?(--[\w-]+)", engine, re.MULTILINE))
    usage, _, rest = text.partition("\n\n")
    kept = _IN_BRACKETS.sub(
        lambda found: "" if found[1] in flags else found[0], " ".join(usage.split())
    )
    line = textwrap.fill(
        " ".join(kept.split()), 70, subsequent_indent=" " * 8, break_on_hyphens=False
    )
    return f"{line}\n\n{rest}"


class CommandLine(SphinxDirective):
    """`{command-line}`: a section for each command, and one for vLLM's arguments."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        said = list(helps())
        engine = max((one.engine_arguments for one in said), key=len)
        sections = [self._section(one.command, one.about, one.text) for one in said]
        return [
            *sections,
            self._section(
                ENGINE_ARGUMENTS,
                "Every command that plans takes them, spelled as `vllm serve` has "
                "them; the glossary says what each does to memory.",
                textwrap.dedent(engine.partition("\n")[2]).strip(),
            ),
        ]

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
