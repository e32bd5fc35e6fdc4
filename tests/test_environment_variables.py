"""vLLM's environment variables that matter for memory."""

import pytest

from planner.environment import Environment, environment_from
from planner.errors import PlannerError, UnknownArchitecture
from planner.releases import Release


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


def test_the_model_runner_can_be_chosen_where_there_are_two() -> None:
    """From 0.12.0 on; before, nobody reads the variable."""
    env = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
    assert environment_from(env).use_v2_model_runner is False
    assert environment_from({}).use_v2_model_runner is None
    assert environment_from(env, Release((0, 11, 2))).use_v2_model_runner is None


def test_chunks_of_attention_were_kept_in_full_for_a_while() -> None:
    """From 0.10.1 to 0.13.0 unless the variable allows them a group."""
    found = [
        environment_from({}, Release(number)).allow_chunked_local_attention
        for number in ((0, 10, 0), (0, 10, 1), (0, 13, 0), (0, 14, 0))
    ]
    assert [True, False, False, True] == found
