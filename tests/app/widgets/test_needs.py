"""What I need: the load in the controls, what follows from it, presets and recipes."""

import pytest

import planner
from planner.app.widgets.explorer import Explorer
from planner.app.widgets.needs import PRESETS, RECIPES, recipe_named
from planner.models import catalogue
from planner.planning.inputs import Inputs


@pytest.fixture
def explorer() -> Explorer:
    """Llama-3.1-8B on an H100, without a load."""
    return Explorer()


def press(explorer: Explorer, name: object) -> None:
    """Press a preset as a page does."""
    explorer.form.main._handle_custom_msg({"set": "load", "value": name}, [])


def enter(explorer: Explorer, **values: str) -> None:
    """Type into controls."""
    for name, value in values.items():
        explorer.form.fields[name].value = value


def test_without_a_load_the_answer_is_whether_it_starts(explorer) -> None:
    """Nothing is assumed silently."""
    assert explorer.plan.load is None
    assert "Fits" in explorer.results.answer.parts["verdict"]
    assert "" == explorer.form.fields["prompt_tokens"].chosen


def test_a_preset_is_one_plan_from_which_length_and_sequences_follow(
    explorer, monkeypatch
) -> None:
    """3,072 + 1,024 tokens, 20 at once; the two controls say what they follow."""
    calls = []
    real = planner.plan
    monkeypatch.setattr(
        "planner.app.widgets.explorer.plan_start",
        lambda **asked: calls.append(1) or real(**asked),
    )
    press(explorer, "chat")
    fields = explorer.form.fields

    assert 1 == len(calls)
    assert PRESETS["chat"].load == explorer.plan.load
    assert ("max_model_len", "max_num_seqs") == explorer.plan.follows
    assert ("", "4096") == (
        fields["max_model_len"].value,
        fields["max_model_len"].chosen,
    )
    assert ("", "20") == (fields["max_num_seqs"].value, fields["max_num_seqs"].chosen)
    assert "follows what I need" == fields["max_model_len"].own
    assert "chat" == explorer.form.needs.presets.value
    assert "serves 20 of 20 at once" in explorer.results.answer.parts["verdict"]


def test_a_second_press_takes_the_load_back(explorer) -> None:
    """The button is a switch."""
    press(explorer, "rag")
    press(explorer, "rag")

    assert explorer.plan.load is None
    assert "" == explorer.form.needs.presets.value


def test_a_value_set_by_hand_wins_and_can_be_given_back(explorer) -> None:
    """Reset lets it follow again."""
    press(explorer, "chat")
    enter(explorer, max_model_len="8192")
    by_hand = explorer.plan.resolved.max_model_len, explorer.plan.follows
    enter(explorer, max_model_len="")

    assert (8192, ("max_num_seqs",)) == by_hand
    assert 4096 == explorer.plan.resolved.max_model_len


def test_one_part_is_enough_and_the_rest_is_shown_as_assumed(explorer) -> None:
    """20 users: prompts of 3,072 tokens and answers of 1,024, in grey."""
    enter(explorer, requests="20")
    fields = explorer.form.fields

    assert planner.Load(prompt_tokens=3072, output_tokens=1024, requests=20) == (
        explorer.plan.load
    )
    assert ("3072", "1024") == (
        fields["prompt_tokens"].chosen,
        fields["output_tokens"].chosen,
    )
    enter(explorer, requests="")
    assert explorer.plan.load is None
    assert "" == fields["prompt_tokens"].chosen


@pytest.mark.parametrize("text", ["0", "many", "-1", "1.5"])
def test_a_wrong_part_says_so_at_its_field_and_above_the_answer(explorer, text) -> None:
    """The answer is marked as not for it."""
    press(explorer, "chat")
    enter(explorer, requests=text)

    assert "requests" in explorer.form.fields["requests"].error
    assert "requests" in explorer.results.answer.alert
    assert explorer.results.answer.is_stale


@pytest.mark.parametrize("sent", ["nothing", 1, None, [], "<b>"])
def test_what_is_no_preset_changes_nothing(explorer, sent) -> None:
    """A page can send anything."""
    before = explorer.plan
    press(explorer, sent)

    assert before is explorer.plan


def test_a_plan_with_a_load_opens_as_it_is() -> None:
    """Its load stands in the controls, and a link brings it along."""
    load = planner.Load(prompt_tokens=1000, output_tokens=200, requests=8)
    plan = planner.plan("Qwen/Qwen3-8B", gpu="L4", load=load)
    explorer = plan.explore()
    other = Explorer()
    other.header._handle_custom_msg({"opened": explorer.header.query}, [])

    assert plan.command() == explorer.plan.command() == other.plan.command()
    assert load == explorer.plan.load == other.plan.load
    assert "1000" == other.form.fields["prompt_tokens"].value
    assert explorer.plan.follows == ("max_model_len", "max_num_seqs")


@pytest.mark.parametrize("key", PRESETS)
def test_each_preset_says_where_its_numbers_come_from(key) -> None:
    """A sentence, and a load that serves somebody."""
    preset = PRESETS[key]

    assert preset.why.endswith(".")
    assert preset.load.request_tokens % 256 == 0


@pytest.mark.parametrize("number", range(len(RECIPES)))
def test_each_recipe_is_planned_offline(number) -> None:
    """A start that somebody asks about: it has a model, a GPU and a load."""
    inputs = recipe_named(number)
    if catalogue.find(inputs.model) is None:
        pytest.skip("The catalogue does not have this model yet.")
    plan = inputs.plan()

    assert isinstance(inputs, Inputs)
    assert plan.load == inputs.load
    assert plan.resolved is not None


@pytest.mark.parametrize("number", [-1, len(RECIPES), True, "0", None])
def test_what_is_no_recipe_is_none(number) -> None:
    """Whatever a page sends."""
    assert recipe_named(number) is None
