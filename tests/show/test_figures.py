"""The key figures: which are there, and what they say."""

from dataclasses import replace

import pytest

import planner
from planner import Load
from planner.planning.result import Plan
from planner.show.certainty import certainty_html
from planner.show.figures import key_figures, start_figures
from planner.show.page import plan_html
from planner.show.plan_text import plan_text
from planner.show.tables import figures_html
from planner.show.verdict import verdict, verdict_text
from tests import plans

QWEN = "Qwen/Qwen3-8B"


def _shown(plan: Plan) -> dict[str, str]:
    return {figure.name: figure.text for figure in key_figures(plan)}


def test_without_room_for_weights_no_figure_of_a_cache_is_shown() -> None:
    """131 GiB of weights on 22 GiB: neither "-112.92 GiB" nor "0.00x"."""
    figures = key_figures(plans.too_large())

    assert [(one.name, one.text, one.detail) for one in figures] == [
        ("Available KV cache", "none", "weights do not fit")
    ]
    assert "<dd>-" not in figures_html(plans.too_large())


def test_weights_alone_fit_and_nothing_is_left_for_a_cache() -> None:
    """What the others take too much is said in place of a negative figure."""
    plan = planner.plan(QWEN, gpu="L4", gpu_memory_utilization=0.7)
    rank = plan.limiting_rank
    assert rank is not None
    assert rank.available_kv_cache_bytes < 0

    (figure,) = key_figures(plan)
    assert (figure.text, figure.detail) == ("none", "short by 1.23 GiB")


def test_a_range_that_begins_below_nothing_begins_with_none() -> None:
    """A KV cache is not negative."""
    plan = planner.plan(QWEN, gpu="L4", gpu_memory_utilization=0.8)

    available = key_figures(plan)[0]
    assert available.detail == "none to 1.19 GiB"
    assert "Available KV cache:    0.97 GiB (none to 1.19 GiB)" in plan_text(plan)


def test_a_refused_length_has_no_concurrency() -> None:
    """vLLM takes no request of that length; the longest is the model's own."""
    plan = plans.refused_for_its_length()

    assert "Maximum concurrency" not in _shown(plan)
    assert _shown(plan)["Longest max_model_len"] == "131,072"
    assert key_figures(plan)[-1].detail == "tokens that fit"


@pytest.mark.parametrize("plan", [plans.refused(), plans.refused_for_its_length()])
def test_a_refusal_gives_vllms_reason_in_its_first_line(plan: Plan) -> None:
    """Not a margin without its number: the headline is the reason."""
    assert plan.error is not None
    reason = plan.error.message.partition(" (")[0]

    answer = verdict(plan)
    assert answer.headline.startswith(f"vLLM refuses: {reason}")
    assert answer.sentence == "vLLM stops before it loads anything."
    assert reason in plan_text(plan).splitlines()[1]


def test_what_vllm_puts_in_long_brackets_is_left_to_its_message() -> None:
    """The derived length is said with where it comes from; the headline is short."""
    assert verdict(plans.refused_for_its_length()).headline == (
        "vLLM refuses: User-specified max_model_len (200000) is greater than the "
        "derived max_model_len"
    )


def test_what_is_missing_for_weights_is_not_called_a_cache() -> None:
    """The bar shows the same number as missing."""
    assert verdict_text(plans.too_large()).endswith(
        ": 152.93 GiB missing for the weights and one request of 131,072 tokens"
    )


def test_starts_are_told_apart_only_where_their_verdict_differs() -> None:
    """Qwen3-8B on an L4 starts either way; with a longer request, later ones only."""
    alike = planner.plan(QWEN, gpu="L4", max_model_len=16_384)
    apart = planner.plan(QWEN, gpu="L4", max_model_len=22_000)

    assert len(alike.alternatives) == 2
    assert "First start" not in _shown(alike)
    assert "First start" in _shown(apart)
    assert [one.starts for one in apart.alternatives] == [False, True]


def test_starts_are_told_apart_where_one_does_not_hold_the_load() -> None:
    """Both start; at the low end, only a later one holds what is asked."""
    load = Load(prompt_tokens=3_000, output_tokens=1_096, requests=6)
    apart = planner.plan(QWEN, gpu="L4", load=load)
    lighter = planner.plan(QWEN, gpu="L4", load=replace(load, requests=1))

    assert {one.starts for one in apart.alternatives} == {True}
    assert "First start" in _shown(apart)
    assert "First start" not in _shown(lighter)


def test_the_sizes_of_both_starts_are_under_how_sure_is_this() -> None:
    """Whatever the verdict; and in the text of a plan."""
    plan = planner.plan(QWEN, gpu="L4", max_model_len=16_384)

    for figure in start_figures(plan):
        said = f"{figure.name}: {figure.text} {figure.detail}."
        assert said in certainty_html(plan)
    assert "First start:" in plan_text(plan)


def test_where_the_config_comes_from_is_under_how_sure_is_this() -> None:
    """It is no caution about the start: beside the verdict it hides those that are."""
    plan = planner.plan("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", gpu="H100")
    said = "The config of deepseek-ai/DeepSeek-R1-Distill-Llama-70B is another"
    assert any(note.startswith(said) for note in plan.notes)

    assert said in certainty_html(plan)
    assert plan_html(plan).count(said) == 1
    assert f"Note: {said}" in plan_text(plan)
