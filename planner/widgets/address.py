"""The address of the app's page: it opens a plan, and follows the one on the screen."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anywidget
import traitlets

from planner.widgets.static_files import script

log = logging.getLogger(__name__)


class Address(anywidget.AnyWidget):
    """Tells `opened` the query of the page; `query` replaces it in the address."""

    _esm = script("shortcuts.js", "address.js")

    query = traitlets.Unicode().tag(sync=True)
    """Such as "?model=...&gpu=H100"; not written before it changes."""

    def __init__(self, opened: Callable[[str], None]) -> None:
        super().__init__()
        self._opened = opened
        self.on_msg(self._heard)

    def _heard(self, _widget: object, content: object, _buffers: object) -> None:
        match content:
            case {"opened": str(query)}:
                self._opened(query)
            case _:
                log.warning("a page sent what is no address")
