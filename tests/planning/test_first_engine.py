"""What older releases still did with their first engine."""

from typing import Any

import pytest

from planner.engine.gpu import GPU
from planner.engine.releases import Release
from planner.engine.settings import EngineSettings
from planner.errors import UnknownArchitecture
from planner.planning.first_engine import check_engine
from tests.configs import BERT, LLAMA_8B, architecture, gpu
from tests.hybrids import QWEN3_NEXT

T4 = gpu(compute_capability=(7, 5), device_name="Tesla T4")
L4 = gpu(compute_capability=(8, 9), device_name="NVIDIA L4")
B200 = gpu(compute_capability=(10, 0), device_name="NVIDIA B200")


@pytest.mark.parametrize(
    ("config", "device", "settings", "last", "first"),
    [
        (LLAMA_8B, T4, {}, (0, 10, 1), (0, 10, 2)),
        (QWEN3_NEXT, gpu(), {}, (0, 10, 1), (0, 10, 2)),
        (BERT, gpu(), {}, (0, 10, 0), (0, 10, 1)),
        (LLAMA_8B, L4, {"kv_cache_dtype": "fp8"}, (0, 10, 2), (0, 11, 0)),
        (LLAMA_8B, B200, {"kv_cache_dtype": "fp8"}, (0, 9, 2), (0, 10, 0)),
    ],
)
def test_the_second_engine_learned_one_thing_after_another(
    config: dict[str, Any],
    device: GPU,
    settings: dict[str, Any],
    last: tuple[int, int, int],
    first: tuple[int, int, int],
) -> None:
    """Until then the first engine served it, of which nothing is known here."""
    asked, model = EngineSettings(**settings), architecture(config)
    with pytest.raises(UnknownArchitecture, match=r"first engine \(V0\)"):
        check_engine(asked, model, device, Release(last))
    check_engine(asked, model, device, Release(first))


def test_what_hopper_did_from_the_start() -> None:
    """FP8 by FlashAttention 3, and everything ordinary."""
    model, oldest = architecture(LLAMA_8B), Release((0, 9, 2))
    check_engine(EngineSettings(), model, L4, oldest)
    check_engine(EngineSettings(kv_cache_dtype="fp8"), model, gpu(), oldest)
