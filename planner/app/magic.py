"""`%plan` and `%%vllm` in Jupyter and IPython: a plan from flags, or from a text.

`%load_ext planner` registers both, and the completion of `%plan`; `%plan?` and
`%%vllm?` are their help.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from IPython.core.completer import (
    CompletionContext,
    SimpleMatcherResult,
    context_matcher,
)
from IPython.core.completer import SimpleCompletion as Completion
from IPython.core.magic import no_var_expand, output_can_be_silenced

import planner
from planner.app.cli import refuse_unknown
from planner.app.cli.engine_flags import add_file_argument, file_with_flags
from planner.app.cli.plan import load_line
from planner.engine.arguments import ARGUMENTS
from planner.engine.gpu import CPU
from planner.engine.gpu import catalogue as gpu_catalogue
from planner.engine.releases import MODELLED
from planner.errors import PlannerError
from planner.models import catalogue
from planner.show.html import tag
from planner.solve import serving

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from planner.app.widgets.explorer import Explorer
    from planner.export.texts import Reading
    from planner.export.texts.explaining import Explanation
    from planner.planning.result import Plan

Result = TypeVar("Result")
_HELP = """Plan vLLM's GPU memory: what vLLM would do with a model.

    %plan Qwen/Qwen3-8B --gpu H100 --max-model-len 32768
    plan = %plan Qwen/Qwen3-8B --gpu L4 --kv-cache-dtype fp8
    %plan -f plan.yaml --gpu H200 --explore

The arguments are those of `planner plan`, so also those of `vllm serve`. A word that is
$name or {name} is replaced by a variable of the notebook. The value is the plan, which
is displayed; --explore opens the explorer on it instead. The Tab key completes models,
flags, GPUs and the values of lists.
"""
_VLLM_HELP = """Plan the start of vLLM that a cell describes; nothing of it is run.

    %%vllm --gpu H100
    docker run --gpus 2 vllm/vllm-openai:v0.33.0 \\
      --model Qwen/Qwen3-32B --tensor-parallel-size 2

The cell holds a command, a container, a manifest, Python code, a log or an error. The
value shows what was read and its plan, or why the start failed and what would help; its
parts are `.reading`, `.plan` and `.explanation`. In the next cell it is `_`.
"""
_LINE = re.compile(r"\s*(?:[\w.,\s]+=\s*)?%plan\s(.*)\Z", re.DOTALL)
_VARIABLE = re.compile(r"(?:\$|\{)([^\W\d]\w*)(\}?)\Z")


def load(shell: InteractiveShell) -> None:
    """Register `%plan`, its completion and `%%vllm` with a shell, once."""
    parser = _parser()
    _load_cell(shell, _cell_parser())

    def plan(line: str) -> Plan | Explorer | None:
        return _shortly(lambda: _planned(parser, _words(line, shell.user_ns)))

    plan.__doc__ = f"{_HELP}\n{parser.format_help()}"
    no_var_expand(plan)  # braces may be JSON
    output_can_be_silenced(plan)
    shell.register_magic_function(plan, "line", "plan")  # type: ignore[arg-type]
    _complete_with(shell, parser)


def _load_cell(shell: InteractiveShell, parser: argparse.ArgumentParser) -> None:
    def vllm(line: str, cell: str) -> Pasted | Explorer | None:
        return _shortly(lambda: _pasted(parser, _words(line, shell.user_ns), cell))

    vllm.__doc__ = f"{_VLLM_HELP}\n{parser.format_help()}"
    no_var_expand(vllm)
    output_can_be_silenced(vllm)
    shell.register_magic_function(vllm, "cell", "vllm")  # type: ignore[arg-type]


def unload(shell: InteractiveShell) -> None:
    """Remove `%plan`, its completion and `%%vllm`."""
    shell.magics_manager.magics["line"].pop("plan", None)
    shell.magics_manager.magics["cell"].pop("vllm", None)
    _forget_matchers(shell)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pasted:
    """What `%%vllm` read in a cell, with its plan."""

    reading: Reading
    plan: Plan | None = None
    """None where something is still open; see `not_planned`."""
    not_planned: str = ""
    explanation: Explanation | None = None
    """Of a log, an error or a running server."""

    @property
    def _shown(self) -> tuple[Any, ...]:
        parts = (self.reading, self.explanation or self.plan)
        return tuple(part for part in parts if part is not None)

    def __str__(self) -> str:
        """Return what is shown, as text."""
        told = [f"Not planned: {self.not_planned}"] if self.not_planned else []
        return "\n\n".join([*map(str, self._shown), *told])

    def __repr__(self) -> str:
        """Return it in a line."""
        return f"<{self.reading.kind}: {self.reading.model or 'no model'}>"

    def _repr_mimebundle_(self, **_options: object) -> dict[str, str]:
        pages = [part._repr_mimebundle_()["text/html"] for part in self._shown]
        told = tag("p", f"Not planned: {self.not_planned}") if self.not_planned else ""
        return {"text/plain": str(self), "text/html": "".join([*pages, told])}


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The completions of the word that is being typed."""

    typed: str
    """The part of the line that they replace."""
    offered: tuple[str, ...] = ()


