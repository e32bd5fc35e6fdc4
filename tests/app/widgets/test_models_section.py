"""The section on models: what the GPU serves, beside the page; bounded input."""

import asyncio

import pytest

import planner
from planner import Load, solve
from planner.app.widgets import models_section
from planner.app.widgets.models_section import NO_LOAD, ModelsSection
from planner.errors import PlannerError
from planner.models import catalogue

LOAD = Load(prompt_tokens=15_000, output_tokens=1_000, requests=5)
NAMES = (
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-8B-FP8",
    "Qwen/Qwen3-32B",
    "google/gemma-3-4b-it",
    "Qwen/Qwen2.5-Coder-7B-Instruct",
)


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """A short catalogue to search."""
    entries = tuple(one for one in catalogue.popular() if one.name in NAMES)
    monkeypatch.setattr(catalogue, "popular", lambda: entries)
    return entries


@pytest.fixture(scope="module")
def plan():
    """A 5090, and a load."""
    return planner.plan("Qwen/Qwen3-4B", gpu="RTX5090", load=LOAD)


@pytest.fixture
def applied():
    """Receives what a press of Open changes."""
    return []


@pytest.fixture
def section(plan, applied):
    """Return the section, opened on the plan: the search has ended."""
    found = ModelsSection(applied.append)
    found.show(plan)
    found.turn(True)
    return found


def say(section, **message):
    """Send what a page would send."""
    section.table._on_message(section.table, message, [])


def names(section):
    """Return the models that are shown, without other formats."""
    return [one["name"] for one in section.table.rows]


def test_the_rows_are_the_models_that_python_finds(section):
    """Grouped by model, with what each holds of the load."""
    found = solve.models("RTX5090", 1, LOAD)

    assert [group[0].name for group in found.groups()] == names(section)
    eight = next(one for one in section.table.rows if one["name"] == "Qwen/Qwen3-8B")
    expected = next(one for one in found.found if one.name == "Qwen/Qwen3-8B")
    assert f"{expected.requests_held:,}" == eight["held"]
    assert ["Qwen/Qwen3-8B-FP8"] == [one["name"] for one in eight["others"]]
    assert section.table.answer.endswith(
        ": 3 models in 4 releases; 1 does not serve it"
    )
    assert ["Qwen/Qwen3-32B"] == [miss.split(":")[0] for miss in section.table.misses]


def test_a_row_opens_its_model_with_its_layout(section, applied, plan):
    """On two GPUs tensor parallel is part of the answer."""
    say(section, gpus="2")
    say(section, apply="Qwen/Qwen3-8B")

    changed = plan.changed(**applied[0])
    assert ("Qwen/Qwen3-8B", 2) == (changed.name, changed.gpus_total)
    assert changed.serving.is_served


def test_kind_size_and_order_choose_without_planning_again(section):
    """Of what has been planned; strange values do nothing."""
    search = section._search
    say(section, kind="vision")
    assert ["google/gemma-3-4b-it"] == names(section)
    say(section, kind="code")
    assert ["Qwen/Qwen2.5-Coder-7B-Instruct"] == names(section)
    say(section, kind="")
    say(section, size="9B")
    say(section, order="parameters")
    sizes = [float(one["size"].split()[0]) for one in section.table.rows]
    assert sorted(sizes, reverse=True) == sizes
    for said in ({"kind": "best"}, {"size": 9}, {"order": "quality"}, {"gpus": "3"}):
        say(section, **said)
    assert ("", "9B", "parameters", "1") == (
        *(section.table.kind, section.table.size),
        *(section.table.order, section.table.gpus),
    )
    assert search is section._search


def test_nothing_is_searched_while_it_is_closed(plan):
    """The page's other controls stay as fast."""
    section = ModelsSection(print)
    section.show(plan)

    assert () == section.children
    assert [] == section.table.rows


def test_another_gpu_is_searched_anew_another_model_is_not(section, plan):
    """Opening a row leaves the list as it is, and marks the row."""
    search = section._search
    section.show(plan.changed(model="Qwen/Qwen3-8B"))
    assert search is section._search
    assert "Qwen/Qwen3-8B" == section.table.current

    section.show(plan.changed(gpu="RTX3090", tensor_parallel_size=4))
    assert search is not section._search
    assert "4" == section.table.gpus
    section.show(plan.changed(gpu="RTX3090", pipeline_parallel_size=3))
    assert ["1", "2", "3", "4", "8"] == section.table.counts


def test_without_a_load_it_says_what_to_do(section):
    """There is nothing that a model could serve."""
    section.show(planner.plan("Qwen/Qwen3-4B", gpu="RTX5090"))

    assert (NO_LOAD, []) == (section.table.note, section.table.rows)


def test_rows_of_an_earlier_question_cannot_be_opened(section, applied):
    """The list is marked and stays."""
    section.pause()
    say(section, apply="Qwen/Qwen3-8B")

    assert section.table.is_stale
    assert [] == applied


def test_it_runs_beside_the_page_and_can_be_cancelled(plan):
    """On an event loop: rows come before the end, and none after Cancel."""

    async def use() -> ModelsSection:
        section = ModelsSection(print)
        section._slices.seconds, section._later.seconds = 0.0, 0.0
        section.show(plan)
        section.turn(True)
        while not section.table.rows:
            section._drawn_at = 0.0
            await asyncio.sleep(0.001)
        say(section, cancel=True)
        return section

    section = asyncio.run(use())
    assert not section.is_searching
    assert section.table.remarks[0].startswith("Cancelled after ")
    assert section.table.progress == 1.0


def test_a_search_that_fails_says_so(section, plan, monkeypatch):
    """An expected error in its own words, any other as the planner's own."""

    def refuse(*_asked):
        raise PlannerError("no such GPU")

    section._failed(ZeroDivisionError())
    assert "Something went wrong in the planner itself" in section.table.note
    monkeypatch.setattr(models_section, "page_search", refuse)
    section.show(plan.changed(gpu="L4"))
    assert "no such GPU" == section.table.note
