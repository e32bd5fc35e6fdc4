"""The base of the planner's own widgets: a page shows them, and sends messages."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

import anywidget

log = logging.getLogger(__name__)


class PageWidget(anywidget.AnyWidget):
    """A widget whose state comes from the kernel alone.

    ipywidgets lets a page set every trait, which would then be trusted here.
    """

    set_by_page: ClassVar[frozenset[str]] = frozenset()
    """Names of the traits that the page's own script sends."""
    called: ClassVar[str] = "widget"
    """What the log calls it."""

    def __init__(self, **traits: object) -> None:
        super().__init__(**traits)
        self.on_msg(self._on_message)

    def hear(self, message: Any) -> bool:  # noqa: ANN401, ARG002 - what a page sent
        """Do what a message says; False for one that no script of the planner sends."""
        return False

    def _on_message(self, _widget: object, content: object, _buffers: object) -> None:
        """Read a message, in texts that can be sent back."""
        try:
            message = self._readable(content)
        except RecursionError:
            message = None  # as no page sends it
        if not self.hear(message):
            log.warning("a page sent an invalid message of the %s", self.called)

    def _readable(self, content: object) -> object:
        """Return a message with U+FFFD for half of a character.

        JSON can hold such a lone surrogate: an answer that repeated it could not be
        sent, and the page would show the one before.
        """
        if isinstance(content, str):
            if content.isascii():
                return content
            return content.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if isinstance(content, list):
            return [self._readable(one) for one in content]
        if isinstance(content, dict):
            return {
                self._readable(name): self._readable(one)
                for name, one in content.items()
            }
        return content

    def set_state(self, sync_data: object) -> None:
        """Ignore a state that a page sends, except for what its script sends."""
        sent = sync_data if isinstance(sync_data, Mapping) else {}
        kept = {name: sent[name] for name in self.set_by_page & sent.keys()}
        if not kept or len(kept) < len(sent):
            log.warning("a page sent a state that no script of the planner sends")
        if kept:
            super().set_state(kept)
