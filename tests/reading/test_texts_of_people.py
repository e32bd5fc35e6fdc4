"""Texts as people have them, each a file of tests/data/texts: read, plan, give back.

The tables beside the files say what a reader of the text would say of it.
"""

from __future__ import annotations

import json
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest

import planner

FOLDER = Path(__file__).parents[1] / "data/texts"
ROWS: dict[str, dict[str, Any]] = {
    name: row
    for table in sorted(FOLDER.glob("*.json"))
    if table.name in ("commands.json", "manifests.json")
    for name, row in json.loads(table.read_text(encoding="utf-8")).items()
}


LANGUAGES: dict[str, dict[str, Any]] = json.loads(
    (FOLDER / "languages.json").read_text(encoding="utf-8")
)
"""Scripts, notebooks, settings of frameworks."""
BY_HAND = ("openrlhf.sh", "skyrl.sh")
"""Whose length is a sum of two settings, or has none."""


def reading(name: str) -> planner.Reading:
    """Return what is read of a file."""
    return planner.read(FOLDER / name)


def inputs_of(read: planner.Reading) -> dict[str, Any]:
    """Return what must stay the same."""
    found = read.to_dict()
    return {name: found[name] for name in ("inputs", "kept", "unknown", "gpus")}


def test_there_are_texts_of_every_kind() -> None:
    """Thirty or more are commands, containers, code and the like."""
    kinds = {row["kind"] for row in ROWS.values()}

    assert {"command", "container", "Python code", "evaluation command"} <= kinds


@pytest.mark.parametrize("name", [*ROWS, *LANGUAGES])
def test_the_text_says_this(name: str) -> None:
    """What a person reads from it."""
    row, found = (ROWS | LANGUAGES)[name], reading(name).to_dict()
    inputs = found["inputs"]

    assert found["kind"] == row["kind"]
    assert inputs["model"] == row["model"]
    assert inputs["gpu"] == row.get("gpu")
    assert inputs["vllm_version"] == row.get("vllm_version")
    assert inputs["entrypoint"] == row.get("entrypoint", "serve")
    assert inputs["engine_args"] == row["engine_args"]
    assert inputs["env"] == row.get("env", {})
    assert found["kept"] == row.get("kept", {})
    assert found["gpus"] == row.get("gpus")
    assert found["unknown"] == row.get("unknown", [])
    for sentence in row.get("open", []):
        assert sentence in found["open"]


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_changed_length_is_all_that_changes_or_is_made_by_hand(name: str) -> None:
    """Never a text that says something else."""
    before = reading(name)
    expected = inputs_of(before)
    expected["inputs"]["engine_args"]["max_model_len"] = 12_345
    try:
        after = planner.read(before.text(max_model_len=12_345))
    except planner.PlannerError:
        assert name in BY_HAND
        return

    assert inputs_of(after) == expected


@pytest.mark.parametrize("name", ROWS)
def test_given_back_unchanged_it_is_the_same(name: str) -> None:
    """To the character."""
    assert reading(name).text() == (FOLDER / name).read_bytes().decode()


@pytest.mark.parametrize("name", ROWS)
def test_a_changed_argument_changes_only_its_own_place(name: str) -> None:
    """Read again, the text says the change and else what it said."""
    before = reading(name)
    text = before.text(gpu_memory_utilization=0.73)
    after = planner.read(text)
    expected = inputs_of(before)
    expected["inputs"]["engine_args"]["gpu_memory_utilization"] = 0.73

    assert inputs_of(after) == expected
    changes = [
        step
        for step in SequenceMatcher(
            None, before.given, text, autojunk=False
        ).get_opcodes()
        if step[0] != "equal"
    ]
    touched = max(end for *_, end in changes) - min(step[3] for step in changes)
    assert touched <= ROWS[name].get("touched", 80)


@pytest.mark.parametrize("name", ROWS)
def test_an_argument_is_taken_out_and_put_back(name: str) -> None:
    """Without it, and with it again, the rest stays."""
    before = reading(name)
    args = before.to_dict()["inputs"]["engine_args"]
    for argument in list(args)[:2]:
        without = planner.read(before.text(**{argument: None}))
        expected = inputs_of(before)
        del expected["inputs"]["engine_args"][argument]
        assert inputs_of(without) == expected

        again = planner.read(without.text(**{argument: args[argument]}))
        assert inputs_of(again) == inputs_of(before)


@pytest.mark.parametrize("name", ROWS)
def test_another_model_stands_in_the_models_place(name: str) -> None:
    """Where the text names one itself."""
    before = reading(name)
    after = planner.read(before.text(model="org/other-model"))
    expected = inputs_of(before)
    expected["inputs"]["model"] = "org/other-model"

    assert inputs_of(after) == expected
