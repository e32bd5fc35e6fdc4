"""What an agent is answered: Python's own figures, in few words, and no file's."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import planner
from planner.engine.flags import plain
from tests.app.mcp.clients import Client, called, started
from tests.conftest import ROOT

QWEN, QWEN_32B = "Qwen/Qwen3-8B", "Qwen/Qwen3-32B"
LLAMA, LLAMA_70B = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.1-70B-Instruct",
)
LOAD = {"prompt_tokens": 3000, "output_tokens": 1000, "requests": 8}
LONG = {"prompt_tokens": 20_000, "output_tokens": 500, "requests": 2}
COMMAND = f"vllm serve {QWEN} --max-model-len 16384"
NO_ROOM = (
    "ValueError: To serve at least one request with the models's max seq len (40960), "
    "(5.62 GiB KV cache is needed, which is larger than the available KV cache memory "
    "(3.62 GiB)."
)
Question = tuple[str, dict[str, Any], Callable[[], Any]]


def planned(model: str, gpu: str, load: Any = None, **arguments: Any) -> planner.Plan:
    """A plan as Python makes it."""
    wanted = None if load is None else planner.Load(**load)
    return planner.plan(model, gpu=gpu, load=wanted, **arguments)


def of_plan(
    tool: str, make: Callable[[planner.Plan], Any], *given: Any, **arguments: Any
) -> Question:
    """A question about one start, and the same in Python."""
    model, gpu, *load = given
    asked: dict[str, Any] = {"model": model, "gpu": gpu}
    asked |= {"load": load[0]} if load else {}
    asked |= {"engine_args": arguments} if arguments else {}
    return tool, asked, lambda: make(planned(*given, **arguments))


def plans() -> Iterator[Question]:
    """Twenty-four plans: models, GPUs, layouts, formats and loads."""
    for model in (QWEN, QWEN_32B, LLAMA, LLAMA_70B):
        for gpu in ("L4", "H100", "RTX4090", "B200"):
            yield of_plan("plan", lambda plan: plan, model, gpu)
        yield of_plan("plan", lambda plan: plan, model, "H100", LOAD)
        yield of_plan(
            "plan", lambda plan: plan, model, "L40S", LONG, tensor_parallel_size=2
        )


def about_plans() -> Iterator[Question]:
    """Advice, speed and upgrades, from plans."""
    for model, gpu in ((QWEN, "L4"), (QWEN_32B, "H100"), (LLAMA, "RTX3090")):
        yield of_plan("advise", planner.advise, model, gpu)
        yield of_plan("advise", planner.advise, model, gpu, LOAD)
        yield of_plan("speed", planner.speed_forecast, model, gpu, LOAD)
        yield of_plan("speed", planner.speed_forecast, model, "H200", LONG)
        tool, asked, _ = of_plan("upgrade", planner.upgrade, model, gpu)
        yield (
            tool,
            asked | {"vllm_version": "0.27.0"},
            lambda model=model, gpu=gpu: planner.upgrade(  # type: ignore[misc]
                planned(model, gpu, vllm_version="0.27.0")
            ),
        )


def searches() -> Iterator[Question]:
    """Set-ups for a load."""
    for model, load in ((QWEN, LOAD), (LLAMA, LONG), (QWEN_32B, LOAD)):
        asked = {"model": model, "load": load, "gpus": ["L40S", "H100"], "seconds": 60}
        yield (
            "set_ups",
            asked,
            lambda model=model, load=load: planner.set_ups(  # type: ignore[misc]
                model, planner.Load(**load), ["L40S", "H100"]
            ),
        )


def texts() -> Iterator[Question]:
    """Readings and explanations of texts."""
    for text in (COMMAND, f"will {QWEN} run on an L4 for 10 users", NO_ROOM, QWEN):
        yield "read", {"text": text}, lambda text=text: planner.read(text)  # type: ignore[misc]
    for text in (COMMAND, f"docker run vllm/vllm-openai --model {QWEN}", NO_ROOM, QWEN):
        yield (
            "explain",
            {"text": text, "gpu": "L4", "model": QWEN},
            lambda text=text: planner.read(text).explain("L4", model=QWEN),  # type: ignore[misc]
        )


QUESTIONS = [*plans(), *about_plans(), *searches(), *texts()]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A client of a server that is its own process."""
    with started("--offline") as (found, _):
        yield found


