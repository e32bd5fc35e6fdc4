"""The plan under another release, in a tab of its own."""

from __future__ import annotations

import pytest

import planner
from planner.app.widgets.explorer import Explorer
from planner.app.widgets.upgrade_section import UpgradeSection
from planner.engine.releases import MODELLED, NEWEST
from planner.planning.result import Plan


def plan_of(release: str) -> Plan:
    """Return a start on a small card."""
    return planner.plan(
        "Qwen/Qwen3-8B", gpu="RTX4090", vllm_version=release, max_model_len=8192
    )


@pytest.fixture
def section() -> UpgradeSection:
    """The tab, opened."""
    found = UpgradeSection()
    found.turn(True)
    return found


def test_an_older_plan_is_compared_with_the_newest_release() -> None:
    """Each rule that changed is on the page, with its release."""
    section = UpgradeSection()
    plan = plan_of("0.26.0")
    section.show(plan)
    assert section.view.value == ""

    section.turn(True)
    assert ("0.26.0", NEWEST) == (section.first.value, section.last.value)
    for release, cause in planner.upgrade(plan).causes:
        assert cause.rule is not None
        assert f">{release}<" in section.view.value


def test_a_plan_of_the_newest_release_comes_from_the_one_before(section) -> None:
    """Both can be chosen."""
    section.show(plan_of(NEWEST))
    assert (MODELLED[1], NEWEST) == (section.first.value, section.last.value)

    section.first.value = "0.19.1"
    assert f"vLLM 0.19.1 to {NEWEST}" in section.view.value
    section.last.value = "0.26.0"
    assert "vLLM 0.19.1 to 0.26.0" in section.view.value
    section.show(plan_of(NEWEST).changed(max_model_len=4096))
    assert "vLLM 0.19.1 to 0.26.0" in section.view.value


def test_it_follows_the_plan_only_while_it_is_open(section) -> None:
    """A closed tab plans nothing."""
    section.show(plan_of("0.26.0"))
    section.turn(False)
    before = section.view.value
    section.show(plan_of("0.28.0"))
    assert before == section.view.value

    section.turn(True)
    assert f"vLLM 0.28.0 to {NEWEST}" in section.view.value


def test_a_question_for_an_upgrade_opens_it_on_the_releases_asked() -> None:
    """From the release that runs to the one that is named."""
    page = Explorer()
    text = "What changes for Qwen3-8B on an L4 from vLLM 0.19.0 to 0.25.1?"
    page.pasted._given(text, True)
    page.pasted.wait(300)

    assert "upgrade" == page.results.tabs.chosen
    assert "vLLM 0.19.0 to 0.25.1" in page.results.upgrade.view.value
