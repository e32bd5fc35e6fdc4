"""Engine arguments: typed, checked, and back to a command line."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cli import build_parser
from planner.engine import EngineSettings, command, settings_from
from planner.engine_args import SWITCHED_OFF, WITHOUT_EFFECT
from planner.errors import PlannerError, UnknownArchitecture


def test_an_unknown_argument_names_the_nearest_one() -> None:
    """A typo is not silently ignored."""
    with pytest.raises(
        PlannerError, match=r"'max_modle_len'.*Did you mean max_model_len"
    ):
        settings_from({"max_modle_len": 4096})


def test_an_argument_without_effect_is_kept_for_the_command() -> None:
    """served_model_name changes no byte."""
    settings = settings_from({"served_model_name": "mine"})
    assert "vllm serve m --served-model-name mine" == command("m", settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [("enable_elastic_ep", True), ("enable_dbo", True)],
)
def test_an_argument_that_is_not_modelled_is_refused(name: str, value: object) -> None:
    """Its memory would be missing from the figures."""
    with pytest.raises(UnknownArchitecture, match=name):
        settings_from({name: value})


def test_the_value_that_switches_it_off_is_welcome() -> None:
    """ubatch_size=0 is what vLLM does anyway."""
    given = {"ubatch_size": 0}
    assert (("ubatch_size", 0),) == settings_from(given).others


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tensor_parallel_size", 0),
        ("max_num_seqs", "many"),
        ("gpu_memory_utilization", 1.5),
        ("gpu_memory_utilization", 0),
        ("max_model_len", -5),
    ],
)
def test_a_value_vllm_could_not_read_is_named(name: str, value: object) -> None:
    """What was given and what is allowed."""
    with pytest.raises(PlannerError, match=f"{name}="):
        settings_from({name: value})


def test_auto_and_minus_one_fit_the_length() -> None:
    """Both spellings of vLLM."""
    assert "auto" == settings_from({"max_model_len": "auto"}).max_model_len
    assert -1 == settings_from({"max_model_len": -1}).max_model_len


def test_the_command_quotes_what_a_shell_would_split() -> None:
    """A folder with a space."""
    assert "vllm serve 'my model'" == command("my model", EngineSettings())


def test_switches_are_written_as_vllm_spells_them() -> None:
    """--enforce-eager and --no-enable-prefix-caching."""
    settings = EngineSettings(enforce_eager=True, enable_prefix_caching=False)
    assert "vllm serve m --no-enable-prefix-caching".split()[-1] in command(
        "m", settings
    )
    assert "--enforce-eager" in command("m", settings)


def test_no_argument_stands_in_two_lists() -> None:
    """Modelled, without effect, or not modelled yet: one of the three."""
    modelled = set(EngineSettings.__dataclass_fields__)
    assert set() == modelled & WITHOUT_EFFECT
    assert set() == modelled & set(SWITCHED_OFF)
    assert set() == WITHOUT_EFFECT & set(SWITCHED_OFF)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "max_model_len": st.one_of(st.integers(1, 10**6), st.just("auto")),
            "max_num_seqs": st.integers(1, 4096),
            "tensor_parallel_size": st.sampled_from([1, 2, 4, 8]),
            "gpu_memory_utilization": st.floats(0.1, 1.0),
            "dtype": st.sampled_from(["auto", "bfloat16"]),
            "enforce_eager": st.booleans(),
            "cudagraph_capture_sizes": st.lists(
                st.integers(1, 512), min_size=1, max_size=4
            ).map(tuple),
            "seed": st.integers(0, 99),
        },
    )
)
def test_a_command_says_what_was_typed(engine_args: dict[str, object]) -> None:
    """Parsing the line again gives the same settings."""
    settings = settings_from(engine_args)
    words = shlex.split(command("org/model", settings))
    options = vars(build_parser().parse_args(["plan", *words[2:]]))
    start = ("run", "file", "model", "gpu", "vllm_version", "entrypoint", "json")
    for name in start:
        options.pop(name)
    assert settings == settings_from(options)


@pytest.mark.parametrize(
    "absurd",
    [
        {"pipeline_parallel_size": 10**8},
        {"max_cudagraph_capture_size": 10**9},
        {"cpu_offload_gb": 1e300},
    ],
)
def test_a_size_beyond_any_machine_is_refused_at_once(absurd) -> None:
    """Each stage and each graph is worked out: these would take hours."""
    with pytest.raises(PlannerError, match=next(iter(absurd))):
        settings_from(absurd)
