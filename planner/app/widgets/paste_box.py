"""The box that takes a text: what a page sends, and the HTML of what was read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import traitlets

from planner.app.widgets.page_widget import PageWidget
from planner.app.widgets.static_files import script, sheet
from planner.models import catalogue
from planner.surroundings import is_published
from planner.user_files import user_path

if TYPE_CHECKING:
    pass

LABEL = "Paste a model, a command, a manifest, a log or an error, or ask"
HINT = "vllm serve …, docker run …, YAML, Python, a log, owner/model"
LONGEST, LONGEST_PUBLISHED = 5_000_000, 200_000
"""Characters of a text, here and where strangers paste."""
_LONGEST_PRESS = 40
_HUB = ("https://huggingface.co/", "https://hf.co/")
_LONGEST_NAME = 200
_ADDRESS = re.compile(r"(?:\w+://\S+|[\w.-]+:\d+(?:/\S*)?)\Z")
_NAME = re.compile(r"(?:[\w.-]+/)?[\w.-]+(?:@[\w./-]+)?\Z")
NOT_PUBLISHED = (
    "Addresses are not asked by a published planner. Paste the server's start-up log, "
    "or its command; a planner on your own machine asks the server."
)


class PasteBox(PageWidget):
    """A box for a text, and a line that says what it was taken for.

    `given` is called with a text and whether the reader is done with it. A text is
    never logged, nor kept as a trait.
    """

    _esm = script("paste.js")
    _css = sheet("paste.css")
    called = "box"

    label = traitlets.Unicode(LABEL).tag(sync=True)
    hint = traitlets.Unicode(HINT).tag(sync=True)
    most = traitlets.Int().tag(sync=True)
    """Characters that are read; the page sends one more of a longer text."""
    said = traitlets.Unicode().tag(sync=True)
    """What the text was taken for, as HTML; spoken when it changes."""
    is_busy = traitlets.Bool(False).tag(sync=True)

    def __init__(self, given: Callable[[str, bool], None]) -> None:
        super().__init__(most=LONGEST_PUBLISHED if is_published() else LONGEST)
        self._given = given
        self._pieces: list[str] = []

    def _readable(self, content: object) -> object:
        """Return it as it is: a character may be cut in two."""
        return content

    def hear(self, message: Any) -> bool:  # noqa: ANN401 - what a page sent
        """Gather the pieces of a text, and pass it on when it is whole."""
        match message:
            case {
                "piece": str(piece),
                "is_first": bool(is_first),
                "is_last": bool(is_last),
                "is_whole": bool(is_whole),
            }:
                self._add(piece, is_first=is_first)
                if is_last:
                    text, self._pieces = _joined(self._pieces), []
                    self._given(text, is_whole)
                return True
        return False

    def _add(self, piece: str, *, is_first: bool) -> None:
        if is_first:
            self._pieces = []
        if piece and sum(map(len, self._pieces)) <= self.most:
            self._pieces.append(piece)


class ReadingView(PageWidget):
    """What was read, as HTML; `pressed` is called with the name of a button."""

    _esm = script("read.js")
    called = "text that was read"

    html = traitlets.Unicode().tag(sync=True)
    """Empty: nothing is shown."""

    def __init__(self, pressed: Callable[[str], None]) -> None:
        super().__init__()
        self._pressed = pressed

    def hear(self, message: Any) -> bool:  # noqa: ANN401 - what a page sent
        """Pass on a press."""
        match message:
            case {"press": str(name)} if len(name) <= _LONGEST_PRESS:
                self._pressed(name)
                return True
        return False


def _joined(pieces: list[str]) -> str:
    """Join pieces; a character that was cut in two is one again."""
    text = "".join(pieces)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def model_named(text: str) -> str:
    """Return the model that a text names; empty where it is no name."""
    if len(text) > _LONGEST_NAME or len(text.splitlines()) > 1:
        return ""
    if text.startswith(_HUB):
        return text
    if not is_published() and _is_there(text, folder=True):
        return text
    if not _NAME.match(text) or (not is_published() and _is_there(text)):
        return ""
    return text if "/" in text else searched(text) or text


def _is_there(text: str, *, folder: bool = False) -> bool:
    try:
        path = user_path(text)
        return path.is_dir() if folder else path.is_file()
    except (OSError, ValueError, RuntimeError):
        return False


def searched(text: str) -> str:
    """Return the best match of a few words among the bundled models; empty: none."""
    if not text or len(text) > _LONGEST_NAME or len(text.splitlines()) > 1:
        return ""
    found = catalogue.search(text, limit=1)
    return found[0].name if found else ""


def is_address(text: str) -> bool:
    """Return whether a text is the address of a server, not of a model's page."""
    return bool(_ADDRESS.match(text)) and not text.startswith(_HUB)
