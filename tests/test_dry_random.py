"""Random starts beside their plans (`tools/dry_random.py`)."""

from __future__ import annotations

from typing import Any

import planner
from tools import dry_random

SMALL = "Qwen/Qwen3-0.6B"
ARGS = {"max_model_len": 4096, "enforce_eager": True}


def row(**changes: Any) -> dict[str, Any]:
    """Return the row of a start that measured what is planned, but for changes."""
    rank = planner.plan(SMALL, gpu="L4", **ARGS).ranks[0]
    measured = {
        "weights": rank.allocated_weights_bytes,
        "peak": rank.line("peak activation").size_bytes,
    }
    return {"model": SMALL, "gpu": "L4", "args": ARGS, **measured, **changes}


def test_a_seed_draws_the_same_starts() -> None:
    """They fit, and no recorded row has their model."""
    drawn = list(dry_random.starts(3, 4))
    assert drawn == list(dry_random.starts(3, 4))
    assert 4 == len({case["model"] for case in drawn})
    recorded = {row["model"] for row in dry_random.rows(dry_random.OUT / NEWEST)}
    assert not recorded & {case["model"] for case in drawn}
    for case in drawn:
        assert planner.plan(case["model"], gpu=case["gpu"], **case["args"]).fits
        assert case["model"] in dry_random.command_of(case)


NEWEST = "vllm-0.33.0.jsonl"


def test_a_start_is_right_within_its_limits() -> None:
    """Weights within 32 MiB, the peak within 0.02 GiB or 2 %."""
    exact = row()
    assert "" == dry_random.verdict(exact)
    near = {
        "weights": exact["weights"] + (32 << 20),
        "peak": exact["peak"] + (20 << 20),
    }
    assert "" == dry_random.verdict(row(**near))


def test_what_is_wrong_is_said() -> None:
    """Weights, peaks and verdicts; a lower bound of a peak says nothing."""
    exact = row()
    heavier = row(weights=exact["weights"] + (40 << 20), peak=exact["peak"] * 2)
    assert dry_random.verdict(heavier).startswith("weights -0.039 GiB, peak -")
    bound = row(peak=exact["peak"] // 2, notes=["The peak is a lower bound."])
    assert "" == dry_random.verdict(bound)
    assert "it would not" in dry_random.verdict(row(refused="it would not"))


def test_the_share_leaves_out_starts_without_an_answer() -> None:
    """Such as those that were ended."""
    found = [row(), row(peak=1), row(refused=dry_random.NO_FIGURE)]
    *wrong, last = dry_random.scored(found)
    assert 1 == len(wrong)
    assert "1 of 2 right = 50.0 %" == last
