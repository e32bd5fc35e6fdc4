"""What another release does to a start: every difference has a rule, and adds up."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.engine.releases import MODELLED, Release, between, number_of
from planner.engine.releases.watched import watched
from planner.errors import PlannerError
from planner.planning.inputs import Inputs
from planner.planning.planning import plan_as
from planner.solve.upgrading import Upgrade, upgrade
from planner.solve.upgrading.steps import figures_of
from planner.units import GIB, MIB
from tools.changes import changes

QWEN = Inputs(
    model="Qwen/Qwen3-8B",
    gpu="RTX4090",
    vllm_version="0.26.0",
    engine_args={"max_model_len": 8192},
)
MODELS = (
    "Qwen/Qwen3-8B",
    "google/gemma-3-27b-it",
    "openai/gpt-oss-20b",
    "deepseek-ai/DeepSeek-V2-Lite",
    "Qwen/Qwen2.5-VL-7B-Instruct",
    "Qwen/Qwen3-30B-A3B-FP8",
)


@pytest.fixture(scope="module")
def found() -> Upgrade:
    """Return Qwen3-8B on a card of 24 GB, from 0.26.0 to 0.33.0."""
    return upgrade(QWEN, to="0.33.0")


def test_the_second_runner_charges_its_graphs_from_0_29(found: Upgrade) -> None:
    """Everything that the graphs take is taken from the KV cache."""
    [(release, cause)] = [
        (release, cause)
        for release, cause in found.causes
        if "CUDA graphs" in cause.changes
    ]
    assert "0.29.0" == release
    assert cause.rule is not None
    assert ("0.29.0", False) == (cause.rule.release, cause.rule.is_over)
    assert "runner estimates the size of its CUDA graphs" in cause.rule.what
    assert "profile_cudagraph_memory" in cause.rule.source
    assert cause.changes["KV cache"] == -cause.changes["CUDA graphs"]


def test_a_rule_that_ended_says_so(found: Upgrade) -> None:
    """0.33.0 calls cuBLAS before it measures: its 8.125 MiB are no longer charged."""
    last = [cause for release, cause in found.causes if release == "0.33.0"][-1]
    assert last.rule is not None
    assert last.rule.is_over
    assert {"persistent buffers": -int(8.125 * MIB), "KV cache": int(8.125 * MIB)} == {
        name: value
        for name, value in last.changes.items()
        if name[0] != name[0].lower() or name == "persistent buffers"
    }


def test_ways_back_are_the_release_s_own_switches(found: Upgrade) -> None:
    """Without the estimate of the graphs, their 1.2 GiB are not charged."""
    way = found.ways[0]
    assert ("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "0", True) == (
        way.setting,
        way.value,
        way.is_env,
    )
    graphs = next(one for one in found.changes if one.name == "CUDA graphs")
    assert graphs.after == way.change_bytes


def test_a_changed_default_has_its_argument_as_way_back() -> None:
    """gpu_memory_utilization was 0.9 before 0.20."""
    found = upgrade(QWEN.changed(vllm_version="0.19.0"), to="0.20.0")
    settings_ = [one for _release, cause in found.causes for one in cause.settings]
    assert [("gpu_memory_utilization", 0.9, 0.92)] == [
        (one.name, one.before, one.after) for one in settings_
    ]


@settings(max_examples=25, deadline=None)
@given(
    model=st.sampled_from(MODELS),
    gpu=st.sampled_from(("L4", "RTX4090", "A100-80GB", "H100", "B200")),
    ends=st.lists(st.sampled_from(MODELLED[:-8]), min_size=2, max_size=2, unique=True),
)
def test_what_the_rules_change_adds_up(model: str, gpu: str, ends: list[str]) -> None:
    """The sum over all causes is the difference of the two plans, line by line."""
    first, last = ends
    inputs = Inputs(
        model=model, gpu=gpu, vllm_version=first, engine_args={"max_model_len": 4096}
    )
    try:
        inputs.plan()
    except PlannerError:
        return
    found = upgrade(inputs, to=last)
    if found.after is None:
        return
    for one in found.changes:
        by_rule = sum(cause.changes.get(one.name, 0) for _, cause in found.causes)
        assert one.change == by_rule, one.name


def test_a_plan_without_the_new_rules_is_the_old_plan() -> None:
    """0.33.0 with each change since 0.26.0 ignored plans what 0.26.0 plans."""
    asked = watched((0, 33, 0), (0, 26, 0))
    plan_as(QWEN, asked)
    later = frozenset(
        one for one in asked.seen if not one.holds_in((0, 26, 0)) or one.until
    )
    ignored = plan_as(QWEN, watched((0, 33, 0), (0, 26, 0), later))
    assert figures_of(QWEN.plan()) == figures_of(ignored)


def test_a_watched_release_plans_as_the_release_itself() -> None:
    """Watching changes no figure."""
    for version in ("0.19.1", "0.25.1", "0.33.0"):
        number = number_of(version)
        seen = plan_as(QWEN, watched(number, number))
        assert plan_as(QWEN, Release(number)).to_dict() == seen.to_dict()


def test_what_a_plan_asks_for_is_in_the_list_of_changes() -> None:
    """So a rule is named by the same sentence in `upgrade` and in the docs."""
    listed = {change for _module, change in changes()}
    for model in MODELS:
        release = watched((0, 33, 0), (0, 33, 0))
        inputs = Inputs(model=model, gpu="H100", engine_args={"max_model_len": 4096})
        plan_as(inputs, release)
        of_data = {one for one in release.seen - listed if "json" in one.source}
        assert set() == release.seen - listed - of_data


def test_releases_between() -> None:
    """Both ends, in the direction of the upgrade."""
    assert ["0.26.0", "0.27.0", "0.27.1", "0.28.0"] == between("0.26.0", "0.28.0")
    assert ["0.28.0", "0.27.1", "0.27.0", "0.26.0"] == between("0.28.0", "0.26.0")
    assert ["0.33.0"] == between("0.33.0", "0.33.0")


def test_back_is_the_opposite(found: Upgrade) -> None:
    """A downgrade has the same changes with the other sign."""
    back = upgrade(QWEN.changed(vllm_version="0.33.0"), to="0.26.0")
    forth = {one.name: one.change for one in found.changes}
    assert {one.name: -one.change for one in back.changes} == forth


def test_a_release_that_cannot_be_planned_is_named() -> None:
    """An argument of 0.21 cannot be given to 0.20."""
    inputs = QWEN.changed(vllm_version="0.33.0", enable_flashinfer_autotune=True)
    found = upgrade(inputs, to="0.10.2")
    last = found.steps[-1]
    assert last.plan is None
    assert "enable_flashinfer_autotune" in last.error
    assert "cannot be planned" in str(found)


def test_what_is_no_plan_is_refused() -> None:
    """A model's name alone has no release to start from."""
    with pytest.raises(PlannerError, match="takes a plan or inputs, not str"):
        upgrade("Qwen/Qwen3-8B")  # type: ignore[arg-type]


