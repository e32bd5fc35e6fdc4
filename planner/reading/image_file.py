"""Dockerfiles: `ENTRYPOINT` and `CMD` as lists of words, `ENV`, and `FROM`'s tag.

A command without a list is read as a shell's.

Source: Docker 28 `Dockerfile` reference, "Shell and exec form".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from planner.reading.container import FoundStart, starts_of_list
from planner.reading.passage import Passage
from planner.reading.reading import Kind
from planner.reading.shell import Word, commands_of
from planner.reading.sites import WordList

_FROM = re.compile(r"^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*(?P<image>\S+)", re.MULTILINE)
_LISTED = re.compile(
    r"^[ \t]*(?P<what>ENTRYPOINT|CMD)[ \t]*\[(?P<list>[^\]]*)\]", re.MULTILINE
)
_STRING = re.compile(r'(?<!\\)"(?:[^"\\\n]|\\.)*"')


def starts_in_image_file(page: Passage, text: str) -> Iterator[FoundStart]:
    """Yield the start that a Dockerfile's last entry point and command make.

    Args:
        page: the file as Docker reads it.
        text: the whole text that it stands in.
    """
    file = page.text
    closed = file.rfind("]") + 1  # behind it, each list would be searched to the end
    listed = {match["what"]: match for match in _LISTED.finditer(file, 0, closed)}
    images = list(_FROM.finditer(file))
    if not listed or not images:
        return
    words = [
        _word(page, match.start("list") + string.start(), string[0])
        for what in ("ENTRYPOINT", "CMD")
        if (match := listed.get(what)) is not None
        for string in _STRING.finditer(match["list"])
    ]
    if not words:
        return
    commands = commands_of(page)
    env = commands[-1].assigned if commands else {}
    image = page.part(*images[-1].span("image"))
    named = Word(passage=image, start=image.places[0], end=image.places[-1])
    for start in starts_of_list(_list(words), 0, text, env, image=named):
        yield FoundStart(kind=Kind.CONTAINER, start=start)


def _word(page: Passage, at: int, written: str) -> Word:
    value = json.loads(written, strict=False)
    inner = page.part(at + 1, at + len(written) - 1)
    if inner.text != value:
        inner = page.inside(value, [at] * (len(value) + 1), json.dumps)
    return Word(
        passage=replace(inner, encode=lambda new: page.encode(json.dumps(new)[1:-1])),
        start=page.places[at],
        end=page.places[at + len(written)],
        write=lambda new: page.encode(json.dumps(new)),
    )


def _list(words: Sequence[Word]) -> WordList:
    ends = [words[0].start, *(word.end for word in words)]
    return WordList(
        words=tuple(words),
        spans=((words[0].start, words[0].end), *pairwise(ends[1:])),
        before_flag=", ",
        before_value=", ",
    )
