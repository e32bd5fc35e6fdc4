"""The simulation of a KV cache does what vLLM's own scheduler did, block by block.

`tests/data/scheduler_steps.json` was recorded with `tools/record_scheduler.py`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planner.learn.kv_simulation import Simulation
from planner.learn.kv_tables import Arrival, GroupKind, GroupRule, Phase

RECORD = json.loads(
    (Path(__file__).parents[1] / "data" / "scheduler_steps.json").read_text("utf-8")
)
CASES = RECORD["cases"]
KINDS = {"full": GroupKind.FULL, "window": GroupKind.WINDOW, "chunk": GroupKind.CHUNK}


def _rule(group: dict[str, Any]) -> GroupRule:
    return GroupRule(
        block_size=group["block_size"],
        kind=KINDS.get(group["kind"], GroupKind.STATE),
        kept_tokens=group.get("kept", 0),
        is_reused=group.get("reused", False),
        has_checkpoints=group.get("saved", False),
    )


def _simulation(case: dict[str, Any], tokens_per_step: int = 1) -> Simulation:
    return Simulation(
        [
            Arrival(
                name=one["name"],
                step=-(-(one["step"] - 1) // tokens_per_step) + 1,
                prompt_tokens=one["prompt"],
                answer_tokens=one["answer"],
                shared_tokens=one["shared"],
            )
            for one in case["requests"]
        ],
        rules=[_rule(one) for one in case["groups"]],
        num_blocks=case["blocks"],
        tokens_per_step=tokens_per_step,
        max_num_seqs=case["seqs"],
        max_num_batched_tokens=case["batched"],
        enable_prefix_caching=case["caching"],
    )


def _held(simulation: Simulation) -> list[Any]:
    """Return the running requests with blocks, the finished ones, the free blocks."""
    held = {
        one.name: [
            one.computed,
            one.preemptions,
            [
                [block.index if block else 0 for block in table.blocks[one.name]]
                for table in simulation.tables
            ],
        ]
        for one in simulation.requests
        if one.phase is Phase.RUNNING
    }
    finished = [one.name for one in simulation.requests if one.phase is Phase.FINISHED]
    return [held, finished, [block.index for block in simulation.pool.free]]


def _recorded(case: dict[str, Any]) -> Iterator[list[Any]]:
    """Return the steps in full: 0 stands for what is as in the step before."""
    before: list[Any] = [{}, [], []]
    for held, finished, free in case["steps"]:
        now = {
            name: [*one[:2], one[2] or before[0][name][2]] for name, one in held.items()
        }
        before = [now, finished, before[2] if free == 0 else free]
        yield before


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_each_step_has_the_blocks_that_vllm_has(case: dict[str, Any]) -> None:
    """Tokens computed, preemptions, the table of each group, the order of free ones."""
    simulation = _simulation(case)
    for number, expected in enumerate(_recorded(case), 1):
        simulation.step()
        assert expected == _held(simulation), f"step {number}"


def test_the_recorded_cases_hold_all_that_the_picture_shows() -> None:
    """Groups of each kind, preempted requests, shared blocks, and windows that move."""
    seen: Counter[str] = Counter()
    for case in CASES:
        steps = list(_recorded(case))
        seen.update({group["kind"] for group in case["groups"]})
        seen[f"{len(case['groups'])} groups"] += 1
        for held, _finished, _free in steps:
            tables = [one[2] for one in held.values()]
            used = Counter(b for table in tables for row in table for b in row if b)
            seen["shared"] += any(count > 1 for count in used.values())
            seen["gap"] += any(0 in row for table in tables for row in table)
            seen["preempted"] += any(one[1] for one in held.values())

    assert {"full", "window", "chunk", "state"} <= set(seen)
    assert {"1 groups", "2 groups", "3 groups"} <= set(seen)
    assert all(seen[what] > 100 for what in ("shared", "gap", "preempted"))


@pytest.mark.parametrize("case", CASES[::3], ids=range(0, len(CASES), 3))
def test_steps_in_which_no_block_changes_are_taken_at_once(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes to the same as one after the other."""
    at_once = _simulation(case, 9).steps()
    monkeypatch.setattr(Simulation, "_rest", lambda *_: 0)

    assert _simulation(case, 9).steps() == at_once
