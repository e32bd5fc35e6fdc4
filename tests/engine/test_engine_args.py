"""Arguments that a release does not have yet, and values that none has."""

import json
from pathlib import Path

import pytest

import planner
from planner.engine.arguments import ARGUMENTS, Kind, Memory, check_release
from planner.engine.releases import MODELLED, NEWEST_RELEASE, Release, came_later
from planner.engine.settings import settings_from
from planner.errors import PlannerError
from tests.configs import LLAMA_8B, architecture


@pytest.mark.parametrize(
    ("given", "release", "first"),
    [
        ({"kv_cache_memory_bytes": 1}, (0, 10, 1), "0.10.2"),
        ({"mm_encoder_tp_mode": "data"}, (0, 10, 1), "0.10.2"),
        ({"async_scheduling": True}, (0, 9, 2), "0.10.0"),
        ({"performance_mode": "balanced"}, (0, 16, 0), "0.17.0"),
        ({"attention_backend": "FLASHINFER"}, (0, 12, 0), "0.13.0"),
        ({"kv_cache_dtype": "bfloat16"}, (0, 10, 2), "0.11.0"),
        ({"kv_cache_dtype": "nvfp4"}, (0, 19, 1), "0.20.0"),
        ({"max_model_len": "auto"}, (0, 13, 0), "0.14.0"),
        ({"max_model_len": -1}, (0, 13, 0), "0.14.0"),
    ],
)
def test_what_came_later_is_refused_and_the_release_named(
    given: dict[str, object], release: tuple[int, int, int], first: str
) -> None:
    """And the first that has it takes it."""
    with pytest.raises(PlannerError, match=f"came with {first}"):
        check_release(given, Release(release))
    major, minor, patch = map(int, first.split("."))
    check_release(given, Release((major, minor, patch)))


def test_what_is_not_given_needs_no_release() -> None:
    """None is the same as nothing; old arguments are everywhere."""
    older = Release((0, 9, 2))
    check_release({"kv_cache_memory_bytes": None, "max_num_seqs": 1}, older)
    check_release({"kv_cache_dtype": "fp8", "max_model_len": 100}, older)


def test_capture_sizes_are_taken_everywhere() -> None:
    """Logs of older releases have them under other names."""
    sizes = {"cudagraph_capture_sizes": [1, 2], "max_cudagraph_capture_size": 2}
    check_release(sizes, Release((0, 9, 2)))


def test_a_plan_refuses_them_too() -> None:
    """Before anything else."""
    with pytest.raises(PlannerError, match="kv_cache_memory_bytes"):
        planner.plan(
            architecture(LLAMA_8B), vllm_version="0.10.1", kv_cache_memory_bytes=1
        )


def test_everything_came_with_a_release_that_is_modelled() -> None:
    """And nothing is later than the newest."""
    assert "0.10.2" == came_later(
        "architectures", "Qwen3NextForCausalLM", Release((0, 10, 1))
    )
    assert came_later("architectures", "Nonsense", Release((0, 9, 2))) is None
    assert came_later("arguments", "performance_mode", NEWEST_RELEASE) is None
    assert came_later("arguments", "performance_mode", Release((0, 9, 2))) in MODELLED


@pytest.mark.parametrize("name", ["pipeline_parallel_size", "data_parallel_size"])
@pytest.mark.parametrize("size", [1 << 21, 10**400])
def test_more_gpus_than_any_machine_has_are_refused(name, size) -> None:
    """Figures of all engines together stay numbers."""
    with pytest.raises(PlannerError, match=rf"{name}=.*no machine has more"):
        planner.plan("Qwen/Qwen3-8B", gpu="H100", **{name: size})


PARSERS = sorted((Path(__file__).parents[1] / "data/parsers").glob("*.json"))


@pytest.mark.parametrize(
    "given",
    [{"scheduling_policy": "foo"}, {"log_level": "foo"}, {"all2all_backend": "foo"}],
)
def test_a_value_that_the_parser_refuses_is_refused(given: dict[str, str]) -> None:
    """Whether it matters for memory or not: vLLM does not start with it."""
    with pytest.raises(PlannerError, match="'foo': use one of "):
        settings_from(given)


@pytest.mark.parametrize("path", PARSERS, ids=lambda path: path.stem)
def test_every_choice_that_a_release_had_is_taken(path: Path) -> None:
    """Of arguments without an effect on memory, by vLLM's parser of each release."""
    flags = json.loads(path.read_text(encoding="utf-8"))["flags"]
    had = {flag["dest"]: flag.get("choices", ()) for flag in flags}
    taken = {
        name: {*argument.choices, *argument.earlier, None}
        for name, argument in ARGUMENTS.items()
        if argument.kind is Kind.CHOICE and argument.memory is not Memory.MODELLED
    }

    assert {} == {
        name: rest
        for name, known in taken.items()
        if (rest := {*had.get(name, ())} - known)
    }
