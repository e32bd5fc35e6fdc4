"""Every flag of `vllm serve`, by any spelling of releases 0.9 to today."""

import json
from pathlib import Path

import pytest

from planner.engine.arguments import ARGUMENTS, Argument
from planner.engine.releases import number_of
from planner.engine.server import (
    SERVER_FLAGS,
    ServerFlag,
    Takes,
    flag_named,
    takes_value,
    turns_off,
)
from planner.engine.settings import settings_from
from planner.errors import PlannerError
from tests.recorded_parser import FOLDER, RELEASES, recorded
from tools.server_flags import TABLE, written

RECIPES = Path(__file__).parents[3] / "shared" / "recipes" / "recipes.jsonl"


def test_the_table_is_written_as_the_tool_writes_it() -> None:
    """So that a new release changes only what is new."""
    text = TABLE.read_text(encoding="utf-8")
    assert text == written(json.loads(text)) + "\n"


@pytest.mark.parametrize("release", RELEASES)
def test_every_flag_of_a_recorded_parser_is_known(release: str) -> None:
    """With its destination, its off form, and whether a value follows."""
    wrong = []
    for flag in recorded(release)["flags"]:
        if flag["dest"] in ("help", "model_tag", "model"):
            continue
        for spelled in (*flag["flags"], *flag.get("off", ())):
            found = flag_named(spelled)
            if found is None or found[0] != flag["dest"]:
                # What a release called otherwise is an argument of its own today.
                is_other = found is not None and spelled in _ANOTHER
                wrong += [] if is_other else [(spelled, flag["dest"], found)]
    assert [] == wrong


_ANOTHER = ("-O", "--disable-log-requests", "--enable-log-requests")


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("-tp", "tensor_parallel_size"),
        ("-pp", "pipeline_parallel_size"),
        ("-dp", "data_parallel_size"),
        ("-q", "quantization"),
        ("-O3", "optimization_level"),
        ("-cc.mode=3", "compilation_config"),
        ("--max_model_len", "max_model_len"),
        ("--max-model-len=8k", "max_model_len"),
        ("--compilation-config.cudagraph_mode", "compilation_config"),
        ("--no-enable-prefix-caching", "enable_prefix_caching"),
        ("--disable-auto-tool-choice", "enable_auto_tool_choice"),
        ("--tool_call_parser", "tool_call_parser"),
        ("--tensor-parallel", "tensor_parallel_size"),
        ("--task", "task"),
        ("--swap-space", "swap_space"),
        ("--rope-scaling", "rope_scaling"),
        ("--num-scheduler-steps", "num_scheduler_steps"),
    ],
)
def test_a_flag_is_found_by_any_spelling(spelled: str, name: str) -> None:
    """Short, with underscores, with a value, a key or a number joined, shortened."""
    found = flag_named(spelled)
    assert found is not None
    assert name == found[0]
    assert isinstance(found[1], Argument | ServerFlag)


@pytest.mark.parametrize("spelled", ["--tool-parser-plugins", "--no-foo", "-x", "--"])
def test_what_no_release_knows_is_none(spelled: str) -> None:
    """The caller names the nearest flag."""
    assert flag_named(spelled) is None


def test_an_off_form_is_told_from_a_flag_that_begins_like_one() -> None:
    """--disable-log-stats is a flag of its own."""
    assert turns_off("--no-enable-prefix-caching")
    assert turns_off("--disable-auto-tool-choice")
    assert not turns_off("--disable-log-stats")
    assert not turns_off("--enable-prefix-caching")


def test_a_flag_says_what_follows_it() -> None:
    """A switch, a word, several, JSON."""
    kinds = {name: SERVER_FLAGS[name].kind for name in ("grpc", "host", "api_key")}
    assert {"grpc": "switch", "host": "one", "api_key": "many"} == kinds
    assert Takes.JSON is SERVER_FLAGS["allowed_origins"].kind
    assert SERVER_FLAGS["api_key"].is_list
    assert not SERVER_FLAGS["grpc"].has_value
    assert takes_value(ARGUMENTS["max_model_len"])
    assert not takes_value(ARGUMENTS["enforce_eager"])


def test_the_choices_of_a_flag_are_those_of_the_newest_parser() -> None:
    """Of a flag that every word is given to, none."""
    flags = json.loads((FOLDER / f"{RELEASES[-1]}.json").read_text("utf-8"))["flags"]
    taken = {
        flag["dest"]: tuple(map(str, flag.get("choices", ())))
        for flag in flags
        if flag["dest"] in SERVER_FLAGS
    }
    assert "trace" in taken["uvicorn_log_level"]
    assert taken == {name: SERVER_FLAGS[name].choices for name in taken}


def test_a_word_that_the_server_s_parser_does_not_take_is_refused() -> None:
    """Although it is without effect on memory: the command would not start."""
    with pytest.raises(PlannerError, match="uvicorn_log_level='loud': use one of crit"):
        settings_from({"uvicorn_log_level": "loud"})
    given = {"uvicorn_log_level": "trace", "chat_template_content_format": None}
    assert (*given.items(),) == settings_from(given).server


def test_a_flag_that_is_gone_says_since_when_and_what_took_its_place() -> None:
    """--task went with 0.13.0; runner says it now."""
    task = SERVER_FLAGS["task"]
    assert ("0.13.0", "runner", True) == (task.gone, task.instead, task.of_engine)
    known = {*ARGUMENTS, *SERVER_FLAGS, ""}
    for flag in SERVER_FLAGS.values():
        assert flag.text.endswith(".")
        assert flag.instead in known
        assert not flag.instead or flag.gone
        assert not flag.of_engine or flag.gone
        if flag.since and flag.gone:
            assert number_of(flag.since) < number_of(flag.gone)


def test_no_flag_is_both_the_server_s_and_the_engine_s() -> None:
    """Each name has one entry."""
    assert set() == set(ARGUMENTS) & set(SERVER_FLAGS)


def test_every_flag_of_vllm_s_recipes_is_known() -> None:
    """Except one that no release has: its recipe names a flag wrongly."""
    if not RECIPES.is_file():
        pytest.skip("the recipes' commands are not beside this repository")
    words = {
        word.partition("=")[0]
        for line in RECIPES.read_text(encoding="utf-8").splitlines()
        for word in json.loads(line)["argv"][3:]
        if word.startswith("--")
    }
    assert set() == {word for word in words if flag_named(word) is None}


def test_a_flag_that_recipes_name_and_no_release_has() -> None:
    """It is known as a mistake, with the flag that is meant."""
    name, flag = flag_named("--tool-call-parser-plugin") or ("", None)

    assert isinstance(flag, ServerFlag)
    assert flag.is_mistaken
    assert "tool_parser_plugin" == flag.instead
    assert name not in {one for one in SERVER_FLAGS if not SERVER_FLAGS[one].gone}
