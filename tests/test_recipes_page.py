"""docs/recipes.md says what the planner says of the commands of vLLM's recipes."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from planner.planning.result import Outcome
from planner.units import GIB
from tests.conftest import ROOT
from tools import recipes_page

CASES = ROOT.parent / "shared/recipes/recipes.jsonl"
PAGE = ROOT / "docs/recipes.md"
TABLE = ROOT / "docs/recipes/vram.csv"

pytestmark = pytest.mark.skipif(
    not CASES.exists(), reason="the recorded commands are not beside the checkout"
)


@pytest.fixture(scope="module")
def answers() -> list[recipes_page.Answer]:
    """Read and plan every command, offline."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        lines = CASES.read_text(encoding="utf-8").splitlines()
        return [recipes_page.answer(json.loads(line)) for line in lines]


def test_every_command_is_read_whole(answers) -> None:
    """Its model, and every flag and variable of it."""
    assert [] == [one.case["id"] for one in answers if not one.is_read]


def test_every_command_of_a_known_model_is_planned(answers) -> None:
    """None is an error."""
    assert [] == [one.refusal for one in answers if one.refusal]


def test_a_verified_command_starts_or_the_page_says_why_not(answers) -> None:
    """With vLLM's own words."""
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    verified = [one for one in answers if one.is_verified and one.plan is not None]
    others = [one for one in verified if not recipes_page.is_good(one)]

    assert len(verified) > 3 * len(others)
    for one in others:
        assert one.plan.outcome in (Outcome.REFUSED, Outcome.DOES_NOT_FIT)
        hardware = f"{one.plan.gpus_total} x {one.case['gpu']}"
        assert re.search(rf"\*\*{one.case['model']}\*\* on [^:]*{hardware}", page)


def test_the_page_is_what_the_tool_writes(answers) -> None:
    """`python -m tools.recipes_page CASES.jsonl > docs/recipes.md`."""
    assert recipes_page.page(answers) == PAGE.read_text(encoding="utf-8")
    assert re.search(r"Of \d+ commands, \d+ are read whole", recipes_page.page(answers))


def test_the_table_is_what_the_tool_writes(answers) -> None:
    """What each command needs, and what the recipes' rule states."""
    assert recipes_page.table(answers) == TABLE.read_text(encoding="utf-8")


def test_on_what_a_command_needs_it_starts_and_not_on_less(answers) -> None:
    """The same command, planned on GPUs that have that much together."""
    small = [one for one in recipes_page.needs(answers) if one.gpus == 1]
    for one in small[::12]:
        per_gpu = one.needed * GIB / one.gpus
        gpu = one.plan.gpu
        for share, starts in ((1.01, True), (0.95, False)):
            given = replace(gpu, total_memory_bytes=int(per_gpu * share))
            plan = one.plan.changed(gpu=given)
            assert starts == (plan.outcome in recipes_page.GOOD), one
