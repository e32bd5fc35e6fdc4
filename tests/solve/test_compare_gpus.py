"""One model with the same arguments on one kind of GPU after the other."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner import GPU, Load, PlannerError
from planner.app.cli import BAD_INPUT, DOES_NOT_FIT, FITS, main
from planner.engine.gpu import catalogue
from planner.show.charts.gpu_bars import MOST_DRAWN, figure_spec
from planner.show.compared_gpus import sheet
from tests import plans, solutions

SIX = ["H100", "A100-80GB", "L40S", "H200", "B200", "L4"]
PRICES = {"H100": 2.5, "l40s": 0.9, "h200": 3.4}


def seventy() -> planner.Plan:
    """131 GiB of weights, requests of up to 32,000 tokens."""
    return planner.plan(plans.LLAMA_70B, gpu="H100", max_model_len=32_000)


def choice(found, name):
    """Return what becomes of the model on that GPU."""
    return next(one for one in found.choices if one.gpu.name == name)


def test_the_fewest_gpus_of_each_kind_are_found_by_planning() -> None:
    """131 GiB need four of 79 GiB, two of 139 GiB, and one of 178 GiB."""
    found = planner.compare_gpus(seventy(), SIX)

    assert [4, 4, 4, 2, 1] == [
        choice(found, name).gpus_total for name in SIX if name != "L4"
    ]
    assert choice(found, "H100").plan == seventy().changed(tensor_parallel_size=4)
    assert choice(found, "B200").plan == seventy().changed(gpu="B200")
    assert [True, False] == [choice(found, n).has_grown for n in ("H100", "B200")]


@settings(max_examples=15)
@given(
    model=st.sampled_from(["Qwen/Qwen3-8B", plans.LLAMA_70B, "Qwen/Qwen3-30B-A3B"]),
    gpu=st.sampled_from(["L4", "RTX4090", "A100-40GB", "H100", "H200"]),
    requests=st.integers(1, 64),
)
def test_one_gpu_fewer_would_not_serve(model, gpu, requests) -> None:
    """Every smaller tensor parallel size fails, is refused, or holds too few."""
    load = Load(prompt_tokens=3000, output_tokens=1000, requests=requests)
    (found,) = planner.compare_gpus(planner.plan(model), [gpu], load=load).choices
    plan = found.plan

    if found.serves:
        assert solutions.is_served(plan, load)
    for ranks in range(1, found.gpus_total if found.serves else 9):
        smaller = plan.changed(tensor_parallel_size=ranks)
        assert not solutions.is_served(smaller, load)


def test_a_kind_that_never_serves_says_why() -> None:
    """Eight L4 hold 176 GiB, less than weights and a request in each need."""
    found = choice(planner.compare_gpus(seventy(), SIX), "L4")

    assert not found.serves
    assert "out of memory" in found.why_not
    assert seventy().changed(gpu="L4") == found.plan
    assert found.price_per_hour is None


def test_prices_are_the_users_and_multiply_with_the_gpus() -> None:
    """Four L40S at 0.90 are 3.60, two H200 at 3.40 are 6.80, four H100 10.00."""
    found = planner.compare_gpus(seventy(), SIX, PRICES, currency="EUR")
    h200 = choice(found, "H200")

    assert ["L40S", "H200", "H100"] == [one.gpu.name for one in found.choices[:3]]
    assert 6.8 == h200.price_per_hour
    assert 6.8 / h200.plan.max_concurrency == h200.price_per_request
    assert h200.price_per_million_tokens == pytest.approx(
        6.8 / (h200.plan.kv_cache_size_tokens / 1e6)
    )
    assert choice(found, "B200").price_per_hour is None
    assert "6.80 EUR" in str(found)


def test_without_prices_there_are_no_prices() -> None:
    """None of our own: the fewest GPUs come first."""
    found = planner.compare_gpus(seventy(), SIX)

    assert not found.has_prices
    assert "Price" not in str(found)
    assert "B200" == found.best.gpu.name
    assert not found.choices[-1].serves


def test_a_load_sets_the_length_and_how_many_must_be_held() -> None:
    """One request of 4,000 tokens fits a card on which 64 do not."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="L4")
    few = Load(prompt_tokens=3000, output_tokens=1000)
    many = Load(prompt_tokens=3000, output_tokens=1000, requests=64)
    one, other = (
        planner.compare_gpus(plan, ["L4"], load=load).choices[0] for load in (few, many)
    )

    assert (1, 4000) == (one.gpus_total, one.plan.resolved.max_model_len)
    assert other.gpus_total > 1
    assert other.requests_low >= 64