@pytest.mark.server
def test_fifty_questions_have_pythons_figures(client: Client) -> None:
    """The whole account is what Python returns, value by value."""
    others = []
    for tool, asked, python in QUESTIONS:
        found = client.call(tool, **asked, whole=True)
        wanted = json.loads(json.dumps(plain(python().to_dict()), default=str))
        if found["isError"] or wanted != found["structuredContent"]:
            others.append((tool, asked, found["content"][0]["text"][:200]))

    assert 50 == len(QUESTIONS)
    assert [] == others


@pytest.mark.server
def test_fifty_answers_are_short(client: Client) -> None:
    """Half of them have under 2,000 characters, text and values together."""
    answers = [client.call(tool, **asked) for tool, asked, _ in QUESTIONS]
    texts = [len(one["content"][0]["text"]) for one in answers]
    values = [len(json.dumps(one["structuredContent"])) for one in answers]

    assert median(map(sum, zip(texts, values, strict=True))) < 2000
    assert max(texts + values) < 4000
    assert [] == [one for one in answers if one["isError"]]


@pytest.mark.server
def test_it_speaks_before_what_answers_is_imported() -> None:
    """The handshake waits for the command line and for no solver."""
    from planner.app.mcp import server

    with started() as (_, seconds):
        assert seconds < 10  # of a machine that is busy; docs/agents.md says how long
    assert "planner.app.mcp.answers" == server._ANSWERS


def test_a_short_plan_has_the_plans_figures_and_how_each_is_known() -> None:
    """Bytes as they are; the text has them in GiB."""
    plan = planned(QWEN, "L4", LOAD)
    found = called("plan", model=QWEN, gpu="L4", load=LOAD)
    values = found["structuredContent"]
    rank = plan.limiting_rank
    assert rank is not None

    assert {
        line.name: {"bytes": line.size_bytes, "basis": str(line.basis)}
        for line in rank.lines
    } == values["each_gpu"]
    assert plan.kv_cache_size_tokens == values["kv_cache_size_tokens"]
    assert plan.serving is not None
    assert plan.serving.is_served == values["load_is_served"]
    assert plan.command() == values["command"]
    assert "weights 15.27 GiB, exact" in found["content"][0]["text"]


def test_short_advice_speed_and_set_ups_say_how_they_are_known() -> None:
    """And have the figures of the result."""
    plan = planned(QWEN, "L4", LOAD)
    load = planner.Load(**LOAD)
    changes = called("advise", model=QWEN, gpu="L4", load=LOAD)["structuredContent"]
    speed = called("speed", model=QWEN, gpu="L4", load=LOAD)["structuredContent"]
    search = called("set_ups", model=QWEN, load=LOAD, gpus=["L4", "L40S"])
    forecast = planner.speed_forecast(plan, load)
    best = planner.set_ups(QWEN, load, ["L4", "L40S"])
    assert forecast.total_tokens_per_second is not None
    assert best.fewest is not None

    assert [one.title for one in planner.advise(plan).offered[:4]] == [
        one["title"] for one in changes["changes"]
    ]
    assert {"exact", "formula", "measured", "assumed"} == set(changes["how_known"])
    assert (
        round(forecast.total_tokens_per_second.value, 3)
        == speed["measured"]["output_tokens_per_s"]["value"]
    )
    found = search["structuredContent"]
    assert "assumed" in found["how_known"]["prices"]
    assert best.fewest.requests_held in [
        one["requests_held"] for one in found["set_ups"]
    ]


