"""The fenced blocks of the documentation, and how one of them is run.

A block of Python runs in order with those before it on its page, sharing their names;
a block of text right after it is what it shows. A block of text whose lines begin with
`$` is a terminal. A line of three dots, or three dots in a line, stand for what is left
out.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import re
import shlex
import textwrap
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
_FENCE = re.compile(r"^( *)```([^\n`]*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
_CUT = re.compile(r"^\.\.\.\n", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One fenced block."""

    page: Path
    line: int
    language: str
    """The word behind the fence; in braces for a directive of the site."""
    text: str
    is_shown_by_code: bool
    """Whether nothing but blank lines stands between it and Python above it."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_terminal(self) -> bool:
        """Whether commands stand in it, each with its output below."""
        return self.language == "text" and self.text.startswith("$ ")


def samples_of(page: Path) -> list[Sample]:
    """Return a page's blocks in their order."""
    text = page.read_text(encoding="utf-8")
    found: list[Sample] = []
    code_ends = -1
    for match in _FENCE.finditer(text):
        language = match[2].strip()
        between = text[code_ends : match.start()] if code_ends >= 0 else "no code"
        found.append(
            Sample(
                page=page,
                line=text.count("\n", 0, match.start()) + 1,
                language=language,
                text=textwrap.dedent(match[3]),
                is_shown_by_code=language == "text"
                and not between.strip()
                and not match[3].startswith("$ "),
            )
        )
        code_ends = match.end() if language == "python" else -1
    return found


def unfenced_code(page: Path) -> list[str]:
    """Return indented code blocks, which say no language, so that nobody runs them."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return re.findall(r"(?:\A|\n\n)((?: {4,}(?![-*\d|]).*\n)+)(?=\n|\Z)", text)


def commands(sample: Sample) -> list[tuple[str, str]]:
    """Return each command of a terminal with the output below it, empty for none."""
    parts = re.split(r"^\$ ", sample.text, flags=re.MULTILINE)[1:]
    return [(line, shown) for line, _, shown in (one.partition("\n") for one in parts)]


def shell_lines(sample: Sample) -> list[list[str]]:
    """Return the commands of a block of shell as words, without comments."""
    joined = sample.text.replace("\\\n", " ").replace(" && ", "\n")
    words = (shlex.split(line, comments=True) for line in joined.splitlines())
    return [one for one in words if one]


def shows(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed, but for what three dots stand for."""
    pattern = "(?:.*\n)*?".join(
        ".*?".join(re.escape(piece) for piece in part.split(" ..."))
        for part in _CUT.split(shown)
    )
    return re.fullmatch(pattern, printed.rstrip("\n") + "\n") is not None


def run_doctest(sample: Sample, names: dict[str, Any]) -> str:
    """Run a block with prompts; returns what differs from what it shows."""
    test = doctest.DocTestParser().get_doctest(
        sample.text, names, str(sample), None, None
    )
    told = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=_FLAGS)
    runner.run(test, out=told.write, clear_globs=False)
    names.update(test.globs)
    return told.getvalue()


def run_python(sample: Sample, names: dict[str, Any]) -> tuple[str, list[str]]:
    """Run a block without prompts.

    Returns what it prints, with the last value as a notebook shows it, and the values
    that differ from a literal in a comment behind them.
    """
    wrong: list[str] = []
    comments = _comments(sample.text)
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        for statement in ast.parse(sample.text).body:
            value = _executed(statement, names, str(sample))
            said = _literal(comments.get(statement.end_lineno or 0, ""))
            if isinstance(statement, ast.Expr) and said and said[0] != value:
                wrong.append(f"{ast.unparse(statement)} is {value!r}, not {said[0]!r}")
    shown = "" if value is None else f"{value!r}\n"
    return printed.getvalue() + shown, wrong


def _executed(statement: ast.stmt, names: dict[str, Any], where: str) -> object:
    """Run a statement; returns the value of an expression, None for any other."""
    if isinstance(statement, ast.Expr):
        return eval(compile(ast.Expression(statement.value), where, "eval"), names)
    exec(compile(ast.Module([statement], []), where, "exec"), names)
    return None


def _comments(code: str) -> dict[int, str]:
    read = tokenize.generate_tokens(io.StringIO(code).readline)
    return {
        token.start[0]: token.string.lstrip("# ")
        for token in read
        if token.type == tokenize.COMMENT
    }


def _literal(comment: str) -> tuple[object] | None:
    """Return the value that a comment begins with, in a tuple; None for prose."""
    for text in (comment, comment.partition(",")[0], comment.partition(":")[0]):
        with contextlib.suppress(ValueError, SyntaxError):
            return (ast.literal_eval(text),)
    return None
