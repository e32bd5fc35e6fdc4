"""`%plan` in Jupyter and IPython: a plan by the flags of `vllm serve`.

`%load_ext planner` brings it; `%plan?` says what it takes.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from IPython.core.completer import (
    CompletionContext,
    SimpleMatcherResult,
    context_matcher,
)
from IPython.core.completer import SimpleCompletion as Completion
from IPython.core.magic import no_var_expand, output_can_be_silenced

from planner.cli import refuse_unknown
from planner.cli.plan import load_line
from planner.cli.plan_files import add_file_argument, file_with_flags
from planner.errors import PlannerError
from planner.magic_words import next_words

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from planner.result import Plan
    from planner.widgets.explorer import Explorer

_HELP = """Plan vLLM's GPU memory: what vLLM would do with a model.

    %plan Qwen/Qwen3-8B --gpu H100 --max-model-len 32768
    plan = %plan Qwen/Qwen3-8B --gpu L4 --kv-cache-dtype fp8
    %plan -f plan.yaml --gpu H200 --explore

The arguments are those of `planner plan`, so also those of `vllm serve`. A word that is
$name or {name} stands for a variable of the notebook. The value is the plan, which
shows itself; --explore opens the explorer on it instead. The Tab key completes models,
flags, GPUs and the values of lists.
"""
_LINE = re.compile(r"\s*(?:[\w.,\s]+=\s*)?%plan\s(.*)\Z", re.DOTALL)
_VARIABLE = re.compile(r"(?:\$|\{)([^\W\d]\w*)(\}?)\Z")


class _Parser(argparse.ArgumentParser):
    """Refuses as the planner does, instead of ending the program."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the words given.

        Raises:
            PlannerError: always.
        """
        raise PlannerError(f"{message[:1].upper()}{message[1:]}. `%plan?` helps.")


def load(shell: InteractiveShell) -> None:
    """Register `%plan` and its completion with a shell, once."""
    parser = _parser()

    def plan(line: str) -> Plan | Explorer | None:
        return _answer(shell, parser, line)

    plan.__doc__ = f"{_HELP}\n{parser.format_help()}"
    no_var_expand(plan)  # the braces of JSON are no variables
    output_can_be_silenced(plan)
    shell.register_magic_function(plan, "line", "plan")  # type: ignore[arg-type]
    _complete_with(shell, parser)


def unload(shell: InteractiveShell) -> None:
    """Take `%plan` and its completion back."""
    shell.magics_manager.magics["line"].pop("plan", None)
    _forget_matchers(shell)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%plan", add_help=False, allow_abbrev=False)
    add_file_argument(parser)
    parser.add_argument(
        "--explore", action="store_true", help="open the explorer on the plan"
    )
    parser.add_argument("-h", "--help", action="store_true", help="print this text")
    return parser


def _answer(
    shell: InteractiveShell, parser: argparse.ArgumentParser, line: str
) -> Plan | Explorer | None:
    try:
        return _planned(parser, _words(line, shell.user_ns))
    except PlannerError as error:
        sentence = str(error)
        # IPython asks the exception itself how it is to be shown.
        error._render_traceback_ = lambda: [sentence]  # type: ignore[attr-defined]
        raise


def _planned(
    parser: argparse.ArgumentParser, words: list[str]
) -> Plan | Explorer | None:
    known, unknown = parser.parse_known_args(words)
    options = vars(known)
    is_explorer = options.pop("explore")
    if options.pop("help"):
        print(_HELP, parser.format_help(), sep="\n")  # noqa: T201 - asked for
        return None
    refuse_unknown(unknown, "`%plan?` helps.")
    asked = file_with_flags(options)
    result = asked.inputs.plan()
    if is_explorer:
        return result.explore()
    if asked.load is not None:
        from planner.solve import serving  # noqa: PLC0415 - few files name a load

        print(load_line(serving(result, asked.load)))  # noqa: T201 - beside the plan
    return result


def _words(line: str, variables: Mapping[str, Any]) -> list[str]:
    """Split a line as a shell would, and put values in the place of names.

    Raises:
        PlannerError: for a quote that is not closed, or a name without a value.
    """
    try:
        words = shlex.split(line.rstrip().rstrip(";"))
    except ValueError:
        raise PlannerError("A quote is opened and not closed.") from None
    return [_value_of(word, variables) for word in words]


def _value_of(word: str, variables: Mapping[str, Any]) -> str:
    named = _VARIABLE.match(word)
    if named is None or word.startswith("{") != bool(named[2]):
        return word
    if named[1] not in variables:
        raise PlannerError(f"{word}: no variable of the notebook is called {named[1]}.")
    value = variables[named[1]]
    return json.dumps(value) if isinstance(value, dict | list | bool) else str(value)


def _complete_with(shell: InteractiveShell, parser: argparse.ArgumentParser) -> None:
    """Answer the Tab key on lines of `%plan`."""

    @context_matcher(identifier="planner.magic")  # type: ignore[untyped-decorator]
    def match(context: CompletionContext) -> SimpleMatcherResult:
        line = _LINE.match(context.text_until_cursor)
        if line is None:
            return {"completions": []}
        words = next_words(parser, line[1])
        return {
            "completions": [Completion(text=word) for word in words.offered],
            "matched_fragment": words.typed,
            "suppress": True,
            "ordered": True,
        }

    _forget_matchers(shell)
    shell.Completer.custom_matchers.append(match)


def _forget_matchers(shell: InteractiveShell) -> None:
    """Drop what an earlier loading left."""
    matchers = shell.Completer.custom_matchers
    matchers[:] = [
        one
        for one in matchers
        if getattr(one, "matcher_identifier", "") != "planner.magic"
    ]
