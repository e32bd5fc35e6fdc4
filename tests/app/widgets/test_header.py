"""The header: undo and redo of all controls, recipes, the release, the address."""

import pytest

from planner.app.widgets.explorer import Explorer
from planner.app.widgets.header import MOST_STEPS, SAME_STEP_SECONDS, History
from planner.app.widgets.needs import RECIPES
from planner.engine.releases import NEWEST


@pytest.fixture
def explorer() -> Explorer:
    """Llama-3.1-8B on an H100."""
    return Explorer()


def send(explorer: Explorer, **message: object) -> None:
    """Send what a page sends."""
    explorer.header._handle_custom_msg(message, [])


def test_every_change_is_taken_back_and_made_again(explorer) -> None:
    """A number, a list, a preset: in their order, to the same plans."""
    first = explorer.plan
    explorer.form.fields["max_model_len"].value = "4096"
    explorer.form.fields["gpu"].value = "L4"
    explorer.form.main._handle_custom_msg({"set": "load", "value": "chat"}, [])
    last = explorer.plan
    for _ in range(3):
        send(explorer, move="undo")
    back = explorer.plan, explorer.header.can_undo
    for _ in range(3):
        send(explorer, move="redo")

    assert (first, False) == back
    assert last == explorer.plan
    assert not explorer.header.can_redo


def test_a_wrong_entry_and_an_advice_are_taken_back_too(explorer) -> None:
    """Undo is the way out of both."""
    explorer.form.fields["max_num_seqs"].value = "many"
    send(explorer, move="undo")
    right = explorer.results.answer.is_stale, explorer.form.fields["max_num_seqs"].value
    before = explorer.plan
    advice = {"press": "apply", "row": "0"}
    explorer.results.advice._handle_custom_msg(advice, [])
    applied = explorer.plan
    send(explorer, move="undo")

    assert (False, "") == right
    assert before != applied
    assert before == explorer.plan


@pytest.mark.parametrize("way", ["undo", "redo"])
def test_without_a_change_nothing_is_taken_back(explorer, way) -> None:
    """The page's buttons say so; a press that comes late does nothing."""
    before = explorer.plan
    send(explorer, move=way)

    assert before is explorer.plan


def test_a_drag_of_a_slider_is_one_step() -> None:
    """Further changes within a second belong to the same step."""
    now = [100.0]
    history: History[int] = History(clock=lambda: now[0])
    for state in range(5):
        history.note(state, "max_model_len")
        now[0] += SAME_STEP_SECONDS / 2
    history.note(5, "gpu")

    assert [0, 5] == history.before
    assert 5 == history.undo(6)
    assert 0 == history.undo(5)
    assert history.undo(0) is None
    assert [5, 6] == [history.redo(0), history.redo(5)]


def test_no_more_states_are_kept_than_the_limit() -> None:
    """The oldest is forgotten first."""
    history: History[int] = History()
    for state in range(MOST_STEPS + 5):
        history.note(state, "")

    assert MOST_STEPS == len(history.before)
    assert 5 == history.before[0]


def test_a_recipe_opens_with_its_load(explorer) -> None:
    """The first: 20 users of Qwen3-32B at 32K."""
    send(explorer, recipe=0)

    assert "Qwen/Qwen3-32B" == explorer.plan.name
    assert next(iter(RECIPES.values())).load == explorer.plan.load
    assert list(RECIPES) == explorer.header.recipes


def test_the_release_is_the_control_of_that_name(explorer) -> None:
    """Both follow each other."""
    send(explorer, release="0.19.0")
    planned = explorer.plan.vllm_version
    explorer.form.fields["vllm_version"].value = NEWEST

    assert "0.19.0" == planned
    assert NEWEST == explorer.header.release


@pytest.mark.parametrize(
    "message",
    [{}, {"move": "away"}, {"recipe": 99}, {"recipe": "0"}, {"release": "9.9"}],
)
def test_what_the_header_never_sends_changes_nothing(explorer, message) -> None:
    """Untrusted, as every message."""
    before = explorer.plan
    send(explorer, **message)

    assert before is explorer.plan
