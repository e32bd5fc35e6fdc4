"""What vLLM 0.33.0's own code answered, case by case (skipped without the cases)."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.errors import UnknownArchitecture

SHARED = Path(__file__).parents[2] / "shared"
CASES = SHARED / "oracle" / "vllm-0.33.0.jsonl.gz"

pytestmark = pytest.mark.skipif(
    not CASES.exists(), reason="the recorded answers of vLLM lie beside the checkout"
)

# The recorder knew no configuration class for MiMo at first and then took Qwen2's, as
# MiMo's own code does: sliding_window counts only with use_sliding_window.
RECORDED_WITH_ANOTHER_CLASS = ("XiaomiMiMo--MiMo-7B-Base", "SlidingWindowSpec")


@cache
def cases() -> list[dict[str, Any]]:
    """Read all cases."""
    with gzip.open(CASES, "rt") as lines:
        return [json.loads(line) for line in lines]


def answer(case: dict[str, Any], kv_bytes: int | None = None) -> dict[str, Any]:
    """Plan a case, with a fixed KV cache where the case has one."""
    fixed = {} if kv_bytes is None else {"kv_cache_memory_bytes": kv_bytes}
    return planner.plan(
        str(SHARED / "configs" / case["model"]),
        gpu=case["gpu"],
        vllm_version=case["vllm_version"],
        entrypoint=case["entrypoint"],
        **case["engine_args"],
        **fixed,
    ).to_dict()


def differences(case: dict[str, Any]) -> list[str]:
    """Figures that are not vLLM's; weights within 0.1 %, everything else exactly."""
    expect = case["expect"]
    if "refused" in expect:
        got = answer(case)["error"]
        ok = got and got["kind"] == "refused"
        return [] if ok and expect["refused"][:40] in got["message"] else ["refusal"]
    wrong = []
    # Nobody can ask for less than nothing, which one recording had left.
    plans = [p for p in expect["plans"] if p["available_kv_bytes"] > 0]
    for number, recorded in enumerate(plans or [None]):
        got = answer(case, recorded and recorded["available_kv_bytes"])
        if number == 0:
            wrong += _resolved(got, expect) + _weights(got, expect)
            wrong += _groups(got, expect)
        if recorded:
            wrong += _capacity(got, recorded)
    return wrong


def _resolved(got: dict[str, Any], expect: dict[str, Any]) -> list[str]:
    names = (
        "max_model_len",
        "max_num_batched_tokens",
        "max_num_seqs",
        "block_size",
        "dtype",
    )
    theirs, mine = expect["resolved"], got["resolved"]
    return [
        name
        for name in names
        if theirs.get(name) is not None and mine.get(name) != theirs[name]
    ]


def _weights(got: dict[str, Any], expect: dict[str, Any]) -> list[str]:
    ranks = [
        rank
        for rank in expect["ranks"]
        if not rank.get("tp_rank") and _is_final(rank, expect)
    ]
    mine = {rank["pp_rank"]: rank["weights_bytes"] for rank in got["ranks"]}
    return [
        f"weights of stage {rank['pp_rank']}"
        for rank in ranks
        if not any(
            abs(mine.get(rank["pp_rank"], 0) - recorded) <= recorded / 1000
            for recorded in _recorded_weights(rank)
        )
    ]


def _is_final(rank: dict[str, Any], expect: dict[str, Any]) -> bool:
    """Whether a record says what vLLM holds, and not what it held before repacking."""
    is_quantised = expect["resolved"]["quantization"] is not None
    return not is_quantised or bool(rank.get("weights_after_load_bytes"))


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
        and got["max_concurrency"] == pytest.approx(recorded["max_concurrency"])
    )
    return [] if same else ["capacity"]


def test_no_figure_is_wrong():
    """A case is answered as vLLM answered it, or not at all."""
    model, kind = RECORDED_WITH_ANOTHER_CLASS
    wrong = {}
    for case in cases():
        groups = case["expect"].get("kv_groups") or [{"kind": ""}]
        if case["model"] == model and groups[0]["kind"] == kind:
            continue
        try:
            differing = differences(case)
        except UnknownArchitecture:
            continue
        if differing:
            wrong[case["id"]] = differing
    assert {} == wrong


def test_every_text_model_with_full_attention_and_plain_weights_is_answered():
    """466 plans of decoders and 25 of encoders, less one that promotes windows."""
    unanswered = []
    for case in cases():
        expect = case["expect"]
        if "refused" in expect or case["engine_args"].get("quantization"):
            continue
        kinds = {group["kind"] for group in expect["kv_groups"]}
        is_plain = (
            kinds <= {"FullAttentionSpec"} and not expect["resolved"]["multimodal"]
        )
        is_promoted = "disable_hybrid_kv_cache_manager" in case["engine_args"]
        if not is_plain or is_promoted or expect["resolved"]["quantization"]:
            continue
        try:
            answer(case)
        except UnknownArchitecture as error:
            unanswered.append(f"{case['id']}: {error}")
    assert [] == unanswered
