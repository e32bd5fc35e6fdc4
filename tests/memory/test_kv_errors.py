"""vLLM's words when the KV cache is too small."""

import pytest

from planner.engine.releases import Release
from planner.memory.kv_cache import capacity
from planner.units import GIB


@pytest.mark.parametrize(
    ("release", "start", "end"),
    [
        ((0, 12, 0), "models's max seq len (9), (1.50 GiB", "the engine."),
        ((0, 13, 0), "models's max seq len (9), (1.50 GiB", "for more details."),
        ((0, 14, 0), "models's max seq len (9), (1.5 GiB", "for more details."),
        ((0, 22, 0), "model's max seq len (9), (1.5 GiB", "for more details."),
    ],
)
def test_the_refusal_of_a_request_is_worded_as_in_its_release(
    release: tuple[int, int, int], start: str, end: str
) -> None:
    """The apostrophe, the digits and the pointer to the guide came one by one."""
    error = capacity.too_long(
        GIB * 3 // 2, GIB, max_model_len=9, longest=0, release=Release(release)
    )
    assert error.message.startswith(f"To serve at least one request with the {start}")
    assert error.message.endswith(end)
    gap = "  " if release < (0, 14) else " "
    assert f"GiB).{gap}Try increasing" in error.message
    assert ("CPU backend" in error.message) is (release >= (0, 22))


def test_the_refusal_of_an_empty_cache_is_worded_as_in_its_release() -> None:
    """Nothing is left."""
    older, old, new = (
        capacity.no_memory(Release(number)).message
        for number in ((0, 12, 0), (0, 21, 0), (0, 22, 0))
    )
    assert older.endswith("when initializing the engine.")
    assert old.endswith(
        "the engine. See https://docs.vllm.ai/en/latest/configuration/"
        "conserving_memory/ for more details."
    )
    assert "despite its name). See" in new
