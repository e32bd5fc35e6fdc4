"""The slider of a lesson: a plan for each value, and a page that needs no kernel."""

from __future__ import annotations

import json
import re

import pytest

from planner import plan
from planner.errors import PlannerError
from planner.learn import slide
from planner.learn.slide import MOST_VALUES, Slider
from planner.units import format_gib

DESK = ("Qwen/Qwen3-8B", "L4")
LENGTHS = (4096, 8192, 32768)


def _state(slider: Slider) -> dict[str, object]:
    html = slider._repr_mimebundle_()["text/html"]
    found = re.search(r"<script type='application/json'>(.*?)</script>", html, re.S)
    assert found is not None
    state: dict[str, object] = json.loads(found[1])
    return state


def test_each_value_has_the_plan_of_that_value() -> None:
    """The slider plans nothing by itself: it is what `planner.plan` returns."""
    slider = slide(*DESK, vary="max_model_len", values=LENGTHS, max_num_seqs=16)

    expected = [plan(*DESK, max_model_len=one, max_num_seqs=16) for one in LENGTHS]
    assert expected == list(slider.plans)


@pytest.mark.parametrize(
    ("vary", "given", "start"),
    [
        ("max_model_len", {"max_model_len": 8192}, 8192),
        ("gpu_memory_utilization", {"max_model_len": 8192}, 0.92),
        ("gpu_memory_utilization", {"gpu_memory_utilization": 0.8}, 0.8),
        ("max_num_seqs", {}, 256),
        ("tensor_parallel_size", {}, 1),
    ],
)
def test_it_starts_from_the_value_that_is_given_or_vllms_default(
    vary: str, given: dict[str, object], start: object
) -> None:
    """Without a value, a reader starts where vLLM does."""
    slider = slide(*DESK, vary=vary, **given)

    assert start == slider.values[slider.start]


def test_without_values_a_length_goes_up_to_the_models() -> None:
    """Powers of two, and the length of the model at the end."""
    assert (1024, 2048, 4096, 8192, 16384, 32768, 40960) == slide(*DESK).values


def test_a_model_and_a_gpu_can_vary_too() -> None:
    """Whatever `planner.plan` takes by name."""
    slider = slide("Qwen/Qwen3-8B", vary="gpu", values=("L4", "H100"))

    assert ["L4", "H100"] == [one.gpu.name for one in slider.plans]


@pytest.mark.parametrize("count", [0, 1, MOST_VALUES + 1])
def test_it_takes_some_values(count: int) -> None:
    """One value is no slider, and thousands are too much for a page."""
    with pytest.raises(PlannerError, match=f"2 to {MOST_VALUES} values"):
        slide(*DESK, vary="max_num_seqs", values=range(1, count + 1))


def test_an_argument_without_usual_values_needs_them() -> None:
    """No value is guessed."""
    with pytest.raises(PlannerError, match="Name the values of block_size"):
        slide(*DESK, vary="block_size")


def test_the_page_has_what_the_planner_says_of_each_value() -> None:
    """Each text is in the page once, whichever plans have it."""
    slider = slide(*DESK, values=LENGTHS)
    state = _state(slider)
    texts = state["texts"]

    assert isinstance(texts, list)
    assert len(set(texts)) == len(texts)
    for one, frame in zip(slider.plans, state["frames"], strict=True):  # type: ignore[call-overload]
        rank = one.limiting_rank
        assert rank is not None
        lines = {name: (size, texts[why]) for name, size, why in frame["lines"]}
        line = rank.line("KV cache")
        assert (format_gib(line.size_bytes), line.why) == lines["KV cache"]
        assert f"{one.kv_cache_size_tokens:,}" in texts[frame["figures"]]
    assert "Does not fit" in texts[state["frames"][-1]["verdict"]]  # type: ignore[index]


def test_refused_settings_are_a_value_too() -> None:
    """A refusal has no lines; the slider shows vLLM's words."""
    refused = slide(*DESK, vary="tensor_parallel_size", values=(2, 3))
    last = _state(refused)["frames"][-1]  # type: ignore[index]

    assert re.search(r"✘ vLLM refuses these settings +- +- +-$", str(refused))
    assert [] == last["lines"]


def test_without_scripts_there_is_a_table() -> None:
    """A code host takes scripts out of what it shows."""
    html = slide(*DESK, values=LENGTHS)._repr_mimebundle_()["text/html"]
    text = slide(*DESK, values=LENGTHS)._repr_mimebundle_()["text/plain"]

    fallback = html.partition("<script")[0]
    assert 3 == fallback.count("<th scope='row'>")
    assert 4 == len(text.splitlines())
    assert "8,192" in fallback
    assert "8,192" in text


def test_a_page_of_its_own_loads_nothing() -> None:
    """It can be shown in a room without a network."""
    html = slide(*DESK, values=LENGTHS).to_html()

    assert html.startswith("<!doctype html>")
    assert not re.search(r"<(?:link|img|iframe)|\ssrc=|@import|url\(http", html)
    assert 2 == html.count("</script>")