def test_with_a_load_the_bound_on_speed_says_what_tokens_cost_at_least() -> None:
    """An hour's price over the tokens of an hour at the bound."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="L4")
    load = Load(prompt_tokens=3000, output_tokens=1000, requests=8)
    found = planner.compare_gpus(plan, ["H100"], {"H100": 2}, load, currency="EUR")
    (one,) = found.choices
    bound = planner.speed_bound(one.plan, load)
    tokens = bound.total_at_most_tokens_per_second * 3600

    assert bound.total_at_most_tokens_per_second == one.at_most_tokens_per_second
    assert one.at_least_price_per_million_answer_tokens == pytest.approx(
        2 / tokens * 1e6
    )
    assert "Tokens per second, at most" in str(found)
    without = planner.compare_gpus(plan, ["H100"]).choices[0]
    assert without.at_most_tokens_per_second is None


def test_the_whole_catalogue_is_compared_but_for_slices() -> None:
    """A GPU that the model refuses is in the list too."""
    found = planner.compare_gpus(planner.plan("Qwen/Qwen3-0.6B", max_model_len=4096))
    names = {gpu.name for gpu in catalogue() if not gpu.mig_profile}

    assert names == {one.gpu.name for one in found.choices}
    assert len(found.choices) == len(found.to_frame())


def test_a_slice_does_not_grow() -> None:
    """Slices of one GPU cannot share a model."""
    found = planner.compare_gpus(seventy(), ["H100-MIG-3g.40gb"]).choices[0]

    assert not found.serves
    assert not found.has_grown


def test_a_gpu_of_the_users_own_has_its_own_price() -> None:
    """Described, and named in the prices."""
    mine = GPU.named("L4", name="mine")
    plan = planner.plan("Qwen/Qwen3-0.6B", max_model_len=4096)
    (found,) = planner.compare_gpus(plan, [mine], {"mine": 1}).choices

    assert 1.0 == found.price_per_hour


def test_replicas_hold_and_cost_together() -> None:
    """Two engines hold twice as much on twice as many GPUs."""
    plan = planner.plan("Qwen/Qwen3-8B", max_model_len=8192)
    one, two = (
        planner.compare_gpus(p, ["H100"], {"H100": 2}).choices[0]
        for p in (plan, plan.changed(data_parallel_size=2))
    )

    assert 2 * one.price_per_hour == two.price_per_hour
    assert 2 == two.gpus_total
    assert two.requests == 2 * two.plan.max_concurrency


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"gpus": ["none such"]}, "none such"),
        ({"gpus": []}, "at least one GPU"),
        ({"gpus": ["L4"], "price_per_hour": {"L4": -1}}, "a number from 0"),
        ({"gpus": ["L4"], "price_per_hour": {"L4": float("nan")}}, "a number from 0"),
        ({"gpus": ["L4"], "price_per_hour": {"L4": "2"}}, "a number from 0"),
        ({"gpus": ["L4"], "load": [3000]}, "load=[3000]: give a planner.Load"),
        ({"gpus": ["L4"], "load": []}, "load=[]: give a planner.Load"),
    ],
)
def test_what_cannot_be_compared_says_what_can(arguments, words) -> None:
    """Unknown GPUs and prices that are none."""
    with pytest.raises(PlannerError, match=re.escape(words)):
        planner.compare_gpus(plans.fitting(), **arguments)


def test_every_form_names_every_gpu() -> None:
    """Text, page, JSON, frame, chart and sentence."""
    found = planner.compare_gpus(seventy(), SIX, PRICES, currency="EUR")
    told = json.loads(json.dumps(found.to_dict()))
    (bars,) = figure_spec(found)["data"]

    for name in SIX:
        assert name in str(found)
        assert name in sheet(found).to_html()
        assert any(name in label for label in bars["y"])
    assert [row["gpu"] for row in told["gpus"]] == [c.gpu.name for c in found.choices]
    assert re.search("H200 +2  ✔ starts +6.80 EUR .* 11.95x ", str(found))
    assert found._repr_mimebundle_()["text/plain"] == str(found)
    assert 6 == len(found.comparison().plans)


def test_what_does_not_serve_is_hatched_and_said() -> None:
    """Not told by colour."""
    found = planner.compare_gpus(seventy(), SIX)
    (bars,) = figure_spec(found)["data"]

    assert "/" == bars["marker"]["pattern"]["shape"][-1]
    told = figure_spec(found)["layout"]["annotations"]
    assert ["L4"] == [one["y"] for one in told if "does not serve" in one["text"]]
    assert 5 == bars["marker"]["pattern"]["shape"].count("")


def test_a_long_list_is_drawn_as_far_as_it_can_be_read() -> None:
    """The table has the rest."""
    found = planner.compare_gpus(planner.plan("Qwen/Qwen3-0.6B", max_model_len=4096))
    spec = figure_spec(found)

    assert MOST_DRAWN == len(spec["data"][0]["y"])
    left = len(found.choices) - MOST_DRAWN
    assert f"{left} more in the table" in spec["layout"]["annotations"][-1]["text"]
    assert 1 == len(found.figure().data)


# --- On the command line ------------------------------------------------------------


def run(capsys, *words: str) -> tuple[int, str]:
    """Run the command line; return its status and what it wrote."""
    status = main(words)
    written = capsys.readouterr()
    return status, written.out + written.err


def test_gpus_are_compared_on_the_command_line(capsys) -> None:
    """With prices, a currency, engine flags and a load."""
    status, text = run(
        capsys,
        *("compare", plans.LLAMA_70B, "--gpus", "H100, H200", "--max-model-len", "32k"),
        *("--price", "H100=2.5", "H200=3.4", "--currency", "EUR"),
    )

    assert FITS == status
    assert "6.80 EUR" in text
    status, text = run(
        capsys,
        *("compare", plans.LLAMA_70B, "--gpus", "L4", "--json"),
        *("--prompt-tokens", "30000", "--requests", "3"),
    )
    assert DOES_NOT_FIT == status
    assert 3 == json.loads(text)["load"]["requests"]


def test_models_are_compared_on_the_command_line(capsys) -> None:
    """With the same arguments."""
    status, text = run(
        capsys, "compare", "Qwen/Qwen3-8B", "Qwen/Qwen3-4B", "--max-model-len", "8k"
    )

    assert FITS == status
    assert "Qwen3-4B" in text.splitlines()[1]


@pytest.mark.parametrize(
    "words",
    [
        "A --gpu L4 B C --max-model-len 8k",
        "A B --gpu L4 C --max-model-len 8k",
        "--gpu L4 A --max-model-len 8k B C",
        "A --enforce-eager B --gpu L4 --max-model-len 8k C --no-enforce-eager",
    ],
)
def test_flags_may_stand_between_models(capsys, words) -> None:
    """In any order of flags, and in the models' own order."""
    names = {"A": "Qwen/Qwen3-8B", "B": "Qwen/Qwen3-4B", "C": "Qwen/Qwen3-0.6B"}
    status, text = run(
        capsys, "compare", "--json", *(names.get(word, word) for word in words.split())
    )
    found = json.loads(text)

    assert FITS == status
    assert list(names.values()) == [line.split()[2] for line in found["commands"]]
    assert all("--max-model-len 8000" in line for line in found["commands"])


