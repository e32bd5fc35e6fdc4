"""What `/api/plan` answers: a plan of the schema, or a sentence and a place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.app.voila.plan_answers import answer
from planner.export import json_schema
from planner.models.sources import finding
from planner.surroundings import PUBLISHED

fastjsonschema = pytest.importorskip("fastjsonschema")

QWEN = {"model": "Qwen/Qwen3-8B", "gpu": "L4"}
LOAD = {"prompt_tokens": 3000, "output_tokens": 1000, "requests": 8}
COMMAND = "vllm serve Qwen/Qwen3-8B --max-model-len 4096"
TWO = f"{COMMAND}\n{COMMAND} --kv-cache-dtype fp8\n"


@pytest.fixture(scope="module")
def check() -> Any:
    """What refuses whatever is no plan."""
    return fastjsonschema.compile(json.loads(json_schema()))


def asked(**entries: object) -> tuple[int, dict[str, Any]]:
    """The answer to a question of these entries."""
    status, said = answer(json.dumps(entries))
    return int(status), json.loads(json.dumps(said))


@pytest.mark.parametrize(
    "entries",
    [
        QWEN,
        {"model": "Qwen/Qwen3-8B"},
        {**QWEN, "engine_args": {"max_model_len": 4096}, "load": LOAD},
        {**QWEN, "engine_args": {"tensor_parallel_size": 3}},
        {**QWEN, "engine_args": None, "env": {"VLLM_USE_V1": 1}},
        {**QWEN, "vllm_version": "0.19.1", "entrypoint": "llm"},
        {**QWEN, "gpu": {"name": "H100", "total_memory_bytes": 40 << 30}},
        {"text": COMMAND, "gpu": "L4"},
        {"text": TWO, "gpu": "L4", "start": 2, "load": LOAD},
        {"text": COMMAND, "gpu": "L4", "model": "Qwen/Qwen3-4B", "engine_args": {}},
    ],
    ids=lambda entries: ",".join(entries),
)
def test_every_answer_is_a_plan_of_the_schema(check, entries) -> None:
    """Whether it fits or not."""
    status, plan = asked(**entries)

    assert status == 200, plan
    check(plan)


def test_what_does_not_fit_is_an_answer_and_what_vllm_refuses_too() -> None:
    """With vLLM's own error."""
    status, plan = asked(**QWEN)
    refused = asked(**QWEN, engine_args={"tensor_parallel_size": 3})[1]

    assert (200, False, "does not fit") == (status, plan["fits"], plan["verdict"])
    assert "KV cache is needed" in plan["error"]["message"]
    assert "refused" == refused["verdict"]


def test_entries_beside_a_text_change_what_it_says() -> None:
    """A later entry counts more than the text; null takes an argument out."""
    plain = asked(text=COMMAND, gpu="L4")[1]
    longer = asked(text=COMMAND, gpu="L4", engine_args={"max_model_len": 8192})[1]
    default = asked(text=COMMAND, gpu="H100", engine_args={"max_model_len": None})[1]
    second = asked(text=TWO, gpu="L4", start=2)[1]

    lengths = [one["resolved"]["max_model_len"] for one in (plain, longer, default)]
    assert [4096, 8192, 40960] == lengths
    assert plain["kv_cache_size_tokens"] * 2 == pytest.approx(
        second["kv_cache_size_tokens"], rel=0.05
    )


