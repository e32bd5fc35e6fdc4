"""Which release's rules apply."""

import pytest

import planner
from planner.engine.gpu import GPU
from planner.engine.layout import ParallelLayout
from planner.engine.releases import (
    MODELLED,
    NEWEST,
    NEWEST_RELEASE,
    OLDEST,
    Release,
    number_of,
    resolve_version,
)
from planner.engine.releases.change import Change
from planner.errors import PlannerError
from tests.configs import LLAMA_8B, architecture


def test_the_known_release_is_taken_as_it_is() -> None:
    """No remark."""
    assert (NEWEST_RELEASE, ()) == resolve_version(NEWEST)
    assert (Release((0, 33, 2)), ()) == resolve_version("0.33.2")
    assert Release((0, 18, 0)) == resolve_version("v0.18")[0]


def test_a_development_build_gets_the_rules_of_the_release_it_led_to() -> None:
    """0.23.0 was followed by 0.24.0: 0.23.1rc1.dev280 is a build between them."""
    release, notes = resolve_version("0.23.1rc1.dev280")
    assert release == Release((0, 24, 0))
    assert "development build towards 0.24.0" in notes[0]
    assert (Release((0, 22, 1)), ()) == resolve_version("0.22.1")


def test_a_newer_release_gets_the_newest_rules_and_a_remark() -> None:
    """An unknown newer release is planned, and the plan says how."""
    release, notes = resolve_version("0.40.1")
    assert NEWEST == release.version
    assert "0.40.1" in notes[0]


@pytest.mark.parametrize("asked", ["0.9", "0.6.3", "latest", "", "9" * 5000 + ".1"])
def test_other_releases_are_refused(asked: str) -> None:
    """Older engines had other rules; words are no releases."""
    with pytest.raises(PlannerError, match="vllm_version="):
        resolve_version(asked)


def test_the_list_of_releases_runs_from_the_newest_to_the_oldest() -> None:
    """Every one can be asked for by name."""
    numbers = [number_of(version) for version in MODELLED]
    assert numbers == sorted(numbers, reverse=True)
    assert (NEWEST, OLDEST) == (MODELLED[0], MODELLED[-1])
    assert all(resolve_version(v)[0].version == v for v in MODELLED)


def test_a_newer_patch_has_the_facts_of_the_older_one() -> None:
    """0.19.9 is no release of ours, but it comes after 0.19.1 and before 0.20.0."""
    release, _notes = resolve_version("0.19.9")
    assert release.has(Change(since=(0, 19, 1), until=(0, 20), what="A rule."))
    newer_patch = planner.plan(
        architecture(LLAMA_8B), GPU.named("H100"), vllm_version="0.19.9"
    )
    assert newer_patch.resolved is not None
    assert newer_patch.resolved.gpu_memory_utilization == 0.90


@pytest.mark.parametrize(
    ("number", "is_later"),
    [((0, 20, 0), False), ((0, 20, 1), True), ((0, 21, 0), True), ((1, 0, 0), True)],
)
def test_the_release_of_a_change_has_it_itself(
    number: tuple[int, int, int], is_later: bool
) -> None:
    """Since 0.20.1: 0.20.1 does it; until 0.20.1: 0.20.1 does it no more."""
    assert is_later is Release(number).has(Change(since=(0, 20, 1), what="New."))
    assert is_later is not Release(number).has(Change(until=(0, 20, 1), what="Old."))


def test_a_change_without_a_patch_starts_with_the_first_patch() -> None:
    """0.20 is 0.20.0, and a range leaves its end out."""
    change = Change(since=(0, 20), until=(0, 21), what="Only in 0.20.")
    assert [True, True, False] == [
        Release(number).has(change) for number in ((0, 20, 0), (0, 20, 2), (0, 21, 0))
    ]


def test_the_default_utilization_grew() -> None:
    """0.90 of 80 GiB is 72 GiB, 0.92 is 73.6 GiB."""
    device = GPU.named("H100", total_memory_bytes=80 << 30)
    older = planner.plan(architecture(LLAMA_8B), device, vllm_version="0.19.1")
    newer = planner.plan(architecture(LLAMA_8B), device, vllm_version="0.20.0")
    assert older.ranks[0].requested_memory_bytes == 72 << 30
    assert newer.ranks[0].requested_memory_bytes == -(-(80 << 30) * 92 // 100)


def test_ranks_follow_the_newest_rules_unless_told_otherwise() -> None:
    """A layout made by hand has no release of its own."""
    assert ParallelLayout().release is NEWEST_RELEASE
