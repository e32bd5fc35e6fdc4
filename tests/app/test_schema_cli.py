"""`planner schema`: the schemas of outputs, and outputs that are as they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.app import cli
from planner.show.schemas import PLAN, names, schema

jsonschema = pytest.importorskip("jsonschema")
LOAD = "--prompt-tokens 3000 --output-tokens 1000 --requests 4"
OUTPUTS = [
    ("plan", "plan Qwen/Qwen3-8B --gpu L4"),
    ("solve", "solve context Qwen/Qwen3-8B --gpu L4 --requests 2"),
    ("solve", f"solve gpus Qwen/Qwen3-32B --gpus L4,H100 {LOAD}"),
    ("solve-set-ups", f"solve set-ups Qwen/Qwen3-8B --gpus L4,L40S {LOAD}"),
    ("solve-models", "solve models --gpu L4 --search qwen3-0 --prompt-tokens 1000"),
    ("advise", "advise Qwen/Qwen3-8B --gpu L4"),
    ("compare", "compare Qwen/Qwen3-8B Qwen/Qwen3-4B --gpu L4"),
    ("compare-gpus", "compare Qwen/Qwen3-8B --gpus L4,L40S --price L4=0.8"),
    ("sweep", "sweep Qwen/Qwen3-8B --over gpu=L4,H100 max_num_seqs=8,16"),
    ("upgrade", "upgrade Qwen/Qwen3-8B --gpu L4 --from 0.30.0"),
    ("speed", f"speed Qwen/Qwen3-8B --gpu H100 {LOAD}"),
    ("ray", "ray Qwen/Qwen3-8B --gpu H100 --concurrency 2"),
    ("ray", "ray Qwen/Qwen3-8B --gpu H100 --nodes 1"),
    ("read", "read -- vllm serve Qwen/Qwen3-8B --max-model-len 8k"),
    ("read", "read will Qwen3 8B run on an L4 for 10 users"),
    ("check", "check START --gpu L4"),
    ("models", "models qwen3-0"),
    ("gpus", "gpus h100"),
    ("attached", "gpus --attached"),
    ("calibration", "calibration list"),
    ("doctor", "doctor"),
    ("confirm", "confirm --gpu CPU --log tests/data/logs/cpu-0.32.0.log"),
    ("error", "plan Qwen/Qwen3-8B --gpu H101"),
]


def out(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """What a command prints, read."""
    cli.main(list(words))
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", names())
def test_each_schema_is_one_and_refers_to_nothing_else(name: str) -> None:
    """Draft 7, with an identifier of its own that is no address."""
    found = schema(name)

    jsonschema.Draft7Validator.check_schema(found)
    assert f"urn:vllm-memory-planner:schema:{name}" == found["$id"]
    assert found["title"]
    assert found["description"]
    text = json.dumps(found)
    if f'"$ref": "urn:vllm-memory-planner:schema:{PLAN}"' in text and name != PLAN:
        assert schema(PLAN) == found["definitions"][PLAN]


@pytest.mark.parametrize(("name", "line"), OUTPUTS, ids=lambda value: value[:40])
def test_what_a_command_prints_is_as_its_schema_says(
    name: str,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By another validator than the one that holds every result of every test."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "start.sh").write_text("vllm serve Qwen/Qwen3-8B")
    words = line.replace("START", str(tmp_path / "start.sh")).split()
    at = words.index("--") if "--" in words else len(words)

    printed = out(capsys, *words[:at], "--json", *words[at:])

    jsonschema.Draft7Validator(schema(name)).validate(printed)


def test_every_schema_but_those_of_starts_is_tried_here() -> None:
    """A dry run starts vLLM: its own tests hold it to the schema."""
    assert set(names()) - {"dry-run"} == {name for name, _ in OUTPUTS}


def test_an_output_that_lacks_a_field_is_refused() -> None:
    """The check of the others can fail."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema("error")).validate({"error": "No."})


def test_the_list_names_all_and_a_name_prints_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As text and as JSON."""
    cli.main(["schema"])
    listed = capsys.readouterr().out
    rows = out(capsys, "schema", "--json")

    assert [*names()] == [row["name"] for row in rows]
    assert [*names()] == [line.split()[0] for line in listed.splitlines()]
    assert schema("plan") == out(capsys, "schema", "plan")
    assert cli.BAD_INPUT == cli.main(["schema", "plam"])
    assert "Did you mean plan?" in capsys.readouterr().err
