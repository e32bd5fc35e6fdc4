"""The longest context against vLLM's own estimate, in every recorded refusal."""

import re
from functools import cache

import planner
from planner import GPU, solve
from tools.answers import cases
from tools.configs import folder

ESTIMATE = re.compile(r"the estimated maximum model length is ([0-9]+)\.")

UNEVEN = (
    "ByteDance-Seed--Seed-OSS-36B-Instruct|L40S|kv_cache_dtype=fp8,"
    "pipeline_parallel_size=3,tensor_parallel_size=4"
)


@cache
def estimates():
    """Every length that vLLM 0.33.0 recommends after a request that does not fit."""
    found = []
    for case in cases():
        for plan in case["expect"].get("plans") or ():
            told = ESTIMATE.search(plan.get("error") or "")
            if told and plan["available_kv_bytes"] > 0:
                found.append((case, plan["available_kv_bytes"], int(told[1])))
    return found


def roomy(name):
    """The GPU with room for any weights: the records hold the KV cache alone."""
    known = GPU.named(name)
    shown = known.nvml_memory_bytes or known.total_memory_bytes
    return GPU.named(name, total_memory_bytes=1 << 43, nvml_memory_bytes=shown)


def arguments(case, kv_bytes):
    """What a case was recorded with."""
    return {
        "gpu": roomy(case["gpu"]),
        "vllm_version": case["vllm_version"],
        "entrypoint": case["entrypoint"],
        **case["engine_args"],
        "kv_cache_memory_bytes": kv_bytes,
    }


def longest(case, kv_bytes):
    """Solve a case."""
    model = str(folder(case["model"]))
    return solve.longest_context(model, **arguments(case, kv_bytes))


NOT_SERVED = (
    "synthetic--Qwen3-14B-w8a8|RTXPRO6000|enable_prefix_caching=False,max_num_seqs=64",
    "RedHatAI--Mistral-Small-3.1-24B-Instruct-2503-quantized.w8a8|RTXPRO6000|"
    "max_num_seqs=256,tensor_parallel_size=2",
)
"""INT8 activations on Blackwell."""


def test_the_longest_context_is_the_one_that_vllm_estimates():
    """236 of 239, to the token; two starts are estimated, and end without a kernel."""
    different = {
        case["id"]
        for case, kv_bytes, estimate in estimates()
        if longest(case, kv_bytes).value != estimate
    }

    assert {UNEVEN, *NOT_SERVED} == different
    assert len(estimates()) > 200


def test_vllm_estimates_from_the_first_stage_that_is_short():
    """64 layers in 21 + 21 + 22: the third stage holds 21/22 of what vLLM estimates.

    499,296 x 21 / 22 = 476,600.7, and 476,608 is the next multiple of 16: blocks round
    on both sides.
    """
    (found,) = [one for one in estimates() if one[0]["id"] == UNEVEN]
    case, kv_bytes, estimate = found
    model = str(folder(case["model"]))

    solution = longest(case, kv_bytes)
    recommended = planner.plan(
        model, **{**arguments(case, kv_bytes), "max_model_len": estimate}
    )

    assert not recommended.fits
    assert (476_608, 499_296) == (solution.value, estimate)
    assert solution.plan.fits
    assert not solution.next_plan.fits