@pytest.mark.parametrize(
    ("entries", "where"),
    [
        ({}, "/model"),
        ({"gpu": "L4"}, "/model"),
        ({"model": 1}, "/model"),
        ({"model": ""}, "/model"),
        ({"model": "../../etc/passwd"}, "/model"),
        ({"model": "Qwen/Qwen3-8B", "gpu": "L5"}, "/gpu"),
        ({"model": "Qwen/Qwen3-8B", "gpu": ["L4"]}, "/gpu"),
        ({"model": "Qwen/Qwen3-8B", "gpu": {"name": "L4", "colour": "red"}}, "/gpu"),
        ({**QWEN, "vllm_version": "0.1"}, "/vllm_version"),
        ({**QWEN, "entrypoint": "cli"}, "/entrypoint"),
        ({**QWEN, "max_model_len": 4096}, "/max_model_len"),
        ({**QWEN, "a/b~c": 1}, "/a~1b~0c"),
        ({**QWEN, "engine_args": [1]}, "/engine_args"),
        ({**QWEN, "engine_args": {"max_model_length": 1}}, "/engine_args"),
        ({**QWEN, "engine_args": {"gpu": "L4"}}, "/engine_args/gpu"),
        ({**QWEN, "engine_args": {"max_model_len": "x"}}, "/engine_args/max_model_len"),
        ({**QWEN, "env": {"VLLM_USE_V1": [1]}}, "/env/VLLM_USE_V1"),
        ({**QWEN, "load": 3}, "/load"),
        ({**QWEN, "load": {"prompt_tokens": 1}}, "/load"),
        ({**QWEN, "load": {**LOAD, "requests": 0}}, "/load/requests"),
        ({"text": 1, "gpu": "L4"}, "/text"),
        ({"text": "", "gpu": "L4"}, "/text"),
        ({"text": COMMAND}, "/gpu"),
        ({"text": COMMAND, "gpu": "L4", "start": 2}, "/start"),
        ({"text": COMMAND, "gpu": "L4", "start": "1"}, "/start"),
        ({"text": f"{COMMAND} --no-such 3", "gpu": "L4"}, "/text"),
    ],
    ids=json.dumps,
)
def test_a_wrong_entry_is_refused_at_its_place(entries, where, monkeypatch) -> None:
    """In a sentence; on a page for strangers, where no path is a model."""
    monkeypatch.setenv(PUBLISHED, "1")
    status, said = asked(**entries)

    assert 422 == status, said
    assert {"error", "where"} == set(said)
    assert said["where"].startswith(where)
    assert said["error"].endswith((".", ")", "?", "0.0"))


@pytest.mark.parametrize(
    "body",
    [
        *("", "null", "[]", "3", '"text"', "{", "{}}", "\ufeff{}", "\0"),
        '{"model": NaN}',
        '{"model": "a", "model": "b"}',
        f'{{"load": {"9" * 5000}}}',
        f'{{"model": {"[" * 60_000}',
        f'{{"model": {"[" * 900}{"]" * 900}}}',
        '{"engine_args": ' + '{"a":' * 5000 + "1" + "}" * 5001,
    ],
    ids=range(15),
)
def test_what_is_no_json_object_is_refused_as_a_whole(body) -> None:
    """Whatever it is: no error of Python's escapes."""
    status, said = answer(body)

    assert status in (400, 422)
    assert said["error"]


@pytest.mark.parametrize(
    "value",
    [
        *(10**400, -1, 1e308, True, "x" * 50_000, "\ud800", "\0", [[]], {"a": {}}),
        [1] * 10_000,
    ],
    ids=range(10),
)
@pytest.mark.parametrize(
    "name", ["max_model_len", "speculative_config", "lora_modules"]
)
def test_no_value_of_an_argument_makes_it_fail(name, value) -> None:
    """It is planned, or refused in a sentence."""
    status, said = asked(**QWEN, engine_args={name: value})

    assert status in (200, 400, 422)
    assert status == 200 or said["error"]


def test_a_hub_that_cannot_be_read_is_no_fault_of_the_question(monkeypatch) -> None:
    """Status 503: the same question may be answered later."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    finding.model_files.__globals__["_from_hub"].cache_clear()

    status, said = asked(model="nobody/no-such-model", gpu="L4")

    assert (503, "/model") == (status, said["where"])


def test_a_page_for_strangers_opens_no_file_and_no_address(
    tmp_path, monkeypatch
) -> None:
    """Neither as a model, nor as a text."""
    monkeypatch.setenv(PUBLISHED, "1")
    secret = tmp_path / "secret.txt"
    secret.write_text(f"{COMMAND} --seed 4711")
    for entries in (
        {"model": str(tmp_path), "gpu": "L4"},
        {"text": str(secret), "gpu": "L4"},
        {"text": "http://127.0.0.1:9/metrics", "gpu": "L4"},
        {**QWEN, "gpu": "attached"},
        {**QWEN, "gpu": "CPU"},
    ):
        status, said = asked(**entries)

        assert 422 == status, said
        assert "4711" not in json.dumps(said)