def test_what_is_not_understood_is_named() -> None:
    """And what is open."""
    found = called("read", text=f"{COMMAND} --made-up 3")["structuredContent"]

    assert "--made-up" in found["not_understood"]
    assert ["The GPU is not named."] == found["open"]
    assert "which GPU" in found["not_planned"]


@pytest.fixture
def secret(tmp_path: Path, tiny_folder: Path) -> Path:
    """A folder of a model, and a text, that nobody allowed."""
    (tmp_path / "secret.txt").write_text(f"{COMMAND} --served-model-name hidden-name")
    (tmp_path / "model").symlink_to(tiny_folder)
    return tmp_path


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """The files that are opened while a test runs, as Python's audit tells of them."""
    names: list[str] = []
    is_over = False

    def hear(event: str, args: tuple[object, ...]) -> None:
        if event == "open" and not is_over:  # a hook stays as long as the process
            names.append(str(args[0]))

    sys.addaudithook(hear)
    yield names
    is_over = True


@pytest.mark.parametrize("allowed", ["", "another"])
def test_no_file_is_read_unless_its_folder_is_allowed(
    secret: Path, allowed: str, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As model, draft, configuration, text, or behind a link; Python tells of each."""
    (secret / "another").mkdir()
    (secret / "another" / "link").symlink_to(secret / "model")
    monkeypatch.setenv("PLANNER_FILES", str(secret / allowed) if allowed else "")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model = str(secret / "model")
    draft = {"method": "eagle", "model": model, "num_speculative_tokens": 2}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("plan", {"model": model, "gpu": "L4"}),
        ("plan", {"model": str(secret / "another" / "link"), "gpu": "L4"}),
        ("plan", {"model": f"{model}:Q4_K_M", "gpu": "L4"}),
        (
            "plan",
            {"model": QWEN, "gpu": "L4", "engine_args": {"speculative_config": draft}},
        ),
        (
            "plan",
            {"model": QWEN, "gpu": "L4", "engine_args": {"hf_config_path": model}},
        ),
        ("explain", {"text": f"vllm serve {model}", "gpu": "L4"}),
        ("read", {"text": str(secret / "secret.txt")}),
    ]
    for tool, arguments in asked:
        found = called(tool, **arguments)
        is_ignored = tool == "read" or "hf_config_path" in str(arguments)

        assert "hidden-name" not in json.dumps(found)
        assert found["isError"] or is_ignored, arguments
    assert [] == [name for name in opened if name.startswith(str(secret))]


def test_a_folder_that_is_allowed_is_read(
    secret: Path, monkeypatch: pytest.MonkeyPatch, tiny_folder: Path
) -> None:
    """And a path outside of it is refused with what to do."""
    monkeypatch.setenv("PLANNER_FILES", str(tiny_folder))
    inside = called("plan", model=str(tiny_folder), gpu="L4")
    outside = called("plan", model=str(secret / "nothing"), gpu="L4")

    assert not inside["isError"]
    assert "planner mcp --files FOLDER" in outside["structuredContent"]["do"]


@pytest.mark.server
def test_the_protocols_own_client_is_answered() -> None:
    """Of the package `mcp`, over standard input and output, in its newest version."""
    mcp = pytest.importorskip("mcp")
    anyio = pytest.importorskip("anyio")
    stdio = pytest.importorskip("mcp.client.stdio")

    async def ask() -> Any:
        server = stdio.StdioServerParameters(
            command=sys.executable, args=["-m", "planner", "mcp"], cwd=str(ROOT)
        )
        async with (
            stdio.stdio_client(server) as (answers, questions),
            mcp.ClientSession(answers, questions) as session,
        ):
            await session.initialize()
            await session.send_ping()
            tools = await session.list_tools()
            found = await session.call_tool("plan", {"model": QWEN, "gpu": "L4"})
            refused = await session.call_tool("plan", {"model": QWEN, "gpu": "L5"})
            return tools, found, refused

    tools, found, refused = anyio.run(ask)

    assert 7 == len(tools.tools)
    assert "Does not fit" in found.content[0].text
    assert "Nearest: L4" in refused.content[0].text
