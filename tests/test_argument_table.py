"""What the controls know of each argument agrees with vLLM's own parser."""

import json

import pytest

from planner.widgets.arguments import HINTS, group_of, groups, table
from tools.argument_table import PARSER, row

RECORDED = {
    flag["dest"]: flag
    for flag in json.loads(PARSER.read_text(encoding="utf-8"))["flags"]
}


@pytest.mark.parametrize("name", table())
def test_kind_choices_and_default_are_the_parser_s(name) -> None:
    """As recorded from the newest release; the group comes from its sources."""
    known = table()[name]

    assert row(known["group"], RECORDED.get(name, {})) == known


def test_every_group_has_a_heading_and_a_field() -> None:
    """No argument is lost between vLLM's groups and the page's."""
    made = groups(frozenset())
    shown = [field.name for fields in made.values() for field in fields]

    assert sorted([*shown, "hf_token"]) == sorted(table())
    assert all(
        group_of(field.name) == title
        for title, fields in made.items()
        for field in fields
    )


def test_hints_belong_to_arguments() -> None:
    """A misspelt name would show none."""
    assert set(HINTS) <= set(table())
