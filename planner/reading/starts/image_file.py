"""Dockerfiles: what an image starts, by `ENTRYPOINT`, `CMD`, `ENV`, `ARG` and `FROM`.

Source: Docker 28 `Dockerfile` reference, "Shell and exec form", "FROM", "ENTRYPOINT".
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from planner.reading.passage import Passage
from planner.reading.reading import FoundStart, Kind
from planner.reading.scripts.shell import Command, Word, commands_of
from planner.reading.sites import WordList, shell_list
from planner.reading.starts.container import starts_of_list

_INSTRUCTION = re.compile(
    r"^[ \t]*(?P<what>(?:FROM|ARG|ENV|ENTRYPOINT|CMD)(?=[ \t]))?"
    r"(?:[^\\\n]|\\[ \t]*\r?\n(?:[ \t]*#[^\n]*\n)*|\\)*+",
    re.MULTILINE,
)
_LIST = re.compile(r"[ \t]*(?:ENTRYPOINT|CMD)[\s\\]*\[(?P<list>[^\]]*)\]")
_STRING = re.compile(r'(?<!\\)"(?:[^"\\\n]|\\.)*"')

_CHARACTER = re.compile(r"\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL)


def starts_in_image_file(page: Passage, text: str) -> Iterator[FoundStart]:
    """Yield the starts that a Dockerfile's last entry point and command make.

    Args:
        page: the file as Docker reads it.
        text: the whole text that it stands in.
    """
    if "FROM" not in page.text:
        return
    image, last = _last_stage(commands_of(_instructions(page)))
    if image is None:
        return
    for found, env, has_program in _run(page, text, last):
        own = "-" if has_program else ""
        for start in starts_of_list(found, 0, text, env, entrypoint=own, image=image):
            yield FoundStart(kind=Kind.CONTAINER, start=start)


def _last_stage(
    commands: Iterable[Command],
) -> tuple[Word | None, Mapping[str, Sequence[Command]]]:
    """Return the image that a file begins with, and what it runs by instruction."""
    image: Word | None = None
    last: dict[str, list[Command]] = {}
    names: set[str] = set()
    what = ""
    for command in commands:
        first, *words = command.words
        if first.value == "FROM":
            words = [word for word in words if not word.value.startswith("--")]
            what = first.value
            if words and words[0].value not in names:
                image, last = words[0], {}
            names.update(word.value for word in words[-1:])
        elif first.value in ("ENTRYPOINT", "CMD"):
            what = first.value
            last[what] = [command]
        elif what in last:  # a command behind `&&`
            last[what].append(command)
    return image, last


def _instructions(page: Passage) -> Passage:
    """Return a file in which the other instructions are blank."""
    pieces = (
        one[0] if one["what"] else re.sub(r"[^\n]", " ", one[0])
        for one in _INSTRUCTION.finditer(page.text)
    )
    return replace(page, text="\n".join(pieces))


def _run(
    page: Passage, text: str, last: Mapping[str, Sequence[Command]]
) -> Iterator[tuple[WordList, Mapping[str, Word], bool]]:
    """Yield what a container runs: lists of words together, or a shell's commands.

    With the variables, and whether it is a program of its own.
    """
    listed: list[Word] = []
    env: Mapping[str, Word] = {}
    for what in ("ENTRYPOINT", "CMD"):
        for command in last.get(what, ()):
            env = command.assigned
            words = _listed(page, command.words[0])
            if words is not None:
                listed += words
                break
            own = command.words[1:] if command is last[what][0] else command.words
            if own:
                yield shell_list(own, text), env, True
    if listed:
        yield _list(listed), env, "ENTRYPOINT" in last


def _listed(page: Passage, instruction: Word) -> list[Word] | None:
    """Return the words of a list; None where a shell reads the command."""
    at = bisect_left(page.places, instruction.start)
    match = _LIST.match(page.text, at)
    if match is None:
        return None
    strings = _STRING.finditer(match["list"])
    start = match.start("list")
    return [_word(page, start + string.start(), string[0]) for string in strings]


def _word(page: Passage, at: int, written: str) -> Word:
    value = json.loads(written, strict=False)
    places = [one.start() + at for one in _CHARACTER.finditer(written, 1)]
    if len(places) != len(value) + 1:
        places = [at] * (len(value) + 1)
    inner = page.inside(value, places, str)
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
