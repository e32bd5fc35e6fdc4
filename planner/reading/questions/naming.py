"""What a question names, in its plain text: models, formats and releases."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from planner.reading.questions.devices import device_terms
from planner.reading.questions.named import NamedModel, mentions_in
from planner.reading.questions.noted import other_engine
from planner.reading.questions.options import is_joined_by_or
from planner.reading.questions.question_words import blanked
from planner.reading.sign_table import signs
from planner.values import frozen

_RELEASE = re.compile(
    r"(?:(?P<lead>\bv?llm(?:==|[ -]?v?)|\bversion |\brelease |\bv)|(?<![A-Za-z0-9.,]))"
    r"(?P<release>0\.[1-9]\d?(?P<patch>\.\d{1,2}){0,2}(?:\.?(?:post|rc)\d{1,2})?)"
    r"(?!\.?\d|[A-Za-z])",
    re.IGNORECASE,
)
_TO = re.compile(r"(?:\b(?:to|auf|à|a|vers|zu)|->|=>|→|到|至)\s*(?:vllm\s*)?\Z", re.I)
_ADDRESS = re.compile(
    r"https?://(?:www\.)?(?:huggingface\.co|hf\.co|modelscope\.cn/models)/"
    r"|(?<=\w)/(?:tree|blob|resolve)/[\w./-]+"
)
"""What stands around a model's name in the address of its page."""
_ITEM = re.compile(r"(?:^|\n)[ \t]*(\(?(?:\d{1,2}|[a-h])[.)])[ \t]+(?=\D)")
"""The number of an item of a list."""
_ROW = re.compile(r"^\|([^|\n]+)\|([^|\n]+)\|(?=[ \t]*$)", re.MULTILINE)
"""What a row of a table with two columns says of its first."""
_OWN_FLAG = re.compile(r"(?<!\S)--?(?!tp\b|tensor)[a-zA-Z][\w-]*(?:[ =][\d.:]+\w*)?")
"""A flag of another program."""
_TAG = re.compile(r"(?<=[a-z0-9]):(?=\d{1,3}(?:\.\d)?b\b)")
"""What parts name and size elsewhere: "qwen3:32b"."""
_BEFORE, _BESIDE = 12, 24
_QUOTED = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_FOREIGN = 2
"""Words of a language that tell it: one may be in a name."""
_NOT_READ = (
    "what is asked, in words that seem to be {}: questions are read in ten other "
    "languages, and of this one only what is marked as used is known"
)


@frozen
class Release:
    """A release of vLLM where a text names it."""

    version: str
    span: tuple[int, int]
    is_target: bool
    """Whether the words before it say that it is gone to."""


def plain_text(text: str) -> str:
    """Return a text with models as the Hub names them, nothing moved."""
    rest = blanked(text, (match.span() for match in _ADDRESS.finditer(text)))
    if other_engine(text):
        rest = blanked(rest, (match.span() for match in _OWN_FLAG.finditer(rest)))
    rest = blanked(rest, (match.span(1) for match in _ITEM.finditer(rest)))
    rest = _ROW.sub(r" \1:\2 ", rest)
    return _TAG.sub("-", rest)


def models_named_in(text: str) -> Iterator[NamedModel]:
    """Yield the models of a text; a name ends before "fp8 or awq"."""
    for one in mentions_in(text):
        name, _, last = one.written.rpartition(" ")
        behind = text[one.end : one.end + _BESIDE]
        format_behind = next(formats_in(behind), None)
        is_choice = format_behind is not None and (
            is_joined_by_or(behind[: format_behind[2][0]])
            or not re.search(r"\w", behind[: format_behind[2][0]])
        )
        if name and is_choice and next(formats_in(last), None) is not None:
            plain = mentions_in(name)
            yield replace(plain[0], start=one.start) if plain else one
        else:
            yield one


def releases_in(text: str) -> Iterator[Release]:
    """Yield releases: 0.11.0 always, 0.11 beside vLLM's name or another release."""
    found = list(_RELEASE.finditer(text))
    is_sure = any(match["patch"] or match["lead"] for match in found)
    for match in found if is_sure else ():
        before = text[max(match.start() - _BEFORE, 0) : match.start()]
        is_target = _TO.search(before) is not None
        yield Release(version=match["release"], span=match.span(), is_target=is_target)


def formats_in(text: str) -> Iterator[tuple[str, str, tuple[int, int]]]:
    """Yield the words for a format: the argument that has it, its value, the place."""
    for name, value, words in signs("formats"):
        match = re.search("|".join(words), text, re.IGNORECASE | re.ASCII)
        if match is not None:
            text = blanked(text, [match.span()])
            yield name, value, match.span()


def quoted_in(text: str) -> list[tuple[int, int]]:
    r"""Return the lines of others in a text that asks of its own model and GPU.

    >>> quoted_in("> Qwen3-8B on an L4?\nno, does Qwen3-4B fit on a T4?")
    [(0, 20)]
    """
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    if not quoted:
        return []
    own = blanked(text, quoted)
    is_own = "?" in own and next(models_named_in(own), None) and device_terms(own)
    return quoted if is_own else []


def foreign_words(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the words of a language that is not read: what is said of it, the place."""
    for language, words in _languages_not_read():
        found = {match[0].lower(): match for match in words.finditer(text)}
        if len(found) >= _FOREIGN:
            said = _NOT_READ.format(language)
            yield from ((said, match.span()) for match in found.values())
            return


@cache
def _languages_not_read() -> tuple[tuple[str, re.Pattern[str]], ...]:
    rows = signs("languages not read").items()
    return tuple(
        (name, re.compile(rf"(?<!\w)(?:{word})(?!\w)", re.I)) for name, word in rows
    )
