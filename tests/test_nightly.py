"""What runs at night: parts that are there, rows that stay, mutants that change."""

from __future__ import annotations

import ast

from tests.conftest import ROOT
from tools import mutants, nightly
from tools.page_table import with_rows
from tools.targets import targets

RULES = ROOT / "planner" / "memory" / "checkpoint.py"


def test_every_part_runs_what_is_there() -> None:
    """Targets of the Makefile, and tools; each has its row from the beginning."""
    commands = [part.command for part in nightly.PARTS]
    tools = [word for words in commands for word in words if word.startswith("tools/")]
    made = {words[1] for words in commands if words[0] == "make"}
    page = nightly.PAGE.read_text(encoding="utf-8")

    assert made <= set(targets())
    assert all((ROOT / tool).is_file() for tool in tools)
    assert all(f"| {part.name} | {part.looks_for} |" in page for part in nightly.PARTS)


def test_a_row_takes_the_place_of_its_own_and_no_other() -> None:
    """What was not run keeps what is known of it."""
    page = "a\n<!-- t: begin -->\n| k | v |\n| --- | --- |\n| x | 1 |\n| y | 2 |\n"
    page += "<!-- t: end -->\nb\n"

    written = with_rows(page, "t", [("y", "3"), ("z", "4")], ("z", "y", "x"))

    assert "| z | 4 |\n| y | 3 |\n| x | 1 |\n<!-- t: end -->\nb\n" in written
    assert page == with_rows(written, "t", [("y", "2")], ("x", "y"))


def test_every_mutant_is_another_program() -> None:
    """Each parses, and differs from what it was made of."""
    source = RULES.read_bytes()
    before = ast.dump(ast.parse(source))
    found = list(mutants.mutants(RULES))

    assert len(found) > 20
    assert not [
        one for one in found if ast.dump(ast.parse(one.written(source))) == before
    ]


def test_a_seed_chooses_the_same_mutants() -> None:
    """So that a figure can be repeated."""
    assert mutants.chosen(1, 5) == mutants.chosen(1, 5) != mutants.chosen(2, 5)
