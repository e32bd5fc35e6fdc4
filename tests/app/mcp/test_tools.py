"""The tools: schemas that say what is allowed, and refusals that name it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.app.mcp.answers import ANSWERS
from planner.app.mcp.tools import _ORDERS, _QUALITIES, TOOLS
from planner.planning.load import LOAD_PARTS
from planner.solve.formats import QUALITIES
from planner.solve.set_ups import ORDERS
from tests.app.mcp.clients import called, request, said

QWEN = {"model": "Qwen/Qwen3-8B", "gpu": "L4"}
LOAD = {"prompt_tokens": 3000, "output_tokens": 1000, "requests": 4}


def test_each_tool_has_a_schema_a_title_and_an_answer() -> None:
    """A validator of the protocol's draft takes it."""
    jsonschema = pytest.importorskip("jsonschema")

    assert [*ANSWERS] == [*TOOLS]
    for tool in TOOLS.values():
        jsonschema.Draft202012Validator.check_schema(tool.schema)
        assert tool.listed()["annotations"]["readOnlyHint"]


def test_a_list_of_the_tools_is_short() -> None:
    """Every conversation of an agent begins with it."""
    (listed,) = said(request("tools/list"))

    assert len(json.dumps(listed)) < 20_000


def test_what_is_written_out_is_the_solvers_own() -> None:
    """The list of the tools does not import them."""
    assert [*ORDERS] == _ORDERS
    assert [*map(str, QUALITIES)] == _QUALITIES
    assert [*LOAD_PARTS] == [*TOOLS["plan"].properties["load"]["properties"]]


def test_every_argument_says_what_it_is() -> None:
    """With its unit, where it has one."""

    def described(schema: Any) -> bool:
        inner = schema.get("properties", {}).values()
        return "description" in schema and all(map(described, inner))

    for tool in TOOLS.values():
        undescribed = [n for n, one in tool.properties.items() if not described(one)]
        assert [] == undescribed


@pytest.mark.parametrize(
    ("tool", "arguments", "where", "words"),
    [
        ("plan", {"model": "Qwen/Qwen3-8B"}, "/gpu", "gpu is needed"),
        ("plan", {**QWEN, "gpu": 3}, "/gpu", "a text is needed"),
        ("plan", {**QWEN, "gpu": "L5"}, "/gpu", "Nearest: L4"),
        ("plan", {**QWEN, "gpus": 2}, "/gpus", "Did you mean gpu?"),
        ("plan", {**QWEN, "whole": "yes"}, "/whole", "true or false is needed"),
        ("plan", {**QWEN, "model": "x" * 501}, "/model", "at most 500"),
        ("plan", {**QWEN, "model": "\x00"}, "/model", "No such model"),
        ("plan", {**QWEN, "load": {}}, "/load/prompt_tokens", "is needed"),
        ("plan", {**QWEN, "load": LOAD | {"requests": 0}}, "/load/requests", "least"),
        (
            "plan",
            {**QWEN, "load": LOAD | {"requests": True}},
            "/load/requests",
            "whole",
        ),
        ("plan", {**QWEN, "entrypoint": "x"}, "/entrypoint", "use one of serve"),
        ("plan", {**QWEN, "vllm_version": "0.1"}, "/vllm_version", "older than"),
        (
            "plan",
            {**QWEN, "engine_args": {"max_model_le": 1}},
            "/engine_args/max_model_le",
            "Did you mean max_model_len?",
        ),
        (
            "plan",
            {**QWEN, "engine_args": {"max_model_len": "1x"}},
            "/engine_args/max_model_len",
            "is needed",
        ),
        ("plan", {"model": "nobody/nothing", "gpu": "L4"}, "/model", "nobody/nothing"),
        ("read", {"text": "x" * 500_001}, "/text", "at most 500,000"),
        ("read", {"text": ""}, "/text", "The text is empty"),
        ("explain", {"text": "\x00\x01"}, "/text", "binary data"),
        ("read", {"text": "http://127.0.0.1:9/"}, "/text", "asks no servers"),
        ("speed", {**QWEN}, "/load", "load is needed"),
        (
            "set_ups",
            {"model": "Qwen/Qwen3-8B", "load": LOAD, "seconds": 1e9},
            "/seconds",
            "60",
        ),
        (
            "set_ups",
            {"model": "Qwen/Qwen3-8B", "load": LOAD, "gpus": ["L4", 1]},
            "/gpus/1",
            "a text is needed",
        ),
        (
            "set_ups",
            {"model": "Qwen/Qwen3-8B", "load": LOAD, "prices": {"L4": -1}},
            "/prices/L4",
            "0 is the least",
        ),
        ("upgrade", {**QWEN, "vllm_version": "0.20.0", "to": "x"}, "/to", "x"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_refused_says_where_and_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
    arguments: dict[str, Any],
    where: str,
    words: str,
) -> None:
    """As a result that the agent sees, not as a failure of the protocol."""
    monkeypatch.setenv("PLANNER_FILES", "")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = called(tool, **arguments)
    problem = found["structuredContent"]

    assert found["isError"]
    assert where == problem["where"]
    assert words in found["content"][0]["text"]
    assert {"error", "code", "given", "allowed", "do", "where"} == set(problem)
    assert all(problem[name] for name in ("error", "code", "allowed", "do"))
    assert len(found["content"][0]["text"]) < 2000
