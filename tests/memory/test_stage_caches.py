"""What kernels decide is worked out once, and never mixed up between deployments."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

import planner
from planner.memory.kv_cache import kernels as kernels_module

MODELS = (
    "Qwen/Qwen3-8B",
    "deepseek-ai/DeepSeek-V3.2",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "google/gemma-3-27b-it",
)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "max_model_len": st.sampled_from((1024, 4096, 30000)),
        "max_num_seqs": st.sampled_from((1, 77, 1024)),
        "max_num_batched_tokens": st.sampled_from((2048, 4097)),
        "enable_prefix_caching": st.booleans(),
        "kv_cache_dtype": st.sampled_from(("auto", "fp8")),
        "tensor_parallel_size": st.sampled_from((1, 2, 8)),
        "pipeline_parallel_size": st.sampled_from((1, 2)),
        "disable_hybrid_kv_cache_manager": st.booleans(),
    },
)


@given(name=st.sampled_from(MODELS), first=ARGUMENTS, second=ARGUMENTS)
def test_a_plan_does_not_depend_on_the_plans_before_it(name, first, second):
    """A plan after another of the same model equals one that nothing came before."""
    model = planner.plan(name, gpu="B200").model
    fresh = replace(model)

    planner.plan(model, gpu="B200", **first)
    after = planner.plan(model, gpu="B200", **second)

    assert planner.plan(fresh, gpu="B200", **second).to_dict() == after.to_dict()


def test_plans_that_differ_in_the_batch_alone_share_their_kernels():
    """Lengths, batches and utilization choose no kernel of a model without states."""
    model = planner.plan("Qwen/Qwen3-8B", gpu="H100").model
    kernels_module._layer_kernels.cache_clear()

    for length in (1024, 2048, 4096):
        planner.plan(model, gpu="H100", max_model_len=length, max_num_seqs=length // 8)

    assert 1 == kernels_module._layer_kernels.cache_info().misses
