"""Runs the explorer in the page's worker: comms carry its widgets, as from a kernel.

ipywidgets imports IPython for notebooks, of which there is none here: names that it
looks up are there, and what they would do is refused. That saves seconds.
"""

from __future__ import annotations

import json
import logging
import sys
from types import ModuleType
from typing import Any

import comm
import page  # type: ignore[import-not-found]  # given by worker.mjs
from comm.base_comm import BaseComm
from js import JSON  # type: ignore[import-not-found]
from pyodide.ffi import to_js  # type: ignore[import-not-found]


def _refuse(*_given: object, **_named: object) -> None:
    raise NotImplementedError("There is no notebook in this page.")


def _pretend(name: str, **names: object) -> None:
    module = ModuleType(name)
    module.__dict__.update(names)
    module.__path__ = []
    sys.modules[name] = module


class PageComm(BaseComm):
    """Sends what a widget publishes to the page."""

    def publish_msg(
        self,
        msg_type: str,
        data: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        buffers: list[bytes] | None = None,
        **keys: object,
    ) -> None:
        """Post one message."""
        message = {
            "type": msg_type,
            "id": self.comm_id,
            "content": {"data": data or {}, **keys},
            "metadata": metadata or {},
            "parent": _parent[-1],
        }
        posted = JSON.parse(json.dumps(message))
        posted.buffers = to_js([bytes(one) for one in buffers or []])
        page.post(posted)


def heard(message: str, kind: str, comm_id: str, data: str, buffers: Any) -> None:  # noqa: ANN401
    """Hand a message of the page to its widget."""
    manager = comm.get_comm_manager()
    content = {"comm_id": comm_id, "data": json.loads(data)}
    told = {"content": content, "buffers": [one.to_py() for one in buffers]}
    _parent.append(message)
    try:
        getattr(manager, kind)(None, None, told)
    except Exception:
        logging.getLogger(__name__).exception("a message of the page failed")
    finally:
        _parent.pop()


_parent = [""]

_pretend("IPython", get_ipython=lambda: None)
_pretend("IPython.display", display=_refuse, clear_output=_refuse)
_pretend("IPython.core")
_pretend("IPython.core.interactiveshell", InteractiveShell=type("Shell", (), {}))
comm.create_comm = PageComm

from planner import Explorer  # noqa: E402 - what it imports finds the names above

explorer = Explorer()
page.post(JSON.parse(json.dumps({"type": "shown", "id": explorer.model_id})))
