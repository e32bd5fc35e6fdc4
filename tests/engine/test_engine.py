"""Engine arguments: typed, checked, and back to a command line."""

import dataclasses
import shlex
from collections.abc import Mapping
from functools import cache
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.app.cli import build_parser
from planner.engine.arguments import ARGUMENTS, Kind, Memory, named
from planner.engine.settings import EngineSettings, command, settings_from
from planner.errors import PlannerError
from planner.export.values import checked, from_text, to_text
from tests.rows import each_row

parser = cache(build_parser)
"""With every engine argument; made once, not for each example."""


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


@pytest.mark.parametrize("name", ["enable_elastic_ep", "enable_dbo"])
def test_an_argument_whose_effect_is_not_known_is_kept(name: str) -> None:
    """The plan says what it does not count."""
    assert ((name, True),) == settings_from({name: True}).others


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


def test_the_table_and_the_fields_are_in_step() -> None:
    """What is modelled has a field of its own, and nothing else has."""
    fields = {field.name for field in dataclasses.fields(EngineSettings)}
    assert fields - {"others", "server"} == set(named(Memory.MODELLED))


TYPES = {
    Kind.SWITCH: (bool,),
    Kind.WHOLE: (int,),
    Kind.COUNT: (int,),
    Kind.LENGTH: (int, str),
    Kind.SIZE: (int, str),
    Kind.NUMBER: (float,),
    Kind.SHARE: (float,),
    Kind.CHOICE: (str,),
    Kind.TEXT: (str,),
    Kind.TABLE: (Mapping[str, Any],),
    Kind.NAMES: (tuple[str, ...],),
    Kind.NUMBERS: (tuple[int, ...],),
}


@each_row("name", named(Memory.MODELLED))
def test_a_field_is_typed_as_the_table_says(name) -> None:
    """And may be left out."""
    kind = ARGUMENTS[name].kind
    types = (int,) if name == "max_lora_rank" else TYPES[kind]
    assert {*types, type(None)} == set(get_args(get_type_hints(EngineSettings)[name]))


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
    options = vars(parser().parse_args(["plan", *words[2:]]))
    start = ("run", "file", "model", "gpu", "vllm_version", "entrypoint", "json")
    for name in start:
        options.pop(name)
    assert settings == settings_from(options)


@pytest.mark.parametrize(
    "name",
    [
        "cpu_offload_params",
        "kv_cache_dtype_skip_layers",
        "lora_target_modules",
        "offload_params",
    ],
)
def test_every_list_of_names_is_read_alike(name) -> None:
    """From Python, from a link of either kind, and from the command line."""
    from_python = settings_from({name: ["a", "b"]})
    options = vars(
        parser().parse_args(["plan", "m", f"--{name.replace('_', '-')}", "a", "b"])
    )

    assert ("a", "b") == getattr(from_python, name)
    assert ("a", "b") == from_text(name, "a,b") == from_text(name, '["a","b"]')
    assert "a,b" == to_text(name, ("a", "b"))
    assert ("a", "b") == checked(name, options[name])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("mine", "mine"),
        (["mine", "other"], "mine,other"),
        ("mine,other", '"mine,other"'),
        (["mine"], '["mine"]'),
        (["one name", "other"], '["one name","other"]'),
    ],
)
def test_a_list_or_one_text_comes_back_as_it_was(value, text) -> None:
    """vLLM takes both for served_model_name."""
    assert text == to_text("served_model_name", value)
    assert value == from_text("served_model_name", text)


@pytest.mark.parametrize("wrong", ["qkv_proj", [1], {"qkv_proj": 1}])
def test_a_list_of_names_is_not_a_text_of_letters(wrong) -> None:
    """Or offload_params would move what has a q in its name."""
    with pytest.raises(PlannerError, match=r"offload_params=.*a list of names"):
        settings_from({"offload_params": wrong})


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
