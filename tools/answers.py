"""What vLLM's own code answered, recorded by release, beside what the planner answers.

`tests/data/README.md` says how a case was recorded and what it holds.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from math import isclose
from pathlib import Path
from typing import Any

import planner
from planner.engine.releases import number_of
from tools import configs

Case = dict[str, Any]

DATA = Path(__file__).parent.parent / "tests" / "data" / "answers"
RELEASES = tuple(
    sorted(
        (path.name.removesuffix(".jsonl.gz") for path in DATA.glob("*.jsonl.gz")),
        key=number_of,
        reverse=True,
    )
)
"""Those that are recorded, the newest first."""

BEFORE_LOADING = "weights before loading"
"""The difference in a case that holds the bytes before kernels repack them."""

_WEIGHTS_TOLERANCE = 1 / 1000
_WORDS = 40
"""Characters of a refusal that are compared."""
_RESOLVED = (
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
    "block_size",
    "dtype",
)


@cache
def cases(release: str = RELEASES[0]) -> tuple[Case, ...]:
    """Return what was recorded of a release."""
    text = gzip.decompress((DATA / f"{release}.jsonl.gz").read_bytes()).decode()
    return tuple(map(json.loads, text.splitlines()))


def answer(case: Case, kv_bytes: int | None = None) -> dict[str, Any]:
    """Plan a case, with a fixed KV cache where the case has one."""
    arguments: dict[str, Any] = dict(case["engine_args"])
    if kv_bytes is not None:
        arguments["kv_cache_memory_bytes"] = kv_bytes
    return planner.plan(
        configs.folder(case["model"]),
        gpu=case["gpu"],
        vllm_version=case["vllm_version"],
        entrypoint=case["entrypoint"],
        **arguments,
    ).to_dict()


def differences(case: Case) -> list[str]:
    """Return the figures that are not vLLM's.

    Weights may differ by 0.1 %; everything else is equal.
    """
    expect = case["expect"]
    if "refused" in expect:
        return _refusal(answer(case), expect["refused"])
    wrong = []
    # One recording had less than nothing left, which no argument can say.
    plans = [plan for plan in expect["plans"] if plan["available_kv_bytes"] > 0]
    for number, recorded in enumerate(plans or [None]):
        got = answer(case, recorded and recorded["available_kv_bytes"])
        if number == 0:
            wrong += _resolved(got, expect) + _weights(got, expect)
            wrong += _groups(got, expect)
        if recorded:
            wrong += _capacity(got, recorded)
    return wrong


def is_final(rank: dict[str, Any], expect: dict[str, Any]) -> bool:
    """Whether a record says what vLLM holds, and not what it held before repacking."""
    is_quantised = expect["resolved"]["quantization"] is not None
    return not is_quantised or bool(rank.get("weights_after_load_bytes"))


def _refusal(got: dict[str, Any], words: str) -> list[str]:
    error = got["error"]
    is_refused = error and error["kind"] == "refused"
    return [] if is_refused and words[:_WORDS] in error["message"] else ["refusal"]


def _resolved(got: dict[str, Any], expect: dict[str, Any]) -> list[str]:
    theirs, mine = expect["resolved"], got["resolved"] or {}
    return [
        name
        for name in _RESOLVED
        if theirs.get(name) is not None and mine.get(name) != theirs[name]
    ]


def _weights(got: dict[str, Any], expect: dict[str, Any]) -> list[str]:
    mine = {rank["pp_rank"]: rank["weights_bytes"] for rank in got["ranks"]}
    return [
        f"weights of stage {rank['pp_rank']}"
        if is_final(rank, expect)
        else BEFORE_LOADING
        for rank in expect["ranks"]
        if not rank.get("tp_rank")
        and not any(
            abs(mine.get(rank["pp_rank"], 0) - recorded)
            <= recorded * _WEIGHTS_TOLERANCE
            for recorded in _recorded_weights(rank)
        )
    ]


def _recorded_weights(rank: dict[str, Any]) -> list[int]:
    """Bytes before and, where recorded, after kernels repacked quantised layers."""
    both = (rank["weights_bytes"], rank.get("weights_after_load_bytes"))
    return [recorded for recorded in both if recorded]


def _groups(got: dict[str, Any], expect: dict[str, Any]) -> list[str]:
    def key(group: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(
            group[k] for k in ("kind", "num_layers", "block_size", "page_size_bytes")
        )

    mine, theirs = map(key, got["kv_groups"]), map(key, expect["kv_groups"])
    return [] if sorted(mine) == sorted(theirs) else ["kv_groups"]


def _capacity(got: dict[str, Any], recorded: dict[str, Any]) -> list[str]:
    if recorded.get("error"):
        return ["should not fit"] if got["fits"] else []
    same = (
        got["num_gpu_blocks"] == recorded["num_blocks"]
        and got["kv_cache_size_tokens"] == recorded["kv_cache_tokens"]
        and isclose(got["max_concurrency"], recorded["max_concurrency"], rel_tol=1e-6)
    )
    return [] if same else ["capacity"]
