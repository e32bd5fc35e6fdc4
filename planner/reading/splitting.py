"""The documents in a text: each with its language and its place in the whole text.

A reader of a language takes the page of one document, and the whole text beside it.

Source: CommonMark 0.31 fenced code blocks; docutils 0.22 `code-block`, literal blocks;
AsciiDoc, Jira, Org 9.7, Liquid and BBCode for blocks of code; HTML `pre`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache

from planner.reading.passage import Composer, Passage, joined
from planner.reading.python.notebooks import cells_of
from planner.reading.python.syntax import parsed
from planner.values import frozen

_BLOCK = re.compile(
    r"""^(?P<indent>(?:[ \t>]|[-*][ ]|\d\.[ ])*+)
        (?P<fence>`{3,}|~{3,})[ \t]*(?P<hint>[^`\n]*)$
    |^[ \t]*(?:\.\.[ ](?:code-block|code|sourcecode|parsed-literal)::(?P<rst>.*)
        |(?P<literal>\S.*)::)[ \t]*$
    |^[ \t]*(?:\[source(?P<adoc>[^\]\n]*)\]\n-{4,}
        |\#\+begin_(?:src|example)\b(?P<org>.*)
        |\{code(?P<jira>(?::[\w+-]+)?)\}
        |\{%[ \t]*highlight[ ](?P<liquid>\w+)[^\n]*%\})[ \t]*$
    |\[code(?P<bb>(?:=\w+)?)\]
    |<pre\b(?P<html>[^>\n]*>(?:\s*<code[^>\n]*>)?)""",
    re.MULTILINE | re.IGNORECASE | re.VERBOSE,
)
"""What begins a block of code, with what it says of its language."""
_ENDS = {
    "html": "</pre>",
    "bb": "[/code]",
    "jira": "{code}",
    "org": "#+end_",
    "adoc": "\n----",
    "liquid": "{%",
}
"""What ends each that is no fence and not indented."""
_OPTION = re.compile(r"[ \t]+:[\w-]+:[^\n]*\n")
_TAG = re.compile(r"<[^<>\n]*>|&(?:#\d{1,7}|#x[\da-fA-F]{1,6}|\w{1,31});")
_PROMPT = re.compile(
    r"[ \t]*(?:\([\w.-]+\)[ \t]*)?(?:\[?[\w.-]+@[\w.-]+[^$#\n]{0,80})?(?:[$%]|"
    r"(?<=[\w~\]/])[#>]|PS [^>\n]{0,80}>|[\u276f\u279c])[ \t]+(?=\S)"
)
_PROMPT_OF_PYTHON = re.compile(r"[ \t]*(?:>>>|\.\.\.)(?: |(?=\n|\Z))")
_CONTINUED = re.compile(r"[ \t]*> ?")
_APOSTROPHE = re.compile(r"(?<=[^\W\d_])'(?=[^\W\d_])")
_BEFORE_COMMAND = re.compile(
    r"[\uff1a\uff0c](?=(?:\w+=\S+ )*(?:sudo |vllm |python3? |docker |podman ))",
    re.ASCII,
)
_NOT_MARKDOWN = re.compile(r"\s*(?:#!|\{|\[\s*[\[\]{\"\d]|apiVersion:|services:|FROM )")
_NO_LANGUAGE = re.compile(r".*lang(?:uage)?[-=]|[\"'>]", re.DOTALL)
_OF_PYTHON = re.compile(r"^[ \t]*(?:from \S+ import|import|def|class|@) ?\w", re.M)
_WITHIN = re.compile(
    r"(?<!`)`(?P<code>[^`\n]*(?:\bvllm serve|vllm\.entrypoints[\w.]*|\w run) [^`\n]+)`"
    r"(?!`)"
)
_LONGEST_HINT = 80


_PARAGRAPH = re.compile(r"\S[^\n]*(?:\n(?![ \t]*\n)[^\n]*)*")
_NOT_SAID = re.compile(r"\A[^A-Za-z\u00c0-\uffff]|\A[\w.\"'/-]+:(?:\s|\Z)|[\n{}=|]")
_FEWEST_BLANKS = 2
"""What no line of words has, and how many blanks it has."""
_MANIFEST = re.compile(
    r"(?:apiVersion|services|version|kind|name|image|x-[\w-]+):(?:\s|$)"
)


class Language(StrEnum):
    """What a document is written in."""

    PYTHON = "python"
    SHELL = "shell"
    DATA = "data"
    """YAML, JSON, TOML: manifests and configurations."""
    IMAGE = "Dockerfile"
    OUTPUT = "output"
    """What a program printed."""
    UNKNOWN = ""
    """Not said: each reader is asked."""


@frozen
class Document:
    """A part of a text that is read by itself."""

    language: Language
    page: Passage
    """As its reader sees it; each character has its place in the whole text."""


def documents_of(text: str) -> Iterator[Document]:
    """Yield the documents of a text in their order."""
    cells = list(cells_of(text))
    if cells:
        yield from (document_of(page, hint) for page, hint in cells)
        return
    blocks = list(blocks_in(text))
    yield from blocks or (document_of(_without_prose(Passage.whole(text))),)


@lru_cache(maxsize=1)  # of a text with many starts, each asks
def has_prose_around(text: str) -> bool:
    """Return whether people wrote sentences around a manifest."""
    page = Passage.whole(text)
    return _without_prose(page) is not page


def _without_prose(page: Passage) -> Passage:
    """Return a manifest without the sentences that people write around it."""
    parts = [match.span() for match in _PARAGRAPH.finditer(page.text)]
    kept = [span for span in parts if not _is_said(page.text[slice(*span)])]
    if not kept or len(kept) == len(parts):
        return page
    start, end = kept[0][0], kept[-1][1]
    is_manifest = _MANIFEST.match(page.text, start) is not None
    return page.part(start, end) if is_manifest else page


def _is_said(part: str) -> bool:
    """Return whether a paragraph is one line of words, and no entry of a table."""
    is_entry = _NOT_SAID.search(part) is not None
    return part.count(" ") >= _FEWEST_BLANKS and not is_entry


def document_of(page: Passage, hint: str = "") -> Document:
    """Return a stretch of a text as a document of its own.

    Args:
        page: the stretch, such as the body of a here-document.
        hint: the name of a language or of a file, where the text says one.
    """
    found = re.search(r"[\w.+-]+", hint[:_LONGEST_HINT])
    name = "" if found is None else found[0].rsplit(".", 1)[-1].lower()
    language = _LANGUAGES.get(name, Language.UNKNOWN)
    return Document(language=language, page=_without_prompts(page, language))


def without_apostrophes(page: Passage) -> Passage:
    """Return a page in which an apostrophe opens no quotes: `I'm`, `l'erreur`.

    A colon of full width before a command is a blank: it is no part of its first word.
    """
    lines = page.text.splitlines(keepends=True)
    masked = [
        _APOSTROPHE.sub("\u2019", line)
        if line.count("'") == len(_APOSTROPHE.findall(line))
        else line
        for line in lines
    ]
    return replace(page, text=_BEFORE_COMMAND.sub(" ", "".join(masked)))


def taken(page: Passage, spans: Iterable[tuple[int, int]]) -> Passage:
    """Return parts of a page as one: each but the last ends in its line break."""
    return joined([page.part(*span) for span in spans])


def blocks_in(text: str) -> Iterator[Document]:
    """Yield the blocks of code in a text that is written for people."""
    match = _BLOCK.search(text)
    if match is None or _NOT_MARKDOWN.match(text) or is_code(text):
        return
    whole = Passage.whole(text)
    while match is not None:
        if match["fence"]:
            at, document = _fenced(whole, match)
        elif match["rst"] is not None or match["literal"] is not None:
            at, document = _indented(whole, match)
        else:
            at, document = _tagged(whole, match)
        if document is not None:
            yield document
        match = _BLOCK.search(text, at)


def spans_of_code(text: str) -> Iterator[Document]:
    """Yield the commands that stand in backticks within sentences."""
    whole = Passage.whole(text)
    for match in _WITHIN.finditer(text):
        yield document_of(whole.part(*match.span("code")), "sh")


def is_code(text: str) -> bool:
    """Return whether a text is Python as a whole: what it quotes is no document."""
    tree = parsed(text) if _OF_PYTHON.search(text) else None
    return tree is not None and bool(tree.body)


def _fenced(page: Passage, fence: re.Match[str]) -> tuple[int, Document | None]:
    """Return where a block ends, and what its lines hold without the indentation."""
    mark = re.escape(fence["fence"][0])
    closing = re.compile(
        rf"^[ \t>]*{mark}{{{len(fence['fence'])},}}[ \t]*$", re.MULTILINE
    )
    start = min(fence.end() + 1, len(page.text))
    closed = closing.search(page.text, start)
    end, after = (len(page.text),) * 2 if closed is None else closed.span()
    quote = ">" in fence["indent"]
    spans = dedented(page.text, start, end, len(fence["indent"]), is_quote=quote)
    return after, document_of(taken(page, spans), fence["hint"])


def dedented(
    text: str, start: int, end: int, indent: int, *, is_quote: bool = False
) -> Iterator[tuple[int, int]]:
    """Yield the lines between two places without what each of them begins with."""
    begins = re.compile(rf"[ \t{'>' if is_quote else ''}]{{0,{indent}}}")
    yield start, start
    while start < end:
        stop = text.find("\n", start, end) + 1 or end
        match = begins.match(text, start, stop)
        yield (start if match is None else match.end()), stop
        start = stop


def _tagged(page: Passage, mark: re.Match[str]) -> tuple[int, Document | None]:
    """Return the block between a mark and what ends it."""
    kind = next(name for name in _ENDS if mark[name] is not None)
    ends = _ENDS[kind]
    end = page.text.lower().find(ends, mark.end())
    if end < 0:
        return mark.end(), None
    inner = page.part(mark.end(), end)
    inner = _plain_of_html(inner) if kind == "html" else inner
    hint = _NO_LANGUAGE.sub("", mark[kind] or "")
    return end + len(ends), document_of(inner, hint.strip(",:= ").partition(",")[0])


def _indented(page: Passage, mark: re.Match[str]) -> tuple[int, Document | None]:
    """Return the block that is indented more than the line which announces it."""
    text, start = page.text, mark.end() + 1
    while (option := _OPTION.match(text, start)) is not None:
        start = option.end()
    own = len(mark[0]) - len(mark[0].lstrip())
    first = re.compile(r"(?:[ \t]*\n)*([ \t]*)\S").match(text, start)
    if first is None or len(first[1]) <= own:
        return mark.end(), None
    lesser = re.compile(rf"^[ \t]{{0,{len(first[1]) - 1}}}\S", re.MULTILINE)
    last = lesser.search(text, first.end())
    end = len(text) if last is None else last.start()
    spans = dedented(text, start, end, len(first[1]))
    return end, document_of(taken(page, spans), mark["rst"] or "")


def _plain_of_html(page: Passage) -> Passage:
    """Return what a browser shows of a stretch of HTML."""
    made, done = Composer(page), 0
    for match in _TAG.finditer(page.text):
        made.keep(done, match.start())
        if match[0].startswith("&"):
            made.add(html.unescape(match[0]), match.start())
        done = match.end()
    made.keep(done, len(page.text))
    return made.passage(len(page.text), html.escape)


def _without_prompts(page: Passage, language: Language) -> Passage:
    """Return the commands of a transcript, or the code of a session of Python."""
    lines = list(dedented(page.text, 0, len(page.text), 0))[1:]
    if language in (Language.PYTHON, Language.UNKNOWN) and any(
        page.text.startswith(">>> ", start) for start, _ in lines
    ):
        return taken(page, _typed(page.text, lines, _PROMPT_OF_PYTHON))
    if language in (Language.SHELL, Language.UNKNOWN) and any(
        _PROMPT.match(page.text, *line) for line in lines
    ):
        return taken(page, _typed(page.text, lines, _PROMPT))
    return page


def _typed(
    text: str, lines: Sequence[tuple[int, int]], prompt: re.Pattern[str]
) -> Iterator[tuple[int, int]]:
    """Yield what was typed behind a prompt, with the lines that it goes on in."""
    yield 0, 0
    goes_on = False
    for start, end in lines:
        match = prompt.match(text, start, end)
        if match is None and goes_on:
            match = _CONTINUED.match(text, start, end)
            yield (start if match is None else match.end()), end
        elif match is not None:
            yield match.end(), end
        else:
            continue
        goes_on = text[start:end].rstrip("\r\n").endswith(("\\", "`", "^"))


_LANGUAGES = {
    **dict.fromkeys(
        "python py python3 py3 ipython pycon ipython3".split(), Language.PYTHON
    ),
    **dict.fromkeys(
        "bash sh shell zsh console shell-session shellsession sh-session terminal "
        "slurm sbatch cmd bat batch powershell ps1 pwsh".split(),
        Language.SHELL,
    ),
    **dict.fromkeys("yaml yml json jsonc toml".split(), Language.DATA),
    **dict.fromkeys("dockerfile containerfile docker".split(), Language.IMAGE),
    **dict.fromkeys("log output diff".split(), Language.OUTPUT),
}
"""By the word after a fence, or by the ending of a file's name."""
