"""The protocol: handshakes of all its versions, and messages that are none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.app.mcp.server import DISCOVERED, HANDSHAKES, LONGEST_BYTES
from planner.version import __version__
from tests.app.mcp.clients import called, request, said


@pytest.mark.parametrize(
    ("wanted", "spoken"),
    [*((one, one) for one in HANDSHAKES), ("2099-01-01", HANDSHAKES[0]), (3, None)],
)
def test_a_handshake_agrees_on_the_clients_version(wanted: object, spoken: str) -> None:
    """Else on the newest that has a handshake."""
    (answer,) = said(request("initialize", protocolVersion=wanted))

    assert (spoken or HANDSHAKES[0]) == answer["result"]["protocolVersion"]
    assert __version__ == answer["result"]["serverInfo"]["version"]
    assert "exact, formula, measured, assumed" in answer["result"]["instructions"]


def test_the_newest_version_is_discovered() -> None:
    """Without a handshake; each result says that it is complete."""
    meta = {"io.modelcontextprotocol/protocolVersion": DISCOVERED}
    found, tools, ping = said(
        request("server/discover", _meta=meta),
        request("tools/list", _meta=meta),
        request("ping", _meta=meta),
    )

    assert [DISCOVERED] == found["result"]["supportedVersions"]
    assert 7 == len(tools["result"]["tools"])
    for one in (found, tools):
        assert "complete" == one["result"]["resultType"]
        assert one["result"]["ttlMs"] >= 0
    assert {"resultType": "complete"} == ping["result"]


def test_a_version_that_is_not_spoken_is_refused() -> None:
    """With those that are."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    (answer,) = said(request("tools/list", _meta=meta))

    assert -32022 == answer["error"]["code"]
    assert [DISCOVERED, *HANDSHAKES] == answer["error"]["data"]["supported"]


def test_a_ping_of_a_strict_client_is_answered_by_nothing() -> None:
    """Some refuse any key in it."""
    assert [{"jsonrpc": "2.0", "id": 1, "result": {}}] == said(request("ping"))


def test_notifications_and_answers_are_not_answered() -> None:
    """Nor is what follows them lost."""
    answers = said(
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 9, "result": {}},
        b"   ",
        request("ping", 3),
    )

    assert [3] == [one["id"] for one in answers]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"not json", -32700),
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": NaN}}',
            -32700,
        ),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32700),
        (b"9" * 5000, -32700),
        (b"x" * (LONGEST_BYTES + 5), -32700),
        (b"[]", -32600),
        (b"[" + b",".join([b"{}"] * 21) + b"]", -32600),
        (b"3", -32600),
        (b'{"id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}', -32602),
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", '
            b'"params": {"name": "plan", "arguments": []}}',
            -32602,
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_message_that_is_none_is_refused_and_the_next_is_answered(
    line: bytes, code: int
) -> None:
    """In the protocol's own codes."""
    refused, answered = said(line, request("ping", 2))

    assert code == refused["error"]["code"]
    assert {"jsonrpc": "2.0", "id": 2, "result": {}} == answered


def test_a_batch_is_answered_by_a_batch() -> None:
    """Version 2025-03-26 has them; a batch of notifications has no answer."""
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    (answers,) = said([request("ping", 1), note, request("ping", 2)], [note])

    assert [1, 2] == [one["id"] for one in answers]


def test_a_failure_of_the_planner_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client gets an error without what failed, which standard error has."""
    from planner.app.mcp import answers

    def fail(_given: Any) -> Any:
        raise ZeroDivisionError("seven")

    monkeypatch.setitem(answers.ANSWERS, "plan", (fail, fail))
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "L4"}
    failed, ping = said(
        request("tools/call", name="plan", arguments=asked), request("ping", 2)
    )

    assert -32603 == failed["error"]["code"]
    assert "seven" not in json.dumps(failed)
    assert "ZeroDivisionError: seven" in capsys.readouterr().err
    assert 2 == ping["id"]


def test_control_characters_do_not_reach_a_terminal() -> None:
    """An agent shows what it gets."""
    text = "vllm serve Qwen/Qwen3-8B --gpu \x1b[31m\x07 --served-model-name \u202ea"
    shown = called("read", text=text, gpu="L4")["content"][0]["text"]

    assert "vllm" not in shown[:4]
    assert set("\x1b\x07\u202e").isdisjoint(shown)
