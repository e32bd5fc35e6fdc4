"""Which messages of a page reach its kernel."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.app.voila.screening import MOST_VALUES, V1, screened

CONTROL = {"comm_id": "c1", "target_name": "jupyter.widget.control", "data": {}}
TOLD = {"comm_id": "c1", "data": {"method": "update", "state": {}}}


def newer(
    kind: object, content: object, channel: str = "shell", **more: object
) -> bytes:
    """A message as the page of today writes it."""
    header = {"msg_id": "m1", "msg_type": kind, **more}
    parts = [channel.encode()]
    parts += [json.dumps(part).encode() for part in (header, {}, {}, content)]
    offsets = [8 * (len(parts) + 2)]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    numbers = struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets)
    return numbers + b"".join(parts)


def older(kind: object, content: object, channel: object = "shell") -> str:
    """A message in Jupyter's older way."""
    header = {"msg_id": "m1", "msg_type": kind}
    return json.dumps(
        {
            "channel": channel,
            "header": header,
            "parent_header": {},
            "metadata": {},
            "content": content,
        }
    )


PASS = [
    ("comm_msg", TOLD),
    ("comm_open", CONTROL),
    ("comm_close", {"comm_id": "c1"}),
    ("comm_info_request", {"target_name": "jupyter.widget"}),
    ("kernel_info_request", {}),
]
DROPPED = [
    ("execute_request", {"code": "1+1"}),
    ("input_reply", {"value": "x"}),
    ("complete_request", {"code": "import o", "cursor_pos": 8}),
    ("inspect_request", {"code": "open", "cursor_pos": 4, "detail_level": 1}),
    ("history_request", {"hist_access_type": "tail", "n": 10}),
    ("is_complete_request", {"code": "1"}),
    ("debug_request", {"command": "evaluate"}),
    ("interrupt_request", {}),
    ("shutdown_request", {"restart": True}),
    ("create_subshell_request", {}),
    ("usage_request", {}),
    ("comm_open", {"comm_id": "c", "target_name": "jupyter.widget", "data": {}}),
    ("comm_open", {"comm_id": "c", "target_name": "other", "target_module": "os"}),
    ("comm_open", {"comm_id": "c"}),
    ("comm_open", {"comm_id": "c", "target_name": ["jupyter.widget.control"]}),
    ("comm_msg", {"comm_id": 5, "data": {}}),
    ("comm_msg", {"data": {}}),
    ("comm_msg", []),
    ("comm_msg", None),
    ("", {}),
    (None, {}),
    (["comm_msg"], TOLD),
    ({"comm_msg": 1}, TOLD),
]


@pytest.mark.parametrize(("kind", "content"), PASS)
def test_what_the_page_says_passes_unchanged(kind, content) -> None:
    """Both ways of writing it."""
    assert screened(newer(kind, content), V1) == newer(kind, content)
    assert json.loads(screened(older(kind, content), None) or "") == json.loads(
        older(kind, content)
    )


@pytest.mark.parametrize(("kind", "content"), DROPPED)
def test_everything_else_is_dropped(kind, content) -> None:
    """What runs, reads, completes, stops, or makes widgets."""
    assert screened(newer(kind, content), V1) is None
    assert screened(older(kind, content), None) is None


@pytest.mark.parametrize("channel", ["control", "stdin", "iopub", "", "SHELL"])
def test_only_the_shell_channel_is_open(channel) -> None:
    """The others are for debuggers, input and output."""
    assert screened(newer("comm_msg", TOLD, channel), V1) is None
    assert screened(older("comm_msg", TOLD, channel), None) is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff" * 8,
        b"\xff" * 4096,
        (1 << 40).to_bytes(8, "little") + bytes(64),
        (6).to_bytes(8, "little"),
        bytes(4096),
        newer("comm_msg", TOLD)[:-1],
        newer("comm_msg", TOLD) + b"x",
        struct.pack("<7Q", 6, 200, 100, 56, 56, 56, 56),
        struct.pack("!I", 1 << 31) + bytes(64),
        "text where bytes belong",
    ],
)
def test_offsets_that_lie_cost_nothing(message) -> None:
    """A count of 2^64 offsets is not counted to."""
    assert screened(message, V1) is None


@pytest.mark.parametrize(
    "message",
    ["", "null", "[]", "1", '"x"', "{}", '{"channel": "shell"}', "[" * 100_000, b"x"],
)
def test_older_nonsense_is_dropped(message) -> None:
    """And binary data in the older way, whose offsets are not checked by anybody."""
    assert screened(message, None) is None


def test_a_header_that_says_two_things_is_written_anew() -> None:
    """Whoever reads it next reads what was checked."""
    told = older("comm_msg", TOLD).replace(
        '"msg_type": "comm_msg"',
        '"msg_type": "execute_request", "msg_type": "comm_msg"',
    )
    passed = screened(told, None)

    assert "execute_request" in told
    assert passed is not None
    assert "execute_request" not in passed


def test_binary_data_stays_behind_the_content() -> None:
    """Buffers of a message pass as they are."""
    parts = [b"shell", b'{"msg_id": "m", "msg_type": "comm_msg"}', b"{}", b"{}"]
    parts += [json.dumps(TOLD).encode(), b"\x00\xff"]
    offsets = [8 * (len(parts) + 2)]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    message = struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets)
    message += b"".join(parts)

    assert screened(message, V1) == message


@given(st.binary(max_size=200) | st.text(max_size=200), st.sampled_from([V1, None]))
def test_any_bytes_are_answered(message, protocol) -> None:
    """Nothing is raised; random bytes are no message."""
    assert screened(message, protocol) is None


CUSTOM = {"method": "custom", "content": '[{,\\"' * 20_000}


@pytest.mark.parametrize("write", [(newer, V1), (older, None)])
def test_a_long_text_passes_as_a_message_of_its_own(write) -> None:
    """A log with brackets, commas and escaped quotes is one value."""
    words, protocol = write
    message = words("comm_msg", {"comm_id": "c1", "data": CUSTOM})
    passed = screened(message, protocol)

    assert len(message) > 100_000
    assert passed is not None
    assert len(passed) >= len(message)


@pytest.mark.parametrize("write", [(newer, V1), (older, None)])
@pytest.mark.parametrize(
    "values", [[[]] * 65_000, ["x"] * 65_000, [{}] * MOST_VALUES, [1] * MOST_VALUES]
)
def test_a_message_of_many_values_is_dropped_unread(write, values) -> None:
    """Empty lists take forty times as long to read as a text of their size."""
    words, protocol = write
    data = {"method": "custom", "content": values}
    assert (
        screened(words("comm_msg", {"comm_id": "c1", "data": data}), protocol) is None
    )


@pytest.mark.parametrize("method", ["update", "request_state", "request_states", "x"])
def test_a_long_state_is_dropped(method: str) -> None:
    """The kernel would keep it, and send it to whoever asks for all states."""
    long, short = ({"method": method, "state": {"value": "x" * n}} for n in (5_000, 50))
    words = [
        newer("comm_msg", {"comm_id": "c1", "data": data}) for data in (long, short)
    ]

    assert [True, False] == [screened(one, V1) is None for one in words]


@given(st.binary(max_size=40), st.integers(0, 60))
def test_many_quotes_are_answered(text: bytes, number: int) -> None:
    """Whatever stands between them: None, or the same object again."""
    for message in (text * number, b'{"channel": "' + text * number):
        assert screened(message, V1) is None
        assert screened(message.decode("latin-1"), None) is None
