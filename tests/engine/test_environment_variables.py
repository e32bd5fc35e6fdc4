"""vLLM's environment variables that matter for memory."""

import difflib
from typing import Any

import pytest

import planner
from planner.engine.environment import (
    KNOWN,
    UNCOUNTED,
    Environment,
    environment_from,
    variables,
)
from planner.engine.releases import NEWEST, Release
from planner.errors import PlannerError
from planner.units import GIB
from tests.configs import LLAMA_8B, QWEN3_MOE, architecture, gpu


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


def test_an_unknown_variable_is_noted_with_the_nearest_one() -> None:
    """A typo would silently change nothing."""
    found = environment_from({"VLLM_PP_LAYER_PARTITIONS": "1,2"})
    assert found.pp_layer_partition is None
    assert (
        "No release of vLLM reads VLLM_PP_LAYER_PARTITIONS; it is kept. Did you mean "
        "VLLM_PP_LAYER_PARTITION?",
    ) == found.notes


def test_many_unknown_variables_are_compared_with_known_ones_only_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An advice plans many times, and a file may set thousands."""
    compared: list[str] = []
    nearest = difflib.get_close_matches

    def counting(name: str, *others: Any, **options: Any) -> list[str]:
        compared.append(name)
        return nearest(name, *others, **options)

    monkeypatch.setattr(difflib, "get_close_matches", counting)
    env = {f"VLLM_COUNTED_{number}": "1" for number in range(1000)}
    notes = [environment_from(env).notes for _ in range(3)]

    assert list(env)[:8] == compared
    assert notes[0] == notes[2]
    assert (
        "No release of vLLM reads 992 more variables, such as VLLM_COUNTED_999; they "
        "are kept."
    ) == notes[0][8]
    assert 9 == len(notes[0])


def test_a_long_name_is_noted_by_its_beginning() -> None:
    """The note stays a sentence."""
    (note,) = environment_from({f"VLLM_{'Q' * 5000}": "1"}).notes
    assert len(note) < 200


def test_what_a_variable_changes_without_being_counted_is_named() -> None:
    """Its memory is missing from the figures; its default changes nothing."""
    found = environment_from({"VLLM_BATCH_INVARIANT": "1", "VLLM_MLA_DISABLE": "0"})
    assert (
        ("VLLM_BATCH_INVARIANT=1", "kernels whose results do not depend on the batch"),
    ) == found.uncounted


def test_a_variable_without_effect_on_memory_is_kept_silently() -> None:
    """The log level, and how long the server waits for its engine."""
    found = environment_from(
        {"VLLM_LOGGING_LEVEL": "DEBUG", "VLLM_ENGINE_READY_TIMEOUT_S": "1800"}
    )
    assert Environment() == found


def test_a_variable_of_another_release_is_noted() -> None:
    """One went with 0.24.0, the other came with 0.17.0."""
    env = {"VLLM_USE_FLASHINFER_MOE_FP4": "1", "VLLM_USE_OINK_OPS": "1"}
    (note,) = environment_from(env).notes
    assert note.startswith(
        f"vLLM {NEWEST} does not read VLLM_USE_FLASHINFER_MOE_FP4 any"
    )
    older = environment_from(env, Release((0, 11, 0)))
    assert ["VLLM_USE_FLASHINFER_MOE_FP4=1"] == [name for name, _ in older.uncounted]
    assert "VLLM_USE_OINK_OPS yet: 0.17.0 does." in older.notes[0]


def test_every_variable_that_is_modelled_or_not_counted_is_one_of_vllm_s() -> None:
    """As `envs.py` of some release has it, or the planner's own reading does."""
    names = {*UNCOUNTED, *KNOWN} - {"VLLM_MM_INPUT_CACHE_GIB"}
    assert names <= set(variables())


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


def test_the_kernel_was_chosen_by_a_variable_until_014() -> None:
    """Older releases wrote the engine's version behind the name."""
    env = {"VLLM_ATTENTION_BACKEND": "FLASHINFER_VLLM_V1"}
    assert environment_from(env, Release((0, 11, 0))).attention_backend == "FLASHINFER"
    assert environment_from(env, Release((0, 15, 0))).attention_backend is None


@pytest.mark.parametrize("text", ["0", "-1", "many", "", "\u00b2", "9" * 5000])
def test_sizes_are_whole_numbers(text: str) -> None:
    """Anything else names the variable, in a short sentence."""
    with pytest.raises(PlannerError, match="VLLM_FUSED_MOE_CHUNK_SIZE") as error:
        environment_from({"VLLM_FUSED_MOE_CHUNK_SIZE": text})
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("text", ["-1", "many", "", "nan", "inf", "\u00b2", "9" * 5000])
def test_gpus_that_a_worker_requests_are_a_number(text: str) -> None:
    """Cautions on a pipeline compare it with its bundles."""
    with pytest.raises(PlannerError, match="VLLM_RAY_PER_WORKER_GPUS=") as error:
        environment_from({"VLLM_RAY_PER_WORKER_GPUS": text})
    assert len(str(error.value)) < 200
    assert Environment() == environment_from({"VLLM_RAY_PER_WORKER_GPUS": "0.25"})


def plan(
    version: str,
    env: dict[str, str],
    config: object = LLAMA_8B,
    tokens: int = 16384,
) -> planner.Plan:
    """Plan on an H100."""
    return planner.plan(
        architecture(config),  # type: ignore[arg-type]
        gpu(),
        vllm_version=version,
        env=env,
        max_num_batched_tokens=tokens,
    )


def test_smaller_chunks_need_smaller_workspaces() -> None:
    """Until 0.17; later releases compute all tokens at once."""
    env = {"VLLM_FUSED_MOE_CHUNK_SIZE": "2048"}
    sizes = {
        (version, bool(given)): plan(version, given, QWEN3_MOE)
        .ranks[0]
        .line("peak activation")
        .size_bytes
        for version in ("0.17.1", "0.19.0")
        for given in ({}, env)
    }
    assert sizes["0.17.1", True] < sizes["0.17.1", False]
    assert sizes["0.19.0", True] == sizes["0.19.0", False]


def test_the_estimate_of_graphs_can_be_charged_or_not() -> None:
    """0.19 does not unless asked; 0.20 does unless asked not to."""
    name = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"
    charged = {
        (version, text): plan(version, {name: text} if text else {})
        .ranks[0]
        .line("CUDA graphs")
        .size_bytes
        for version in ("0.19.0", "0.20.0")
        for text in ("", "0", "1")
    }
    assert not charged["0.19.0", ""]
    assert charged["0.19.0", "1"]
    assert charged["0.20.0", ""]
    assert not charged["0.20.0", "0"]


def test_no_variable_charges_what_a_release_does_not_estimate() -> None:
    """The estimate came with 0.18."""
    env = {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "1"}
    line = plan("0.17.1", env).ranks[0].line("CUDA graphs")
    assert line.size_bytes == 0
    assert plan("0.18.0", env).ranks[0].line("CUDA graphs").size_bytes > 0


def test_flashinfers_sampler_can_be_switched_off() -> None:
    """0.33: without it no masked logits and probabilities, 8 bytes a logit."""
    with_it = (
        plan("0.33.0", {}, tokens=2048).ranks[0].line("peak activation").size_bytes
    )
    without = plan("0.33.0", {"VLLM_USE_FLASHINFER_SAMPLER": "0"}, tokens=2048)
    rest = without.ranks[0].line("peak activation").size_bytes
    assert with_it - rest == 1024 * 128256 * 8
    assert rest > GIB // 2
