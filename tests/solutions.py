"""Loads, models and GPUs to solve for, and a check of an answer without the solver."""

from __future__ import annotations

from functools import cache

from hypothesis import assume
from hypothesis import strategies as st

import planner
from planner import Inputs, Load, PlannerError
from planner.engine.releases import NEWEST
from planner.models import catalogue
from planner.planning.result import Plan
from tools import configs

FOLDERS = tuple(row["dir"] for row in configs.index())
MODELS = tuple(entry.name for entry in catalogue.entries()) + FOLDERS
GPUS = ("B300", "H200", "H100", "A100-40GB", "L40S", "L4", "RTX4090", "T4", "GB10")

models = st.sampled_from(MODELS)
gpus = st.sampled_from(GPUS)
releases = st.sampled_from((NEWEST, NEWEST, "0.29.0", "0.24.0", "0.17.0", "0.11.0"))
loads = st.builds(
    Load,
    prompt_tokens=st.sampled_from((1, 100, 3000, 16_000, 130_000)),
    output_tokens=st.sampled_from((0, 1, 1000)),
    requests=st.sampled_from((1, 2, 7, 64, 1000)),
)
engine_args = st.fixed_dictionaries(
    {},
    optional={
        "tensor_parallel_size": st.sampled_from((2, 8)),
        "pipeline_parallel_size": st.just(2),
        "data_parallel_size": st.just(3),
        "kv_cache_dtype": st.just("fp8"),
        "max_num_seqs": st.sampled_from((1, 16, 300)),
        "max_model_len": st.sampled_from((2048, 20_000, "auto")),
        "enforce_eager": st.booleans(),
        "enable_prefix_caching": st.just(False),
        "gpu_memory_utilization": st.sampled_from((0.5, 0.97)),
    },
)


@cache
def _read(model: str) -> Plan | None:
    try:
        return planner.plan(configs.folder(model) if model in FOLDERS else model)
    except PlannerError:
        return None


def start(model: str, gpu: str, version: str, arguments: dict[str, object]) -> Inputs:
    """What is planned; another example where this model cannot be."""
    known = _read(model)
    assume(known is not None)
    assert known is not None
    inputs = Inputs.of(known).changed(gpu=gpu, vllm_version=version, **arguments)
    try:
        inputs.plan()
    except PlannerError:
        assume(False)
    return inputs


def is_served(plan: Plan, load: Load) -> bool:
    """Reckon from a plan's figures alone whether it serves a load of its own length.

    Blocks that vLLM has at the low end of the estimate, less its empty one, hold the
    requests of the copy that has the most of them.
    """
    if not plan.fits or plan.resolved is None:
        return False
    share = -(-load.requests // plan.resolved.data_parallel_size)
    if plan.resolved.max_model_len < load.request_tokens:
        return False
    if plan.resolved.max_num_seqs < share:
        return False
    if not plan.blocks_per_request:
        return True
    blocks = round(plan.max_concurrency_low * plan.blocks_per_request)
    each = plan.blocks_per_request
    if plan.resolved.max_model_len > load.request_tokens:
        each = plan.changed(
            max_model_len=load.request_tokens,
            max_num_seqs=plan.resolved.max_num_seqs,
            max_num_batched_tokens=plan.resolved.max_num_batched_tokens,
        ).blocks_per_request
    return share * each + 1 <= blocks
