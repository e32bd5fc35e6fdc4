"""The base of the planner's own widgets: a page shows them, and sends messages."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import ClassVar

import anywidget

log = logging.getLogger(__name__)


class PageWidget(anywidget.AnyWidget):
    """A widget whose state comes from the kernel alone.

    ipywidgets lets a page set every trait, which would then be trusted here.
    """

    set_by_page: ClassVar[frozenset[str]] = frozenset()
    """Names of the traits that the page's own script sends."""

    def set_state(self, sync_data: object) -> None:
        """Ignore a state that a page sends, except for what its script sends."""
        sent = sync_data if isinstance(sync_data, Mapping) else {}
        kept = {name: sent[name] for name in self.set_by_page & sent.keys()}
        if not kept or len(kept) < len(sent):
            log.warning("a page sent a state that no script of the planner sends")
        if kept:
            super().set_state(kept)
