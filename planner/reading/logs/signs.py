"""What shows that a text is a log of vLLM, or an error of what runs it.

Source: vLLM 0.33.0 `logger.py`, `v1/core/kv_cache_utils.py`, `v1/worker/utils.py`,
`v1/worker/gpu_worker.py`, `config/compilation.py`; PyTorch 2.9
`c10/cuda/CUDACachingAllocator.cpp`; Docker 28, Kubernetes 1.34 and Linux 6
`mm/oom_kill.c` for processes that were killed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from planner.confirming.log import OF_VLLM
from planner.engine.gpu import GPU
from planner.reading.python.notebooks import is_notebook
from planner.reading.python.syntax import parsed
from planner.reading.questions.noted import RECORD, noted_gpu, noted_model, other_engine
from planner.reading.sign_table import any_of

OUTPUT = re.compile(any_of("output of vLLM"))
"""What only vLLM writes, with its figures."""
_FAILURE = re.compile(any_of("failures"))
"""Errors of vLLM and of what runs it: PyTorch, NCCL, a container, the kernel."""
_ANY_ERROR = re.compile(
    r"Traceback \(most recent call last\)"
    r"|^\s*(?:[a-z_]\w*\.)*\w*(?:Error|Exception): \S"
)
"""Errors of any program: where something else in the text is vLLM's."""
_ALONE = re.compile(r"^(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): \S")
_PRINTED = re.compile(
    r"(?:[\w.-]+ +\| *|\([^()]{0,80}\) *){0,3}"
    r"(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): \S"
    r"|[\w.-]+ exited with code 137\b"
)
"""A line of a program or of Compose, which begins with what tells of an error."""
_MOST_LINES = 3
"""Of a text that is an error of Python and no more."""
_IF = re.compile(
    r"\b(?:if|whenever|when|should|may|might|means?|wenn|falls|si|cuando|lorsqu\w*)\b"
    r"|[\u5982\u82e5]\u679c?|\u51fa\u73b0",
    re.IGNORECASE,
)
_HAPPENED = re.compile(
    r"\b(?:I|my|we|our|got|ich|wir|je|nous|yo|me)\b|[\u6211\u4ffa]|[:|]\s*$",
    re.IGNORECASE,
)
"""An error that one may get, as documentation has it, and one that somebody got."""
_COMMENT = re.compile(r"(?:^|\s)(?:#(?!#| [A-Z]+ blocks: \d)|//)")
_SHELL = re.compile(
    r"^\s*(?:if|while|until|grep|echo|sed|awk|printf|export|raise|print|assert|logger)\b"
    r"|\bgrep\s|\braise\s+\w+\("
)
"""A line of a program that looks for an error, or raises one."""
_CODE = re.compile(r"^[ \t]*(?:import|from|def|class|with|for)\s|\w\(", re.MULTILINE)
_MANIFEST = re.compile(
    r"^(?:apiVersion|kind|services):|^[ \t]{0,8}\"(?:apiVersion|kind)\":", re.MULTILINE
)
_PROGRAM = re.compile(
    rf"(?<![\w/-])(?:{any_of('programs beside vLLM')})(?![\w/-])", re.IGNORECASE
)
"""Programs that stand before, beside or around vLLM."""
_MOST_NAMED = 4
_LONGEST_SEARCHED = 20_000
_LOOKED_AT = 100_000
_LONGEST_CODE = 50_000


def is_log(text: str) -> bool:
    """Return whether a text is what a program wrote, not a command, manifest or code.

    >>> is_log("INFO 04-22 01:47:55 [gpu_worker.py:436] x")
    True
    >>> is_log("vllm serve org/m  # was: CUDA out of memory")
    False
    """
    looked_at = text[:_LOOKED_AT] + "\n" + text[_LOOKED_AT:][-_LOOKED_AT:]
    signs = signs_in(looked_at)
    first = next(signs, None)
    if first is None or is_notebook(text):
        return False
    if _MANIFEST.search(text, 0, _LOOKED_AT):
        return any(map(_is_below, (first, *signs)))
    if other_engine(looked_at) and not OF_VLLM.search(looked_at):
        return False
    return not _is_code(text)


def _is_below(line: str) -> bool:
    """Return whether a line stands below a manifest, and is no part of it.

    What a manifest's own text says of errors is indented, or a sentence.
    """
    is_printed = _PRINTED.match(line) is not None and sign_in(line) is not None
    return is_printed or RECORD.search(line) is not None


def has_log(text: str) -> bool:
    """Return whether a text of another kind, such as a notebook, holds a log."""
    return any(RECORD.search(line) or OUTPUT.search(line) for line in signs_in(text))


def named_in(text: str) -> str:
    """Say what a text names that is no start: a program, a model, a GPU; or nothing.

    >>> named_in("LiteLLM routes to the server with Qwen3-8B")
    'It names LiteLLM and Qwen/Qwen3-8B. '
    """
    looked_at = text[:_LONGEST_SEARCHED]
    programs = {one[0].lower(): one[0] for one in _PROGRAM.finditer(looked_at)}
    gpu = noted_gpu(looked_at)
    model = noted_model(looked_at) or ""
    is_written = model.rpartition("/")[2].lower() in looked_at.lower()
    named = [
        *list(programs.values())[:_MOST_NAMED],
        model if is_written else "",
        gpu.name if isinstance(gpu, GPU) else gpu,
    ]
    found = [name for name in named if name]
    if not found:
        return ""
    *first, last = found
    return f"It names {' and '.join([*([', '.join(first)] if first else []), last])}. "


def signs_in(text: str) -> Iterator[str]:
    """Yield the lines that only a program's output has."""
    lines = text.splitlines()
    any_error = _ANY_ERROR if OF_VLLM.search(text) else _ALONE
    is_alone = len(lines) <= _MOST_LINES and 'File "' not in text
    is_read = any_error is _ANY_ERROR or is_alone
    for line in lines:
        sign = sign_in(line)
        if sign is None and is_read:
            sign = any_error.search(line)
        if sign is None or _SHELL.search(line):
            continue
        comment = _COMMENT.search(line)
        if comment is None or comment.start() >= sign.start():
            yield line


def sign_in(line: str) -> re.Match[str] | None:
    """Return what in a line only vLLM, or what runs it, writes."""
    return RECORD.search(line) or OUTPUT.search(line) or failure_in(line)


def failure_in(line: str) -> re.Match[str] | None:
    """Return an error in a line; none where the line says what one may get."""
    sign = _FAILURE.search(line)
    if sign is None or not _IF.search(line, 0, sign.start()):
        return sign
    return sign if _HAPPENED.search(line, 0, sign.start()) else None


def _is_code(text: str) -> bool:
    if len(text) > _LONGEST_CODE or not _CODE.search(text):
        return False
    tree = parsed(text)
    return tree is not None and bool(tree.body)  # a heading of Markdown is a comment
