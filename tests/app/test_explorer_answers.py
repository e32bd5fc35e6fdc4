"""The explorer's answers: advice to apply, pins to compare, links and files to take."""

from typing import Any

import pytest

import planner
from planner.app.widgets.actions import ActionList
from planner.app.widgets.callbacks import Later
from planner.app.widgets.explorer import Explorer
from planner.app.widgets.export_section import FORMATS
from planner.app.widgets.results import SpeedSection
from planner.app.widgets.section import Section
from tests import plans


@pytest.fixture
def explorer() -> Explorer:
    """Llama-3.1-8B with its whole length on an L4, where it does not fit."""
    return Explorer(plans.LLAMA_8B, "L4")


def press(part: ActionList, action: str, key: str) -> None:
    """Press a button as a page does."""
    part._handle_custom_msg({"press": action, "row": key}, [])


def titles(part: ActionList) -> list[str]:
    """What the rows are called."""
    return [row["title"] for row in part.rows]


# Advice


def test_the_list_is_the_advice_for_the_plan_on_the_screen(explorer) -> None:
    """Title by title, the best first; not what does not make it start."""
    offered = planner.advise(explorer.plan).offered
    starting = [item.title for item in offered if item.starts]

    assert 0 < len(starting) < len(offered)
    assert starting == titles(explorer.results.advice)
    assert offered


def test_two_changes_together_come_first_where_no_single_one_suffices() -> None:
    """A 70B model on two GPUs that are a quarter full."""
    full = planner.GPU.named("H100", free_memory_bytes=60 * 2**30)
    plan = planner.plan(
        "meta-llama/Llama-3.1-70B-Instruct", gpu=full, tensor_parallel_size=2
    )
    explorer = plan.explore()
    advice = planner.advise(plan)
    first = explorer.results.advice.rows[0]
    press(explorer.results.advice, "apply", first["key"])

    assert advice.best is advice.pair
    assert advice.pair.title == first["title"]
    assert first["group"].startswith("Best answer: ")
    assert explorer.plan.fits


def test_apply_gives_the_plan_that_the_advice_promised(explorer) -> None:
    """The controls move, and the plan is the promised one."""
    best = planner.advise(explorer.plan).items[0]
    press(explorer.results.advice, "apply", "0")

    assert best.plan.command() == explorer.plan.command()
    assert best.plan.max_concurrency == explorer.plan.max_concurrency
    assert explorer.plan.fits


def test_every_advice_can_be_applied() -> None:
    """Those for arguments without a control, another model or another GPU too."""
    explorer = Explorer("HuggingFaceTB/SmolLM3-3B", "L4")
    offered = planner.advise(explorer.plan).offered
    for index, item in enumerate(offered):
        press(explorer.results.advice, "apply", str(index))
        assert item.plan.command() == explorer.plan.command()
        assert item.plan.gpu.name == explorer.plan.gpu.name
        press(explorer.results.advice, "undo", "undo")


def test_an_estimated_checkpoint_can_be_applied() -> None:
    """Its name goes into the model's field, and nothing is read from the Hub."""
    explorer = Explorer("microsoft/phi-4", "L4")
    offered = planner.advise(explorer.plan).offered
    index, item = next((i, one) for i, one in enumerate(offered) if one.is_estimated)
    press(explorer.results.advice, "apply", str(index))

    assert item.plan.command() == explorer.plan.command()
    assert item.changes["model"] == explorer.form.model.value


def test_what_was_applied_can_be_taken_back(explorer) -> None:
    """All controls are as they were."""
    before = explorer.plan
    press(explorer.results.advice, "apply", "0")
    assert titles(explorer.results.advice)[0].startswith("Applied: ")
    press(explorer.results.advice, "undo", "undo")

    assert before == explorer.plan
    assert not titles(explorer.results.advice)[0].startswith("Applied: ")


def test_a_control_that_moves_ends_the_chance_to_take_back(explorer) -> None:
    """Going back would lose what was set since."""
    press(explorer.results.advice, "apply", "0")
    explorer.form.fields["dtype"].value = "float16"

    assert not titles(explorer.results.advice)[0].startswith("Applied: ")


@pytest.mark.parametrize(
    "sent", [{"press": "apply", "row": "99"}, {"press": "apply"}, "apply", None, {}]
)
def test_what_is_no_press_of_a_button_changes_nothing(explorer, sent) -> None:
    """A page can send anything."""
    before = explorer.plan
    explorer.results.advice._handle_custom_msg(sent, [])

    assert before is explorer.plan


# Further arguments


