"""`%plan` and `%%vllm` in Jupyter and IPython: a plan from flags, or from a text.

`%load_ext planner` registers both, and the completion of `%plan`; `%plan?` and
`%%vllm?` are their help.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from IPython.core.completer import (
    CompletionContext,
    SimpleMatcherResult,
    context_matcher,
)
from IPython.core.completer import SimpleCompletion as Completion
from IPython.core.magic import no_var_expand, output_can_be_silenced

from planner.app.cli import refuse_unknown
from planner.app.cli.engine_flags import add_file_argument, inputs_of
from planner.app.completing import next_words
from planner.engine.releases import NEWEST
from planner.errors import PlannerError
from planner.reading import read
from planner.reading.reading import NOT_NAMED
from planner.show.html import tag
from planner.values import frozen

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from planner.app.widgets.explorer import Explorer
    from planner.planning.result import Plan
    from planner.reading import Reading
    from planner.reading.logs.explaining import Explanation

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
_VLLM_HELP = f"""Plan the start of vLLM that a cell describes; nothing of it is run.

    %%vllm --gpu H100
    docker run --gpus 2 vllm/vllm-openai:v{NEWEST} \\
      --model Qwen/Qwen3-32B --tensor-parallel-size 2

The cell holds a command, a container, a manifest, Python code, a log or an error. The
value shows what was read and its plan, or why the start failed and what would help; its
parts are `.reading`, `.plan` and `.explanation`. In the next cell it is `_`.
"""
_LINE = re.compile(r"\s*(?:[\w.,\s]+=\s*)?%plan\s(.*)\Z", re.DOTALL)
_VARIABLE = re.compile(r"(?:\$|\{)([^\W\d]\w*)(\}?)\Z")


def register(shell: InteractiveShell) -> None:
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


def unregister(shell: InteractiveShell) -> None:
    """Remove `%plan`, its completion and `%%vllm`."""
    shell.magics_manager.magics["line"].pop("plan", None)
    shell.magics_manager.magics["cell"].pop("vllm", None)
    _forget_matchers(shell)


@frozen
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


class _Parser(argparse.ArgumentParser):
    """A parser that raises the planner's error instead of ending the program."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - argparse's own
        super().__init__(**options)
        # Python 3.14 colours help where a kernel sets FORCE_COLOR; a pager shows codes.
        self.color = False

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
        vars(error)["_render_traceback_"] = lambda: [sentence]
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
    reading = read(cell, start=options.pop("start"))
    told = {name: value for name, value in options.items() if value is not None}
    answered = {sentence for name, sentence in NOT_NAMED.items() if name in told}
    still_open = tuple(one for one in reading.open if one not in answered)
    reading = replace(reading, open=still_open)
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
    result = inputs_of(options).plan()
    if is_explorer:
        return result.explore()
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

    @context_matcher(identifier=__name__)  # type: ignore[untyped-decorator]
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
    """Remove the completion that an earlier `register` registered."""
    matchers = shell.Completer.custom_matchers
    matchers[:] = [
        one for one in matchers if getattr(one, "matcher_identifier", "") != __name__
    ]