def test_a_release_may_be_a_number() -> None:
    """As `plan` takes it: 0.33 is 0.33.0."""
    found = upgrade(QWEN, to=0.33)  # type: ignore[arg-type]
    assert "0.33" == found.steps[-1].release
    assert "0.33" in str(found)


def test_it_shows_itself(found: Upgrade) -> None:
    """Text, HTML and plain values hold each release and each source."""
    text, bundle = str(found), found._repr_mimebundle_()
    assert "KV cache 6.12 GiB to 4.99 GiB (-1.14 GiB, -19 %)" in text
    for release in ("0.27.0", "0.29.0", "0.33.0"):
        assert f"\n{release}: " in text
        assert f">{release}<" in bundle["text/html"]
    plain = json.loads(json.dumps(found.to_dict()))
    assert ["0.26.0", "0.33.0"] == [plain["from"], plain["to"]]
    assert len(between("0.26.0", "0.33.0")) == len(plain["steps"])


def test_the_figure_has_a_point_per_release(found: Upgrade) -> None:
    """KV cache in GiB over releases, with the estimate's range."""
    band, line = found.figure().data
    assert [step.release for step in found.steps] == list(line.x)
    rank = found.before.limiting_rank
    assert rank is not None
    assert line.y[0] == pytest.approx(rank.available_kv_cache_bytes / GIB, abs=0.001)
    assert 2 * len(line.x) == len(band.x)


def test_public() -> None:
    """It is a name of the package."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="L4", vllm_version="0.31.0")
    assert isinstance(planner.upgrade(plan, to="0.33.0"), planner.Upgrade)
