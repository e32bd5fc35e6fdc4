"""Jupyter's messages on a websocket: both ways of writing them down.

Source: jupyter_server `services/kernels/connection/base.py`; the binary form is the
subprotocol v1.kernel.websocket.jupyter.org, the other is JSON text.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

WIDGETS = {"version": "1.0.0"}
"""Metadata of messages about widgets. Source: ipywidgets `widgets/widget.py`."""
V1 = "v1.kernel.websocket.jupyter.org"
PROTOCOLS = (V1, "")
_NUMBER = struct.Struct("<Q")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What a kernel said."""

    kind: str
    answers: str
    """Id of the message that it answers."""
    content: dict[str, Any]
    num_bytes: int


def written(
    protocol: str, kind: str, content: dict[str, Any], session: str
) -> tuple[str, str | bytes]:
    """Return a message's id and the message for the shell channel."""
    header = {
        "msg_id": uuid4().hex,
        "msg_type": kind,
        "username": "",
        "session": session,
        "date": datetime.now(UTC).isoformat(),
        "version": "5.4",
    }
    if protocol != V1:
        whole = {
            "channel": "shell",
            "header": header,
            "parent_header": {},
            "metadata": WIDGETS,
            "content": content,
            "buffers": [],
        }
        return header["msg_id"], json.dumps(whole)
    parts = [b"shell", *(_json(part) for part in (header, {}, WIDGETS, content))]
    return header["msg_id"], _joined(parts)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _joined(parts: list[bytes]) -> bytes:
    place = _NUMBER.size * (len(parts) + 2)
    offsets = [place]
    for part in parts:
        place += len(part)
        offsets.append(place)
    numbers = (len(offsets), *offsets)
    return b"".join([*(_NUMBER.pack(number) for number in numbers), *parts])


def read(received: str | bytes) -> Message:
    """Read a message of either form."""
    if isinstance(received, str):
        whole = json.loads(received)
        header, parent, content = (
            whole[name] for name in ("header", "parent_header", "content")
        )
    else:
        count = _NUMBER.unpack_from(received)[0]
        offsets = [
            _NUMBER.unpack_from(received, _NUMBER.size * (place + 1))[0]
            for place in range(count)
        ]
        _, header, parent, _, content = (
            received[offsets[place] : offsets[place + 1]] for place in range(5)
        )
        header, parent, content = (
            json.loads(part) for part in (header, parent, content)
        )
    return Message(
        kind=header["msg_type"],
        answers=parent.get("msg_id", ""),
        content=content,
        num_bytes=len(received),
    )
