"""Plans side by side: what differs in the question, and what in the answer."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner import PlannerError
from planner.engine.releases import NEWEST
from planner.show.charts.compared_bars import figure_spec
from planner.show.compared_plans import spoken, tables
from planner.show.verdict import missing_bytes
from planner.solve.comparing.comparison import Change, command_diff
from planner.units import GIB
from tests import plans

CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "max_model_len": st.sampled_from([2048, 8192, 131_072]),
        "kv_cache_dtype": st.sampled_from(["auto", "fp8"]),
        "gpu": st.sampled_from(["H100", "L4", "A100-40GB"]),
        "tensor_parallel_size": st.sampled_from([1, 2, 3, 16]),
        "enforce_eager": st.booleans(),
        "vllm_version": st.sampled_from(["0.32.0", NEWEST]),
    },
)


def everything() -> planner.Comparison:
    """One plan of each verdict."""
    return planner.compare(*(made() for made in plans.ALL))


def row(comparison: planner.Comparison, name: str):
    """Return the row of that name."""
    return next(row for row in comparison.rows if row.name == name)


def test_the_kv_cache_dtype_is_the_only_difference_and_doubles_the_tokens() -> None:
    """Two bytes an element become one: 394,080 tokens become 788,176."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100")
    compared = planner.compare(plan, plan.changed(kv_cache_dtype="fp8"))
    tokens = row(compared, "kv_cache_size_tokens")

    assert [found.name for found in compared.differences] == ["kv_cache_dtype"]
    assert ("kv_cache_dtype auto", "kv_cache_dtype fp8") == compared.names
    pair = 2 * tokens.values[0]  # and a block of 16 that only half a block had room for
    assert tokens.values[1] - pair in (0, 16)
    assert tokens.differences == (0, tokens.values[1] - tokens.values[0])


@given(changes=CHANGES)
def test_a_plan_compared_with_itself_has_no_differences(changes) -> None:
    """Neither in the inputs, nor in a figure, nor in the command."""
    plan = plans.fitting().changed(**changes)
    compared = planner.compare(plan, plan)

    assert compared.differences == ()
    assert all(row.is_same for row in compared.rows)
    assert all(not change for row in compared.rows for change in row.differences)
    assert all(diff.is_same for diff in compared.command_diff())


@given(one=CHANGES, other=CHANGES)
def test_what_was_changed_is_what_differs(one, other) -> None:
    """An input is named exactly when the two plans were given it differently."""
    plan = plans.fitting()
    compared = planner.compare(plan.changed(**one), plan.changed(**other))
    filled = {"gpu": "H100", "vllm_version": NEWEST}
    differing = {
        name
        for name in {*one, *other}
        if one.get(name, filled.get(name)) != other.get(name, filled.get(name))
    }

    assert differing == {found.name for found in compared.differences}


@given(one=CHANGES, other=CHANGES)
def test_the_changed_words_lead_from_one_command_to_the_other(one, other) -> None:
    """Without the added words it is the first, without the removed ones the other."""
    first = plans.fitting().changed(**one)
    second = plans.fitting().changed(**other)
    (diff,) = planner.compare(first, second).command_diff()

    def without(change: Change) -> str:
        return " ".join(word.text for word in diff.words if word.change is not change)

    assert first.command() == without(Change.ADDED)
    assert second.command() == without(Change.REMOVED)


def test_only_the_value_of_an_option_changes_when_its_value_does() -> None:
    """2 of tensor parallel is not taken for 2 of pipeline parallel."""
    diff = command_diff(
        ("A", "vllm serve m --tensor-parallel-size 2"),
        ("B", "vllm serve m --tensor-parallel-size 4 --pipeline-parallel-size 2"),
    )

    assert (
        "vllm serve m --tensor-parallel-size [-2-] {+4+} "
        "{+--pipeline-parallel-size+} {+2+}" == str(diff)
    )
    assert "<del>2</del> <ins>4</ins>" in diff.html()


def test_a_command_is_written_as_html_and_never_read_as_html() -> None:
    """A model's name may hold anything."""
    diff = command_diff(("A", "vllm serve '<b>'"), ("B", "vllm serve '<i>'"))

    assert "<del>&#x27;&lt;b&gt;&#x27;</del>" in diff.html()
    assert "<b>" not in diff.html()


def test_many_differences_are_named_by_letters() -> None:
    """A name above a bar must stay short."""
    plan = plans.fitting()
    changed = plan.changed(gpu="L4", max_model_len=4096, kv_cache_dtype="fp8")

    assert ("A", "B") == planner.compare(plan, changed).names
    assert ("H100", "L4") == planner.compare(plan, plan.changed(gpu="L4")).names
    assert ("old", "new") == planner.compare(plan, plan, names=["old", "new"]).names


def test_two_gpus_of_one_name_with_other_memory_differ() -> None:
    """A GPU whose total is given is not the catalogue's."""
    smaller = planner.GPU.named("H100", total_memory_bytes=60 * GIB)
    plan = plans.fitting()
    (found,) = planner.compare(plan, plan.changed(gpu=smaller)).differences

    assert ("H100 (79.19 GiB)", "H100 (60.00 GiB)") == found.values


def test_what_was_not_given_says_what_vllm_takes() -> None:
    """131,072 tokens is Llama's own length."""
    plan = plans.fitting()
    (found,) = planner.compare(plan, plan.changed(max_model_len=4096)).differences

    assert "131,072 (default)" == found.text(0)
    assert "4,096" == found.text(1)


