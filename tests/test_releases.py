"""Which release's rules apply."""

import pytest

from planner.errors import PlannerError
from planner.releases import NEWEST, resolve_version


def test_the_known_release_is_taken_as_it_is() -> None:
    """No remark."""
    assert (NEWEST, ()) == resolve_version(NEWEST)
    assert ("0.33.2", ()) == resolve_version("0.33.2")


def test_a_newer_release_gets_the_newest_rules_and_a_remark() -> None:
    """An unknown newer release is planned, and the plan says how."""
    version, notes = resolve_version("0.40.1")
    assert NEWEST == version
    assert "0.40.1" in notes[0]


@pytest.mark.parametrize("asked", ["0.19.0", "0.9", "latest", ""])
def test_other_releases_are_refused(asked: str) -> None:
    """Older rules differ; words are no releases."""
    with pytest.raises(PlannerError, match="vllm_version="):
        resolve_version(asked)
