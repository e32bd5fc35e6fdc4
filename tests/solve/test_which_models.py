"""Which models a GPU serves: each as its own plan says, filtered and grouped."""

import pytest

import planner
from planner import Load, PlannerError, solve
from planner.models import catalogue
from planner.planning.inputs import Inputs
from planner.planning.serving import serve
from planner.solve.which_models import ModelSearch

FIVE = Load(prompt_tokens=15_000, output_tokens=1_000, requests=5)


@pytest.fixture(scope="module")
def found():
    """Five people at 16,000 tokens on one RTX 5090, with models named so."""
    return solve.models("RTX5090", load=FIVE, search="qwen3-8b")


def test_each_is_what_its_own_plan_says(found):
    """Served or not, how many it holds, and the longest request."""
    names = {one.name for one in catalogue.search("qwen3-8b", limit=1000)}

    assert names == {one.name for one in (*found.found, *found.others)}
    for one in (*found.found, *found.others):
        own = serve(Inputs(model=one.name, gpu="RTX5090"), FIVE)
        assert own.is_served == one.is_served
        assert own.requests_held == one.requests_held
        assert own.plan.max_model_len_that_fits == one.longest_context
        assert bool(one.why) == (not one.is_served)
    for one in found.found:
        bound = planner.speed_bound(one.plan, FIVE)
        assert bound.total_at_most_tokens_per_second == one.at_most_tokens_per_second


def test_formats_of_a_model_are_one_group_with_the_most_bits_first(found):
    """16 bits before 8 before 4; a model with another name is its own."""
    groups = {group[0].model: group for group in found.groups()}
    formats = [one.format for one in groups["qwen3-8b"]]

    assert "bfloat16" == formats[0]
    assert formats.index("FP8") < formats.index("AWQ")
    assert {"qwen3-8b-base", "deepseek-r1-0528-qwen3-8b"} <= set(groups)
    assert len(found.found) == sum(map(len, found.groups()))


def test_several_gpus_serve_what_one_does_not():
    """32 billion parameters in 16 bits take 61 GiB: three RTX 3090 have 72, four 96."""
    load = Load(prompt_tokens=3000, output_tokens=1000, requests=5)
    one = solve.models("RTX3090", load=load, search="Qwen/Qwen3-32B")
    four = solve.models("RTX3090", 4, load=load, search="Qwen/Qwen3-32B")
    names = {fit.name for fit in four.found}

    assert "Qwen/Qwen3-32B" in names - {fit.name for fit in one.found}
    assert {4} == {fit.plan.gpus_total for fit in four.found}


@pytest.mark.parametrize(
    ("kind", "has", "lacks"),
    [
        ("chat", "Qwen/Qwen2.5-Coder-7B-Instruct", "Qwen/Qwen2.5-Coder-7B"),
        ("code", "Qwen/Qwen2.5-Coder-7B", "Qwen/Qwen2.5-7B-Instruct"),
        ("vision", "Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("embedding", "Qwen/Qwen3-Embedding-8B", "Qwen/Qwen3-8B"),
        ("text", "Qwen/Qwen3-8B", "Qwen/Qwen3-Embedding-8B"),
    ],
)
def test_a_kind_is_told_by_the_name_and_by_what_vllm_builds(kind, has, lacks):
    """Models that are not of the kind are in neither list."""
    listed = {"Qwen/Qwen2.5": "qwen2.5 7b", "Qwen/Qwen3": "qwen3 8b"}
    words = next(text for name, text in listed.items() if has.startswith(name))
    load = Load(prompt_tokens=500, output_tokens=10)
    answer = solve.models("H200", load=load, kind=kind, search=words)
    names = {one.name for one in (*answer.found, *answer.others)}

    assert has in names
    assert lacks not in names
    assert all(kind in one.kinds for one in answer.found)


def test_a_model_whose_base_is_listed_too_is_tuned():
    """Qwen3-8B has no word for it, beside Qwen3-8B-Base."""
    load = Load(prompt_tokens=500, output_tokens=10)
    answer = solve.models("H200", load=load, kind="chat", search="Qwen/Qwen3-8B")
    names = {one.name for one in answer.found}

    assert "Qwen/Qwen3-8B" in names
    assert "Qwen/Qwen3-8B-Base" not in names


@pytest.mark.parametrize("order", ["downloads", "parameters", "requests", "speed"])
def test_the_order_is_by_facts(order):
    """The most of it first."""
    load = Load(prompt_tokens=500, output_tokens=10)
    answer = solve.models(
        "L4", load=load, order=order, search="qwen3", at_most_parameters=2e9
    )
    values = {
        "downloads": [one.entry.num_downloads or 0 for one in answer.found],
        "parameters": [one.entry.num_parameters for one in answer.found],
        "requests": [one.requests_held for one in answer.found],
        "speed": [one.at_most_tokens_per_second or 0 for one in answer.found],
    }[order]

    assert len(values) > 3
    assert sorted(values, reverse=True) == values
    assert all(one.entry.num_parameters <= 2e9 for one in answer.others)


def test_what_is_too_large_in_any_format_is_not_planned():
    """A trillion parameters of 3.6 bits are 450 GB; it would not have served."""
    answer = solve.models("L4", load=FIVE, search="kimi k2")

    assert () == answer.found
    assert {None} == {one.plan for one in answer.others if "any format" in one.why}
    for one in answer.others:
        if "any format" in one.why:
            assert not serve(Inputs(model=one.name, gpu="L4"), FIVE).is_served


def test_a_page_draws_between_two_models():
    """The most used first."""
    entries = catalogue.search("qwen3-4b")[:3]
    search = ModelSearch.of("L4", 1, FIVE, entries=entries)
    seen = [len(search.found) for _ in search.steps()]

    assert [1, 2, 3] == seen


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"kind": "poems"}, "kind='poems': use one of text, chat"),
        ({"order": "best"}, "order='best': use one of downloads"),
        ({"gpus": 0}, "gpus=0"),
        ({"load": None}, "the length of a request is needed"),
        ({"gpu": "H1000"}, "H1000"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(wrong, words):
    """By name."""
    with pytest.raises(PlannerError, match=words):
        solve.models(**{"gpu": "L4", "load": FIVE, "search": "qwen3-8b"} | wrong)


def test_plain_values_text_and_frame_say_the_same(found):
    """The dictionary has every release, the text a line for each model."""
    plain, text = found.to_dict(), str(found)

    assert len(found.found) == len(plain["models"])
    assert "Models for RTX5090 with 5 requests of 16,000 tokens at once" in text
    assert all(f"\n{group[0].name} " in text for group in found.groups())
    assert "dates are not in the bundled catalogue" in text
    pytest.importorskip("pandas")
    assert len(found.found) == len(found.to_frame())
    assert "Qwen/Qwen3-8B" in found._repr_mimebundle_()["text/html"]


def test_nothing_that_serves_is_an_answer_too():
    """The sign, and how many were looked at."""
    none = solve.models("T4", load=FIVE, search="kimi-k2")

    assert str(none).startswith("✘ None of ")
    assert not none.is_found