def test_every_argument_of_a_plan_stands_in_a_control() -> None:
    """Those that decide nothing about memory too; nothing is left over."""
    explorer = planner.plan(plans.LLAMA_8B, block_size=32, seed=1).explore()
    block_size = explorer.form.fields["block_size"]
    before = block_size.value
    block_size.put(None)

    assert "32" == before
    assert "1" == explorer.form.fields["seed"].value
    assert [] == explorer.further.rows
    assert explorer.plan.settings.block_size is None


def test_a_variable_is_listed_and_can_be_removed() -> None:
    """Under its own name."""
    env = {"VLLM_USE_FLASHINFER_SAMPLER": "0"}
    explorer = planner.plan(plans.LLAMA_8B, env=env).explore()
    assert ["VLLM_USE_FLASHINFER_SAMPLER=0"] == titles(explorer.further)
    press(explorer.further, "remove", "env:VLLM_USE_FLASHINFER_SAMPLER")

    assert explorer.plan.env == ()


# Sections


def opened(section: Section) -> Any:
    """Open a section of the page."""
    section.turn(True)
    return section


@pytest.mark.parametrize("sent", [{}, {"format": "shell"}, {"format": 1}, "yaml", None])
def test_a_format_that_there_is_not_changes_nothing(explorer, sent) -> None:
    """A message is untrusted."""
    view = opened(explorer.results.export).view
    before = view.html
    view._handle_custom_msg(sent, [])

    assert (view.chosen, view.html) == ("link", before)


def test_a_panel_is_written_when_it_is_opened(explorer) -> None:
    """Closed, it is its title and the figure that it explains."""
    panels, shown = explorer.results.panels, explorer.results.answer
    assert "panel-kv-cache" not in shown.parts
    explorer.results.tabs.choose("memory")
    assert "2,061 blocks" in shown.parts["panel-kv-cache"]
    assert "FullAttentionSpec" not in shown.parts["panel-kv-cache"]
    panels._handle_custom_msg({"panel": "kv-cache", "open": True}, [])
    assert "FullAttentionSpec" in shown.parts["panel-kv-cache"]
    panels._handle_custom_msg({"panel": "kv-cache", "open": False}, [])

    assert "FullAttentionSpec" not in shown.parts["panel-kv-cache"]


@pytest.mark.parametrize(
    "sent", [{"panel": "x", "open": True}, {"panel": "kv-cache"}, [], None]
)
def test_a_message_that_opens_no_panel_changes_nothing(explorer, sent) -> None:
    """Untrusted, too."""
    before = explorer.results.answer.parts
    explorer.results.panels._handle_custom_msg(sent, [])

    assert before == explorer.results.answer.parts


# Tabs


def test_only_the_open_tab_is_computed(explorer, monkeypatch) -> None:
    """A step of a slider advises, compares and bounds nothing that is not seen."""
    computed: list[str] = []
    real = {"advice": explorer.results.advice.show, "speed": SpeedSection.refresh}
    monkeypatch.setattr(
        explorer.results.advice,
        "show",
        lambda *given, **named: (
            computed.append("advice") or real["advice"](*given, **named)
        ),
    )
    monkeypatch.setattr(
        SpeedSection,
        "refresh",
        lambda section: computed.append("speed") or real["speed"](section),
    )
    explorer.form.fields["max_model_len"].value = "4096"
    explorer.results.tabs.choose("speed")
    explorer.form.fields["max_model_len"].value = "8192"

    assert ["advice", "speed", "speed"] == computed
    assert "The speed depends on the load" in explorer.results.speed.view.value
    assert "panel-memory" not in explorer.results.answer.parts


def test_a_tab_shows_the_plan_on_the_screen_when_it_is_opened(explorer) -> None:
    """What changed while it was closed counts."""
    explorer.results.tabs._handle_custom_msg({"tab": "memory"}, [])
    before = explorer.results.answer.parts["panel-memory"]
    explorer.results.tabs._handle_custom_msg({"tab": "advice"}, [])
    explorer.form.fields["gpu"].value = "H100"
    offered = planner.advise(explorer.plan).offered
    explorer.results.tabs._handle_custom_msg({"tab": "memory"}, [])

    assert before != explorer.results.answer.parts["panel-memory"]
    assert offered[0].title == titles(explorer.results.advice)[0]
    assert len(offered) == len(explorer.results.advice.rows)


@pytest.mark.parametrize("sent", [{"tab": "nowhere"}, {"tab": 1}, "memory", None])
def test_a_message_that_opens_no_tab_changes_nothing(explorer, sent) -> None:
    """Untrusted, too."""
    explorer.results.tabs._handle_custom_msg(sent, [])

    assert "advice" == explorer.results.tabs.chosen


# Pins


def test_a_pinned_plan_is_compared_with_what_comes_after(explorer) -> None:
    """Two bars, and the flag that differs."""
    pins = opened(explorer.results.pins)
    press(pins.list, "pin", "now")
    explorer.form.fields["kv_cache_dtype"].value = "fp8"

    assert pins.chart.figure["data"]
    assert "now" in pins.chart.label
    assert "--kv-cache-dtype" in pins.table.value


