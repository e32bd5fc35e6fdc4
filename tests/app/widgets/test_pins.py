"""The plan under another release, in the Compare tab."""

from __future__ import annotations

import planner
from planner.app.widgets.pins import UpgradeFold
from planner.engine.releases import MODELLED, NEWEST
from planner.planning.result import Plan


def plan_of(release: str) -> Plan:
    """Return a start on a small card."""
    return planner.plan(
        "Qwen/Qwen3-8B", gpu="RTX4090", vllm_version=release, max_model_len=8192
    )


def test_an_older_plan_is_compared_with_the_newest_release() -> None:
    """Each rule that changed is on the page, with its release."""
    fold = UpgradeFold()
    plan = plan_of("0.26.0")
    fold.show(plan)
    assert fold.view.value == ""

    fold.toggle.value = True
    assert NEWEST == fold.release.value
    for release, cause in planner.upgrade(plan).causes:
        assert cause.rule is not None
        assert f">{release}<" in fold.view.value


def test_a_plan_of_the_newest_release_is_compared_with_the_one_before() -> None:
    """Its own release is not offered; another can be chosen."""
    fold = UpgradeFold()
    fold.toggle.value = True
    fold.show(plan_of(NEWEST))
    assert MODELLED[1] == fold.release.value
    assert NEWEST not in fold.release.options
    assert f"vLLM {NEWEST} to {MODELLED[1]}" in fold.view.value

    fold.release.value = "0.19.1"
    assert f"vLLM {NEWEST} to 0.19.1" in fold.view.value


def test_it_follows_the_plan_only_while_it_is_open() -> None:
    """A closed fold plans nothing."""
    fold = UpgradeFold()
    fold.toggle.value = True
    fold.show(plan_of("0.26.0"))
    fold.toggle.value = False
    before = fold.view.value
    fold.show(plan_of("0.28.0"))
    assert before == fold.view.value

    fold.toggle.value = True
    assert f"vLLM 0.28.0 to {NEWEST}" in fold.view.value
