"""The commands, and the name by which the program was started.

An environment may have `vllm-memory-planner` alone: `uvx` makes one, and where another
package's command `planner` lies, that is not this one.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

COMMANDS = {
    "plan": "what vLLM would do with a model",
    "solve": "the largest load or the smallest machine that serves it",
    "advise": "what to change so that it starts, or serves more",
    "compare": "models, plan files, or GPUs for one model, side by side",
    "sweep": "a model over one engine argument or two",
    "upgrade": "what another release of vLLM does to a start, rule by rule",
    "speed": "tokens per second, forecast with a range and bounded",
    "ray": "what a Ray Data LLM pipeline takes of a cluster",
    "export": "a plan as command, code, manifest, report or data",
    "confirm": "start vLLM here and compare with the plan",
    "dry-run": "let vLLM itself start, on a simulated GPU",
    "record": "let vLLM build a model without a GPU, and keep what it built",
    "read": "what a command, manifest, code, log or error says, and its plan",
    "check": "which starts of files would not start on the hardware that they name",
    "models": "the bundled catalogue of models, and the Hub's",
    "gpus": "the bundled catalogue of GPUs",
    "calibration": "what your own starts measured, and later plans use",
    "doctor": "what works on this machine, and what to do about the rest",
    "app": "the planner in the browser",
    "mcp": "the planner for agents, over standard input and output",
    "schema": "the JSON Schemas of what --json prints",
    "completion": "a script with which the shell completes all of this",
}
"""In the order of the help.

The module of each has `add(parser)`, `run(options, out)` and `EXAMPLES`.
"""

_USUAL, _LONG = "planner", "vllm-memory-planner"
_COMMAND = re.compile(
    rf"(?<![\w./-])(?<!he ){_USUAL}(?= (?:{'|'.join(COMMANDS)}|--[a-z]+)\b)"
)
"""A command line in a text; "the planner models it" is none."""


def program() -> str:
    """Return the name that was typed, where it is one of the two."""
    return _LONG if Path(sys.argv[0]).stem == _LONG else _USUAL


def as_typed(text: str) -> str:
    """Return a text whose command lines begin with the name that was typed.

    >>> as_typed("`planner gpus` lists them.")
    '`planner gpus` lists them.'
    """
    return text if program() == _USUAL else _COMMAND.sub(_LONG, text)
