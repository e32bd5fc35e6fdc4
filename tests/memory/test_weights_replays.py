"""Published start-ups: "Model loading took", replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import planner
from planner.engine.releases import OLDEST, number_of
from planner.errors import PlannerError, UnknownArchitecture
from planner.units import GIB
from tools.configs import folder
from tools.starts import read_records

_OTHER_MODEL = "the start-up's config.json is another revision's"
_ALLOCATOR = "the tails of segments, which depend on the order of loading"
_TABLE = "as if its rotary table were in float32, which compiled models do not have"
_UNKNOWN = "not explained"
_RESERVED = "a prefill workspace that is part of the shared one here"
_ALLOWED_BYTES = {
    "glm52-nvfp4-4xgb200-0.26": (GIB // 2, _RESERVED),
    "hv-57935131721-qwen3-235b-fp8-4xrtxpro6000-0.27.1": (GIB // 16, _UNKNOWN),
    "hv-59703613248-gemma4-e2b-t4-0.28": (GIB // 35, _ALLOCATOR),
    "hv-61316607224-qwen38-27b-bf16-gb10-0.27.1-32k": (GIB // 3, _OTHER_MODEL),
    "hv-61569442000-qwen36-27b-nvfp4-mtp2-gb10": (GIB // 7, _UNKNOWN),
    "hv-63102470423-gemma4-31b-kaggle": (GIB // 80, _ALLOCATOR),
    "jh-gb10-gemma4-26b-bf16": (GIB // 160, _ALLOCATOR),
    "kt-kimi25-int4-4xb200-131k": (GIB // 30, _TABLE),
    "kt-kimi25-int4-4xb200-eager-262k": (GIB // 80, _ALLOCATOR),
    "kt-kimi25-int4-8xh200-eager": (GIB // 30, _ALLOCATOR),
    "kt-kimi25-nvfp4-4xb200": (GIB // 20, "custom_ops is all, and the allocator"),
    "kt-kimi25-nvfp4-8xb200": (GIB // 20, "custom_ops is all, and the allocator"),
    "kt-kimi26-int4-2x8xh100-tp8pp2": (GIB // 20, _TABLE),
    "kt-kimi26-int4-4xb200-131kbatch-fail": (GIB // 2, _UNKNOWN),
    "kt-kimi26-int4-4xb200-q-int4-k2": (GIB // 2, _UNKNOWN),
    "kt-kimi26-int4-4xb200-util0.75-fail": (GIB // 2, _UNKNOWN),
    "kt-kimi26-int4-4xb200-util0.85-fail": (GIB // 2, _UNKNOWN),
    "llmd-json-ibm-granite-granite-3-3---h100-80gb--tp4pp1dp1--8192": (
        GIB // 160,
        _ALLOCATOR,
    ),
    "llmd-json-mistralai-mistral-small---h100-80gb--tp4pp1dp1--8192": (
        GIB // 160,
        _ALLOCATOR,
    ),
    "llmd-v0190-google-gemma-3-27b-it-h100-80gb-tp1pp1dp1-8192": (
        GIB // 80,
        _ALLOCATOR,
    ),
    "llmd-v0190-w4a16-redhatai-lla-h100-80gb-tp1pp1dp1-8192-dtf16": (
        10 * GIB,
        "the checkpoint was quantised, the config of the corpus is not",
    ),
    "repo-briandepasquale-vllm-log-91a755": (GIB // 40, _OTHER_MODEL),
    "repo-leadawon-dawon-all-dawon-logs-backend-server-exper99-log": (
        GIB // 35,
        _OTHER_MODEL,
    ),
    "repo-trietnguyeminh-vllm-server-log": (GIB // 160, _ALLOCATOR),
    "su-dsv2lite-gb10": (GIB // 11, "as if FlashInfer were not installed"),
}
"""Start-ups that lie further off than their rounding, how far, and why."""
_ROUNDING_BYTES = GIB // 200
_RUNNERS = {"vc-qwen3-emb-8b-h100": "pooling"}
"""What vLLM takes from a modules.json beside config.json, which is not read."""
_ENVIRONMENTS = {
    "hv-57935131721-qwen3-235b-fp8-4xrtxpro6000-0.27.1": {"VLLM_USE_DEEP_GEMM": "0"}
}
"""What the notes of a record say, and its arguments do not."""
_WITHOUT_EFFECT = ("compilation_config", "moe_backend")


def replayable(row: dict[str, Any]) -> bool:
    """Whether a log says what was loaded, with a release and a GPU."""
    version = row["vllm_version"]
    return bool(
        row["measured"].get("weights_gib")
        and row["config"]
        and row["gpu"]
        and version
        and number_of(version) >= number_of(OLDEST)
    )


def difference_bytes(row: dict[str, Any], config: Path) -> float | None:
    """Return how far a plan lies from the log; None for what is not planned."""
    given = row["args"].items()
    args = {name: value for name, value in given if name not in _WITHOUT_EFFECT}
    if row["id"] in _RUNNERS:
        args["runner"] = _RUNNERS[row["id"]]
    try:
        gpu = planner.GPU.named(row["gpu"])
        plan = planner.plan(
            config,
            gpu,
            vllm_version=row["vllm_version"],
            env=_ENVIRONMENTS.get(row["id"]),
            **args,
        )
    except UnknownArchitecture:
        return None
    except PlannerError as error:
        assert "GPU" in str(error), row["id"]  # noqa: PT017 - of the catalogue
        return None
    if not plan.ranks:
        return None
    heaviest = max(rank.allocated_weights_bytes for rank in plan.ranks)
    return heaviest - row["measured"]["weights_gib"] * GIB


def test_what_was_logged_after_loading_is_planned() -> None:
    """Within half of the last digit, or as far off as is known and said."""
    found = {
        row["id"]: difference
        for row in read_records()
        if replayable(row)
        and (difference := difference_bytes(row, folder(row["config"]))) is not None
    }
    assert len(found) > 90
    wrong = {
        name: f"{difference / GIB:+.4f} GiB"
        for name, difference in found.items()
        if abs(difference) > _ALLOWED_BYTES.get(name, (_ROUNDING_BYTES, ""))[0]
    }
    assert {} == wrong
    idle = [
        name for name in _ALLOWED_BYTES if abs(found.get(name, GIB)) <= _ROUNDING_BYTES
    ]
    assert [] == idle