def test_a_pinned_plan_can_be_opened_again_and_removed(explorer) -> None:
    """Opening sets all controls."""
    pinned = explorer.plan
    pins = opened(explorer.results.pins)
    press(pins.list, "pin", "now")
    explorer.form.fields["kv_cache_dtype"].value = "fp8"
    press(pins.list, "open", "A")
    assert pinned == explorer.plan
    press(pins.list, "remove", "A")

    assert ["The plan on the screen"] == titles(pins.list)
    assert pins.chart not in pins.children


def test_no_more_plans_are_pinned_than_can_be_told_apart(explorer) -> None:
    """The row that pins one more goes away; a press that comes late does nothing."""
    pins = opened(explorer.results.pins)
    for length in range(1024, 1024 * 9, 1024):
        explorer.form.fields["max_model_len"].value = str(length)
        press(pins.list, "pin", "now")

    assert 5 == len(pins.list.rows)
    assert "The plan on the screen" not in titles(pins.list)


# Links


def test_the_address_follows_the_plan_and_opens_it_again(explorer) -> None:
    """What the address says is the whole plan."""
    explorer.form.fields["max_model_len"].value = "4096"
    other = Explorer()
    other.header._handle_custom_msg({"opened": explorer.header.query}, [])

    assert explorer.plan.command() == other.plan.command()
    assert explorer.plan.gpu == other.plan.gpu
    assert explorer.header.query == other.header.query


def test_a_link_says_what_was_not_taken_from_it() -> None:
    """And opens the rest; markup stays text."""
    explorer = Explorer()
    link = "?model=Qwen/Qwen3-8B&gpu=L4&<b>colour</b>=red"
    explorer.header._handle_custom_msg({"opened": link}, [])

    assert ("Qwen/Qwen3-8B", "L4") == (explorer.plan.name, explorer.plan.gpu.name)
    assert "colour" in explorer.results.answer.alert
    assert "<b>" not in explorer.results.answer.alert


@pytest.mark.parametrize("sent", ["", "?", "?model=/etc/passwd", "?gpu=%00&gpu=L4"])
def test_a_link_that_says_nothing_usable_opens_the_default_plan(sent) -> None:
    """Never a folder of the machine that serves the page."""
    explorer = Explorer()
    before = explorer.plan.name
    explorer.header._handle_custom_msg({"opened": sent}, [])

    assert before == explorer.plan.name
    assert explorer.plan.gpu.name in ("H100", "L4")


def test_a_plan_of_a_folder_has_no_link(tmp_path) -> None:
    """Another machine does not have the folder; everything else works."""
    config = planner.plan(plans.LLAMA_8B).model
    explorer = Explorer(plans.LLAMA_8B)
    shown = explorer.header.query
    explorer._show(planner.plan(config).changed(model=_folder(tmp_path)))

    assert shown
    assert "" == explorer.header.query


def _folder(tmp_path) -> str:
    (tmp_path / "config.json").write_text(
        '{"architectures": ["LlamaForCausalLM"], "model_type": "llama",'
        '"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,'
        '"num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 256,'
        '"max_position_embeddings": 2048, "torch_dtype": "bfloat16"}'
    )
    return str(tmp_path)


# Take-away


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_is_written_for_the_plan(explorer, name) -> None:
    """With a button that copies it, or a file to download."""
    section = opened(explorer.results.export)
    section.view._handle_custom_msg({"format": name}, [])

    assert name == section.view.chosen
    assert "role='alert'" not in section.view.html
    assert "data-copy" in section.view.html or "download=" in section.view.html


def test_what_is_taken_away_follows_the_controls(explorer) -> None:
    """As long as the tab is open."""
    section = opened(explorer.results.export)
    section.choose("yaml")
    explorer.form.fields["max_model_len"].value = "4096"
    assert "4096" in section.view.html
    section.turn(False)
    explorer.form.fields["max_model_len"].value = "8192"

    assert "8192" not in section.view.html


# Later


async def _quickly(later: Later, done: list[int]) -> None:
    for number in range(3):
        later.run(lambda number=number: done.append(number))


def test_only_the_newest_of_many_jobs_is_done() -> None:
    """Moving a slider plans often and advises once."""
    import asyncio

    done: list[int] = []

    async def user() -> None:
        await _quickly(Later(0.01), done)
        assert [] == done
        await asyncio.sleep(0.2)

    asyncio.run(user())

    assert [2] == done


def test_without_a_loop_the_job_is_done_at_once() -> None:
    """As in a script."""
    done: list[int] = []
    Later(10).run(lambda: done.append(1))

    assert [1] == done
