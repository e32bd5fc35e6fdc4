"""Units of systemd that start a container: quadlets of Podman.

Source: Podman 5.6 podman-systemd.unit(5), "Container units".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from planner.reading.passage import Passage
from planner.reading.reading import FoundStart, Kind
from planner.reading.scripts.shell import Word, commands_of
from planner.reading.sites import shell_list
from planner.reading.starts.container import starts_of_list

_LINE = re.compile(r"^[ \t]*(?:(?P<key>\w+)=)?(?:[^\\\n]|\\.|\\\n)*+", re.MULTILINE)
_IMAGE = re.compile(r"^[ \t]*Image=(?P<image>\S+)", re.MULTILINE)
_DEVICE = re.compile(r"^[ \t]*AddDevice=nvidia\.com/gpu=\d+[ \t]*$", re.MULTILINE)
_READ = ("Environment", "Exec")


def starts_in_quadlet(page: Passage, text: str) -> Iterator[FoundStart]:
    """Yield the start that a unit with a container describes.

    Args:
        page: the unit.
        text: the whole text that it stands in.
    """
    image = _IMAGE.search(page.text) if "[Container]" in page.text else None
    if image is None:
        return
    named = page.part(*image.span("image"))
    word = Word(passage=named, start=named.places[0], end=named.places[-1])
    lines = (_read(line) for line in _LINE.finditer(page.text))
    gpus = len(_DEVICE.findall(page.text)) or None
    for command in commands_of(replace(page, text="\n".join(lines))):
        found = shell_list(command.words, text)
        for start in starts_of_list(found, 0, text, command.assigned, image=word):
            yield FoundStart(kind=Kind.CONTAINER, start=replace(start, gpus=gpus))


def _read(line: re.Match[str]) -> str:
    """Return a line of which a shell reads what it sets or runs."""
    cut = line.end("key") + 1 - line.start() if line["key"] in _READ else len(line[0])
    return re.sub(r"[^\n]", " ", line[0][:cut]) + line[0][cut:]