def next_words(parser: argparse.ArgumentParser, line: str) -> Words:
    """Return the completions of `line`, which ends at the cursor.

    Names that begin with the typed text; where there are none, names that contain it.
    """
    typed = _last_word(line)
    try:
        before = shlex.split(line[: len(line) - len(typed)])
    except ValueError:  # inside quotes
        return Words(typed=typed)
    flag, joined, value = typed.partition("=")
    if joined and flag.startswith("--"):
        return Words(typed=value, offered=_matching(value, _of_flag(parser, flag)))
    if typed.startswith("-"):
        return Words(typed=typed, offered=_flags(parser, typed))
    action, is_complete = _awaiting(parser, before)
    offered = () if action is None else _matching(typed, _values(action))
    if is_complete and not typed:
        offered += _flags(parser, "--")
    return Words(typed=typed, offered=offered)


class _Parser(argparse.ArgumentParser):
    """A parser that raises the planner's error instead of ending the program."""

    def error(self, message: str) -> NoReturn:
        """Raise an error with argparse's message.

        Raises:
            PlannerError: always.
        """
        raise PlannerError(f"{message[:1].upper()}{message[1:]}. `{self.prog}?` helps.")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%plan", add_help=False, allow_abbrev=False)
    add_file_argument(parser)
    parser.add_argument(
        "--explore", action="store_true", help="open the explorer on the plan"
    )
    parser.add_argument("-h", "--help", action="store_true", help="print this text")
    return parser


def _shortly(answer: Callable[[], Result]) -> Result:
    """Return an answer; a notebook shows the planner's errors as one sentence."""
    try:
        return answer()
    except PlannerError as error:
        sentence = str(error)
        # IPython calls this method of the exception to show it.
        error._render_traceback_ = lambda: [sentence]  # type: ignore[attr-defined]
        raise


def _cell_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%%vllm", add_help=False, allow_abbrev=False)
    parser.add_argument("--gpu", help="the GPU, where the text does not name it")
    parser.add_argument("--model", help="likewise the model")
    parser.add_argument("--vllm-version", help="likewise the release of vLLM")
    parser.add_argument(
        "--start", type=int, default=1, metavar="N", help="which of several starts"
    )
    parser.add_argument(
        "--explore", action="store_true", help="open the explorer on the plan"
    )
    parser.add_argument("-h", "--help", action="store_true", help="print this text")
    return parser


def _pasted(
    parser: argparse.ArgumentParser, words: list[str], cell: str
) -> Pasted | Explorer | None:
    options = vars(parser.parse_args(words))
    if options.pop("help"):
        print(_VLLM_HELP, parser.format_help(), sep="\n")  # noqa: T201 - its help
        return None
    is_explorer = options.pop("explore")
    reading = planner.read(cell, start=options.pop("start"))
    told = {name: value for name, value in options.items() if value is not None}
    if is_explorer:
        return reading.plan(**told).explore()
    if reading.log is not None:
        explained: Explanation = reading.explain(**told)
        return Pasted(reading=reading, plan=explained.plan, explanation=explained)
    try:
        return Pasted(reading=reading, plan=reading.plan(**told))
    except PlannerError as error:
        return Pasted(reading=reading, not_planned=str(error))


def _planned(
    parser: argparse.ArgumentParser, words: list[str]
) -> Plan | Explorer | None:
    known, unknown = parser.parse_known_args(words)
    options = vars(known)
    is_explorer = options.pop("explore")
    if options.pop("help"):
        print(_HELP, parser.format_help(), sep="\n")  # noqa: T201 - its help
        return None
    refuse_unknown(unknown, "`%plan?` helps.")
    plan_file = file_with_flags(options)
    result = plan_file.inputs.plan()
    if is_explorer:
        return result.explore()
    if plan_file.load is not None:
        print(load_line(serving(result, plan_file.load)))  # noqa: T201 - beside the plan
    return result


