"""The table of engine arguments agrees with vLLM's own parser, and with itself."""

import json

import pytest

from planner.app.widgets.arguments import SECRET, groups
from planner.engine.arguments import (
    ARGUMENTS,
    PLANNER_ONLY,
    Feature,
    Group,
    Kind,
    Memory,
    featured,
)
from tests.rows import each_row
from tools.argument_table import PARSER, TABLE, new, parsed, placed, written

RECORDED = {
    flag["dest"]: flag
    for flag in json.loads(PARSER.read_text(encoding="utf-8"))["flags"]
}
ROWS = json.loads(TABLE.read_text(encoding="utf-8"))
OF_VLLM = [
    name
    for name, argument in ARGUMENTS.items()
    if name not in PLANNER_ONLY and not argument.gone
]


@each_row("name", OF_VLLM)
def test_kind_choices_and_default_are_the_parser_s(name) -> None:
    """As recorded from the newest release."""
    known = {key: ROWS[name].get(key) for key in ("kind", "choices", "default")}
    said = parsed(name, RECORDED.get(name, {}))

    assert {key: value for key, value in known.items() if value is not None} == said


def test_the_table_is_written_as_the_tool_writes_it() -> None:
    """So that a new release changes only what is new."""
    assert TABLE.read_text(encoding="utf-8") == written(ROWS)


def test_a_new_argument_is_unknown_until_somebody_reads_it() -> None:
    """In the group of vLLM's configuration class."""
    assert str(Group.KERNELS) == new("Mamba")["group"]
    assert str(Group.OTHER) == new("Frontend")["group"]
    assert str(Memory.UNKNOWN) == new("Cache")["memory"]


def test_a_new_argument_stands_beside_its_like() -> None:
    """After the one that vLLM lists before it, or at the end of its group."""
    model, cache = {"group": "Model"}, {"group": "Cache"}
    rows = {"model": model, "seed": model, "block_size": cache}
    order = ["model", "sleep", "block_size", "seed"]
    assert ["model", "sleep", "seed", "block_size"] == [
        *placed(rows, "sleep", model, order)
    ]
    assert ["model", "seed", "other", "block_size"] == [
        *placed(rows, "other", model, order)
    ]
    assert ["model", "seed", "block_size", "last"] == [
        *placed(rows, "last", {"group": "Other"}, order)
    ]


@pytest.mark.parametrize("feature", Feature)
def test_what_a_group_of_the_page_shows_has_a_name_in_plain_words(feature) -> None:
    """Short enough to stand beside its control, and no other argument's."""
    labels = [ARGUMENTS[name].label for name in featured(feature)]

    assert all(1 < len(label) <= 25 for label in labels)
    assert len({*labels}) == len(labels)


def test_every_group_has_a_field_for_each_argument() -> None:
    """No argument is lost between the table and the page."""
    made = groups(frozenset())
    shown = {field.name: group for group, fields in made.items() for field in fields}

    assert set(shown) == {*OF_VLLM, *PLANNER_ONLY} - set(SECRET)
    assert all(ARGUMENTS[name].group is group for name, group in shown.items())


@each_row("argument", ARGUMENTS.values(), ids=lambda one: one.name)
def test_an_entry_agrees_with_itself(argument) -> None:
    """What is planned and offered is among the choices; no text has bounds."""
    assert argument.text.endswith(".")
    assert set(argument.planned) <= set(argument.choices)
    assert (argument.kind is Kind.CHOICE) <= bool(argument.choices)
    may_be_off = argument.memory in (Memory.UNKNOWN, Memory.BOUNDED)
    assert not argument.off or may_be_off
    assert bool(argument.uncounted) == (argument.memory is Memory.UNKNOWN)
    assert bool(argument.bound) == (argument.memory is Memory.BOUNDED)
    assert set(argument.keys_gone) <= set(argument.keys)
    assert not argument.uncounted.endswith(".")
    has_bounds = argument.least is not None or argument.most is not None
    assert not has_bounds or not (argument.is_text or argument.is_list)
