"""Conditions that a script's own text decides."""

from __future__ import annotations

from planner.reading.passage import Passage
from planner.reading.scripts.conditions import holds
from planner.reading.scripts.shell import commands_of
from tests.rows import each_row

ROWS: dict[str, bool | None] = {
    '[ -n "$X" ]': False,
    '[ -z "$X" ]': True,
    '[[ "a" == a* ]]': True,
    '[ "$1" != "a" ]': True,
    "test $# -gt 0": False,
    "[ 10 -ge 9 ]": True,
    '[ ! -n "${X:-}" ]': True,
    "[[ -n ${X:-} ]]": False,
    'is_on "${X:-false}"': False,
    "[ -f file ]": None,
    "command -v nvidia-smi": None,
    '[ "$(uname)" = Linux ]': None,
    "true": True,
}


@each_row("text", ROWS)
def test_a_condition_holds_by_what_the_text_sets(text: str) -> None:
    """A variable that nothing sets is empty; what a program says is not told."""
    (command,) = commands_of(Passage.whole(text))

    assert holds(command.words) is ROWS[text]