def _words(line: str, variables: Mapping[str, Any]) -> list[str]:
    """Split a line as a shell would, and replace names of variables by their values.

    Raises:
        PlannerError: for a quote that is not closed, or a name without a value.
    """
    try:
        words = shlex.split(line.rstrip().rstrip(";"))
    except ValueError:
        raise PlannerError("A quote is not closed.") from None
    return [_value_of(word, variables) for word in words]


def _value_of(word: str, variables: Mapping[str, Any]) -> str:
    named = _VARIABLE.match(word)
    if named is None or word.startswith("{") != bool(named[2]):
        return word
    if named[1] not in variables:
        raise PlannerError(f"{word}: the notebook has no variable {named[1]}.")
    value = variables[named[1]]
    return json.dumps(value) if isinstance(value, dict | list | bool) else str(value)


def _complete_with(shell: InteractiveShell, parser: argparse.ArgumentParser) -> None:
    """Complete lines of `%plan`."""

    @context_matcher(identifier="planner.app.magic")  # type: ignore[untyped-decorator]
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
    """Remove the completion that an earlier `load` registered."""
    matchers = shell.Completer.custom_matchers
    matchers[:] = [
        one
        for one in matchers
        if getattr(one, "matcher_identifier", "") != "planner.app.magic"
    ]


def _last_word(line: str) -> str:
    words = line.split(" ")
    return words[-1].split("\t")[-1]


def _awaiting(
    parser: argparse.ArgumentParser, before: Sequence[str]
) -> tuple[argparse.Action | None, bool]:
    """Return the argument of the next word, and whether a flag may come instead."""
    model = next(one for one in parser._actions if not one.option_strings)
    flag: argparse.Action | None = None
    has_model = False
    taken = 0
    for word in before:
        if word.startswith("-"):
            name, joined, _ = word.partition("=")
            flag = None if joined else parser._option_string_actions.get(name)
            taken = 0
        elif flag is not None and _takes(flag, taken):
            taken += 1
        else:
            flag, has_model = None, True
    if flag is not None and _takes(flag, taken):
        return flag, bool(taken) or flag.nargs == "?"
    return (None if has_model else model), True


def _takes(flag: argparse.Action, taken: int) -> bool:
    """Whether a flag with `taken` values accepts one more."""
    if flag.nargs == 0:
        return False
    return flag.nargs == "+" or taken == 0


def _of_flag(parser: argparse.ArgumentParser, flag: str) -> tuple[str, ...]:
    action = parser._option_string_actions.get(flag)
    return () if action is None else _values(action)


def _values(action: argparse.Action) -> tuple[str, ...]:
    """Return the values of an argument, where they can be listed."""
    if action.choices:
        return tuple(str(choice) for choice in action.choices)
    if action.dest == "model":
        return tuple(entry.name for entry in catalogue.entries())
    if action.dest == "gpu":
        return (*(gpu.name for gpu in gpu_catalogue()), "attached", CPU)
    if action.dest == "vllm_version":
        return MODELLED
    return _typed_words(action.dest)


def _typed_words(name: str) -> tuple[str, ...]:
    """Return the values of an engine argument, where they can be listed."""
    if name == "max_model_len":
        return ("auto",)
    argument = ARGUMENTS.get(name)
    if argument is None or not argument.is_modelled:
        return ()
    return tuple(map(str, argument.offered or argument.taken))


def _flags(parser: argparse.ArgumentParser, typed: str) -> tuple[str, ...]:
    """Return flags that begin with the typed text; hidden ones where no other does."""
    shown, hidden = (
        tuple(_names(parser, is_hidden=is_hidden)) for is_hidden in (False, True)
    )
    for names in (shown, hidden):
        found = tuple(name for name in names if name.startswith(typed))
        if found:
            return found
    return ()


def _names(parser: argparse.ArgumentParser, *, is_hidden: bool) -> Iterator[str]:
    for action in parser._actions:
        if (action.help == argparse.SUPPRESS) == is_hidden:
            yield from action.option_strings


def _matching(typed: str, names: Sequence[str]) -> tuple[str, ...]:
    wanted = typed.lower()
    begin = tuple(name for name in names if name.lower().startswith(wanted))
    return begin or tuple(name for name in names if wanted in name.lower())
