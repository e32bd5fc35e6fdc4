"""Advice as a page shows it: deciding columns first, five changes open."""

import re

import pytest

import planner
from planner.show.advice import FOLDED_FROM, advice_dict, heading, sheet

_LOAD = planner.Load(prompt_tokens=30_000, output_tokens=2_768, requests=20)


@pytest.fixture(scope="module")
def advice():
    """One H100 that serves 1 of 20."""
    return planner.advise(planner.plan("Qwen/Qwen3-32B", gpu="H100", load=_LOAD))


def test_change_result_and_price_are_the_columns(advice):
    """In this order; the command line stands with its change."""
    html = sheet(advice).to_html()
    heads = re.findall(r"<th scope='col'>(.*?)</th>", html)
    assert heads[:3] == ["Change", "Result", "Price"]
    item = next(item for item in advice.offered if item.flags)
    row = html[html.index(item.title) :]
    assert row.index(item.flags) < row.index("serves")


def test_five_changes_are_open_and_the_rest_folds_with_its_count(advice):
    """The best first; the fold says how many of each class are in it."""
    html = sheet(advice).to_html()
    first, _, folded = html.partition("<details")
    rows = [part.count("<th scope='row'>") for part in (first, folded)]
    assert rows == [FOLDED_FROM, len(advice.offered) - FOLDED_FROM]
    assert advice.best.title in first
    summary = re.search(r"<summary>(.*?)</summary>", html)[1]
    assert summary.startswith(f"{len(advice.offered) - FOLDED_FROM} more: ")
    counts = [int(number) for number in re.findall(r"\d+", summary)]
    assert counts[0] == sum(counts[1:])


def test_a_short_answer_is_not_folded():
    """DeepSeek-V3 on an L40S has few remedies."""
    advice = planner.advise(planner.plan("deepseek-ai/DeepSeek-V3", gpu="L40S"))
    assert 0 < len(advice.offered) <= FOLDED_FROM
    assert "<details" not in sheet(advice).to_html()


def test_every_form_names_the_class_of_each_change(advice):
    """Text and page by headings, JSON and frame in a column."""
    text = str(advice)
    assert "Best answer: try your prompts first:" in text
    assert "\nMore hardware:" in text
    assert "\nNot enough alone: little loss:" in text
    html = sheet(advice).to_html()
    for item in advice.offered:
        assert f"<b>{heading(advice, item)}</b> <span>{item.cost_class.rule}" in html
    classes = {one["title"]: one["class"] for one in advice_dict(advice)["items"]}
    assert classes == {item.title: str(item.cost_class) for item in advice.items}
    assert list(advice.to_frame()["class"]) == [
        str(item.cost_class) for item in (*advice.items, *advice.combinations)
    ]


def test_json_has_the_groups_with_their_rules(advice):
    """Each title of the advice in one group, under the sentence of its class."""
    shown = advice_dict(advice)
    titles = [title for group in shown["groups"] for title in group["titles"]]
    assert sorted(titles) == sorted(item.title for item in advice.offered)
    assert shown["best"] == advice.best.title
    rules = {group["class"]: group["rule"] for group in shown["groups"]}
    assert rules["more hardware"] == "More GPUs, or other ones."


def test_the_sentence_before_the_changes_counts_the_load(advice):
    """Without a load it counts the longest requests."""
    assert "Serves 1 of 20 requests of 32,768 tokens at once" in sheet(advice).to_html()
    plain = planner.advise(planner.plan("Qwen/Qwen3-32B", gpu="H100"))
    assert "Counted in requests of 40,960 tokens at once: 0 before" in str(plain)