def test_plan_files_are_compared_on_the_command_line(capsys, tmp_path) -> None:
    """Kept in a repository, and read by their ending; flags hold for all."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="L4", max_model_len=8192)
    files = [tmp_path / "a.yaml", tmp_path / "b.yml"]
    files[0].write_text(planner.export.yaml(plan))
    files[1].write_text(planner.export.yaml(plan.changed(kv_cache_dtype="fp8")))
    words = ("compare", *map(str, files), "--json")
    status, text = run(capsys, *words)
    _, changed = run(capsys, *words, "--max-num-seqs", "8")

    assert FITS == status
    assert {"kv_cache_dtype": [None, "fp8"]} == json.loads(text)["differences"]
    assert all("--max-num-seqs 8" in line for line in json.loads(changed)["commands"])


def test_a_plan_file_brings_its_load(capsys, tmp_path) -> None:
    """To GPUs, and to the bound on speed."""
    load = Load(prompt_tokens=3000, output_tokens=1000, requests=8)
    plan = planner.plan("Qwen/Qwen3-8B", gpu="L4", max_model_len=4000)
    file = tmp_path / "plan.yaml"
    file.write_text(planner.export.yaml(plan, load))
    _, gpus = run(capsys, "compare", str(file), "--gpus", "L4,H100", "--json")
    _, speed = run(capsys, "speed", str(file), "--json")

    assert 8 == json.loads(gpus)["load"]["requests"]
    assert 3000 == json.loads(speed)["load"]["prompt_tokens"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["compare", "m", "--price", "2.5"], "write GPU=PRICE"),
        (["compare", "a", "b", "--gpus", "L4"], "give one model"),
        (["compare"], "Name a model"),
        (["compare", "a", "--gpu", "L4", "b", "--max-modle-len", "8"], "-model-len?"),
        (["speed", "a", "--gpu", "L4", "b"], "'b' was not expected here"),
        (["compare", "missing.yaml"], "cannot be read"),
        (["speed", "Qwen/Qwen3-8B"], "that names a load"),
        (["compare", "Qwen/Qwen3-8B", "--requests", "2"], "--prompt-tokens"),
        (["sweep", "Qwen/Qwen3-8B", "--over", "max_model_len"], "NAME=A,B"),
        (["sweep", "Qwen/Qwen3-8B", "--over", "enforce_eager=1"], "true or false"),
        (["sweep", "Qwen/Qwen3-8B", "--over", "max_len=1"], "Did you mean"),
        (
            ["sweep", "Qwen/Qwen3-8B", "--over", "gpu_memory_utilization=x"],
            "a number is needed",
        ),
        (
            ["speed", "Qwen/Qwen3-8B", "--prompt-tokens", "0", "--output-tokens", "1"],
            "prompt_tokens=0",
        ),
    ],
)
def test_bad_words_say_what_to_write(capsys, words, told) -> None:
    """Status 2, with a sentence."""
    status, text = run(capsys, *words)

    assert BAD_INPUT == status
    assert told in text


def test_a_sweep_on_the_command_line_is_a_table_csv_or_json(capsys) -> None:
    """The same figures in each."""
    words = (
        *("sweep", "Qwen/Qwen3-8B", "--gpu", "L4"),
        *(
            "--over",
            "max-model-len=4k,8K,default",
            "--over",
            "enforce_eager=true,false",
        ),
    )
    status, text = run(capsys, *words)
    _, as_csv = run(capsys, *words, "--csv")
    _, as_json = run(capsys, *words, "--json")

    assert FITS == status
    assert "8,192" in text
    assert 7 == len(as_csv.splitlines())
    told = json.loads(as_json)
    assert {
        "max_model_len": [4000, 8192, None],
        "enforce_eager": [True, False],
    } == told["over"]


def test_a_sweep_in_which_nothing_fits_ends_with_1(capsys) -> None:
    """As a plan that does not fit."""
    status, text = run(
        capsys, "sweep", plans.LLAMA_70B, "--gpu", "L4", "--over", "max_num_seqs=8,16"
    )

    assert DOES_NOT_FIT == status
    assert "✘ does not fit" in text


def test_the_speed_on_the_command_line(capsys) -> None:
    """A forecast first, then the bound, as text and as JSON."""
    words = (
        *("speed", "Qwen/Qwen3-8B", "--prompt-tokens", "1000"),
        *("--output-tokens", "200", "--requests", "8"),
    )
    status, text = run(capsys, *words)
    _, as_json = run(capsys, *words, "--json")

    assert FITS == status
    told = json.loads(as_json)
    assert text.startswith("≈ About ")
    assert "Tokens per second in total, at most" in text
    assert 8 == told["requests"] == told["bound"]["requests"]
    assert told["tpot_ms"]["low"] < told["tpot_ms"]["value"] < told["tpot_ms"]["high"]


def test_accepted_drafts_on_the_command_line(capsys) -> None:
    """--acceptance-length, as vLLM logs it."""
    words = (
        *("speed", "Qwen/Qwen3-8B", "--gpu", "H100", "--prompt-tokens", "1000"),
        *("--output-tokens", "200", "--speculative-config"),
        '{"method": "ngram", "num_speculative_tokens": 3}',
    )
    _, without = run(capsys, *words, "--json")
    _, accepted = run(capsys, *words, "--acceptance-length", "2", "--json")

    assert json.loads(without)["tpot_ms"]["value"] is None
    assert json.loads(accepted)["tpot_ms"]["value"] > 0
