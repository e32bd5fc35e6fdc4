"""vLLM's environment variables that matter for memory."""

import pytest

from planner.environment import Environment, environment_from
from planner.errors import PlannerError, UnknownArchitecture


def test_no_environment_means_vllms_defaults() -> None:
    """Graph estimate and FlashInfer sampler are on."""
    assert Environment() == environment_from(None)
    assert Environment().estimate_cudagraphs


def test_variables_are_read_by_their_meaning() -> None:
    """0 switches off, 1 on."""
    env = environment_from(
        {
            "VLLM_PP_LAYER_PARTITION": "20,28",
            "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1",
            "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "0",
            "PATH": "/usr/bin",
        }
    )
    assert "20,28" == env.pp_layer_partition
    assert env.allow_long_max_model_len
    assert not env.estimate_cudagraphs


def test_an_unknown_variable_names_the_nearest_one() -> None:
    """A typo would silently change nothing."""
    with pytest.raises(PlannerError, match="VLLM_PP_LAYER_PARTITION"):
        environment_from({"VLLM_PP_LAYER_PARTITIONS": "1,2"})


def test_a_variable_that_is_not_modelled_is_refused() -> None:
    """Its memory would be missing from the figures."""
    with pytest.raises(UnknownArchitecture, match="VLLM_MLA_DISABLE"):
        environment_from({"VLLM_MLA_DISABLE": "1"})