@pytest.mark.parametrize(
    ("given_plans", "names", "words"),
    [
        ((), None, "1 to 8 plans; 0"),
        ((plans.fitting,) * 9, None, "planner.sweep"),
        ((plans.fitting,) * 2, ["a"], "2 different names"),
        ((plans.fitting,) * 2, ["a", "a"], "2 different names"),
    ],
)
def test_what_cannot_be_compared_says_what_can(given_plans, names, words) -> None:
    """One to eight plans, with a name each."""
    with pytest.raises(PlannerError, match=re.escape(words)):
        planner.compare(*(made() for made in given_plans), names=names)


def test_a_model_is_no_plan() -> None:
    """The error says how to make one."""
    with pytest.raises(PlannerError, match=r"planner\.plan"):
        planner.compare("Qwen/Qwen3-8B")  # type: ignore[arg-type]


def test_plain_values_hold_every_plan_and_can_be_written_as_json() -> None:
    """The plans are as the public contract has them."""
    compared = everything()
    told = json.loads(json.dumps(compared.to_dict()))

    assert [made().to_dict()["command"] for made in plans.ALL] == told["commands"]
    assert [made().fits for made in plans.ALL] == [p["fits"] for p in told["plans"]]
    assert list(compared.names) == told["names"]


def test_the_frame_has_plans_across_and_differences_beside_them() -> None:
    """One row per figure and line; the differences are to the first plan."""
    compared = planner.compare(plans.fitting(), plans.too_long())
    frame = compared.to_frame()

    assert ["H100", "L4", "L4 - H100"] == list(frame.columns)
    assert len(compared.rows) == len(frame)
    weights = frame.loc[("weights", "bytes")]
    assert weights["H100"] == weights["L4"]
    assert weights["L4 - H100"] == 0


def test_every_plan_has_a_bar_with_its_own_lines_budget_and_total() -> None:
    """Two lines a plan, one where nothing is allocated."""
    compared = everything()
    spec = figure_spec(compared)
    totals = [made().gpu.total_memory_bytes / GIB for made in plans.ALL]
    solid = [s["x0"] for s in spec["layout"]["shapes"] if s["line"]["dash"] == "solid"]
    dashed = [s for s in spec["layout"]["shapes"] if s["line"]["dash"] == "dash"]
    weights = next(trace for trace in spec["data"] if trace["name"] == "weights")

    assert solid == pytest.approx(totals, abs=0.001)
    assert 4 == len(dashed)
    assert [name for name in compared.names if name != "D"] == weights["y"]


def test_a_plan_that_does_not_fit_draws_what_is_missing() -> None:
    """Beyond the budget, as long as what one request lacks."""
    spec = figure_spec(planner.compare(plans.fitting(), plans.too_long()))
    missing = next(trace for trace in spec["data"] if trace["name"] == "missing")
    short = missing_bytes(plans.too_long(), plans.too_long().limiting_rank)

    assert missing["x"][0] is None
    assert missing["x"][1] == pytest.approx(short / GIB, abs=0.001)


def test_modelled_lines_are_hatched_in_every_bar() -> None:
    """As in the bars of one plan."""
    compared = planner.compare(plans.fitting(), plans.too_long())
    for trace in figure_spec(compared)["data"]:
        if trace["name"] == "weights":
            assert ["", ""] == trace["marker"]["pattern"]["shape"]
        if trace["name"] == "KV cache":
            assert "" not in trace["marker"]["pattern"]["shape"]


@pytest.mark.parametrize("count", [1, 2, 8])
def test_plotly_takes_the_figure(count) -> None:
    """From one plan to eight."""
    some = [plans.ALL[number % len(plans.ALL)]() for number in range(count)]
    figure = planner.compare(*some).figure()

    assert figure.layout.showlegend
    assert count == len(figure.layout.annotations)


def test_text_page_and_spoken_sentence_name_every_plan_and_verdict() -> None:
    """Nothing is said by colour alone."""
    compared = everything()
    bundle = compared._repr_mimebundle_()
    page = bundle["text/html"]

    for text in (str(compared), page, spoken(compared)):
        for outcome in ("fits", "does not fit", "refused"):
            assert outcome in text
    assert page.count("class='pl-bar'") == len(plans.ALL)
    assert bundle["text/plain"] == str(compared)


def test_names_from_users_are_text_in_page_and_chart() -> None:
    """A name is never read as HTML."""
    compared = planner.compare(plans.fitting(), plans.too_long(), names=["<b>", "x"])

    assert "<b><b>" not in tables(compared).to_html()
    assert "&lt;b>" in figure_spec(compared)["layout"]["annotations"][0]["text"]


def test_one_plan_alone_shows_its_command() -> None:
    """The first that is pinned has nothing to differ from."""
    page = tables(planner.compare(plans.fitting())).to_html()

    assert plans.fitting().command() in page
    assert "What differs" not in page


def test_what_is_the_same_in_all_is_there_to_be_opened():
    """Only what differs is worth a look at once."""
    plan = plans.fitting()
    compared = planner.compare(plan, plan.changed(kv_cache_dtype="fp8"))
    page = tables(compared).to_html()
    at_once, _, closed = page.partition("<details")

    assert "KV cache size, tokens" in at_once
    assert "weights" not in at_once
    assert "weights" in closed
    assert "KV cache size, tokens" not in closed
