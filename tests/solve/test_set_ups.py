"""Set-ups that serve a load: every layout that does, with its price and its bound."""

import pytest

import planner
from planner import GPU, Load, PlannerError, solve
from planner.engine.gpu import catalogue
from planner.solve.layouts import Room
from planner.solve.price_list import PriceList
from planner.solve.set_up_search import SetUpSearch

QWEN = "Qwen/Qwen3-32B"
LONG = Load(prompt_tokens=32_000, output_tokens=768, requests=20)
SHORT = Load(prompt_tokens=3_000, output_tokens=1_000, requests=8)
CHEAP = {"H100": 3.0, "A40": 0.4}
PRICES = {"H200": 4.0, "H100": 3.0, "L40S": 1.0, "RTX8000": 2.0, "L4": 0.4}


@pytest.fixture(scope="module")
def found():
    """20 requests of 32,768 tokens on GPUs of three sizes."""
    return solve.set_ups(QWEN, LONG, list(PRICES), prices=PRICES, currency="EUR")


def test_each_set_up_serves(found):
    """20 of 20 requests, at the low end of the estimate's range."""
    for set_up in found.found:
        assert set_up.serving.is_served
        assert 20 <= set_up.requests_held
        assert set_up.gpus_total == set_up.plan.gpus_total
    counts = {one.gpu.name: one.gpus_total for one in found.ranked()}
    assert {"H200": 2, "H100": 4, "L40S": 6, "RTX8000": 6} == counts


def test_the_order_is_by_gpus_or_by_price(found):
    """2 x H200 at 4 is 8; 4 x H100 at 3 is 12; 6 x L40S at 1 is 6, on more GPUs."""
    fewest = [(one.gpu.name, one.price_per_hour) for one in found.ranked("fewest")]
    cheapest = [one.gpu.name for one in found.ranked("cheapest")]

    kinds = [("H200", 8.0), ("H100", 12.0), ("L40S", 6.0), ("RTX8000", 12.0)]
    assert kinds == fewest
    assert ["L40S", "H200", "H100", "RTX8000"] == cheapest
    assert found.fewest is found.ranked()[0]
    *known, unknown = found.ranked("fastest")
    speeds = [one.tokens_per_second.value for one in known]
    assert sorted(speeds, reverse=True) == speeds
    # Nothing near Turing was measured: it comes after those with a forecast.
    assert ("RTX8000", None) == (unknown.gpu.name, unknown.tokens_per_second)
    assert unknown.at_most_tokens_per_second > 0
    with pytest.raises(PlannerError, match="use one of fewest, cheapest, fastest"):
        found.ranked("best")


def test_a_trade_off_is_beaten_in_nothing(found):
    """RTX 8000: 6 at 12, as 4 x H100 on fewer GPUs, and slower."""
    assert ["H200", "H100", "L40S"] == [one.gpu.name for one in found.trade_offs()]
    cheap = [one.gpu.name for one in found.trade_offs("cheapest")]
    assert ["L40S", "H200", "H100"] == cheap


def test_a_format_that_costs_answers_saves_gpus():
    """Each row has fewer GPUs than those of a better class of the same kind."""
    answer = planner.set_ups(
        QWEN, LONG, ["H100", "A40"], prices=CHEAP, quality="try your prompts first"
    )
    for gpu in ("H100", "A40"):
        rows = [one for one in answer.ranked() if one.gpu.name == gpu]
        rows.sort(key=lambda one: -one.gpus_total)
        classes = [one.format.cost_class.place for one in rows]

        assert len({one.gpus_total for one in rows}) == len(rows) > 1
        assert sorted(classes) == classes
    for one in answer.found:
        changed = planner.plan(QWEN, gpu="B200").changed(**one.changes(), load=LONG)
        assert one.plan.name == changed.name
        assert one.plan.settings.kv_cache_dtype == changed.settings.kv_cache_dtype
        assert changed.serving.is_served


def test_a_search_says_what_it_did_not_try():
    """A time that is over before the first kind is through leaves all of them."""
    stopped = planner.set_ups(QWEN, LONG, ["H100", "A40"], prices={}, seconds=0)

    assert any("Not reached: H100, A40." in one for one in stopped.not_tried)
    assert any("quality='little loss'" in one for one in stopped.not_tried)
    assert list(stopped.not_tried) == stopped.to_dict()["not_tried"]
    with pytest.raises(PlannerError, match="quality='good': use one of no loss"):
        planner.set_ups(QWEN, LONG, quality="good")


def test_what_is_given_stays_in_every_format():
    """A KV cache type, and weights quantised while loading."""
    answer = planner.set_ups(
        QWEN,
        LONG,
        ["H100"],
        prices={},
        quality="try your prompts first",
        kv_cache_dtype="fp8",
        quantization="fp8_per_tensor",
    )

    assert {""} == {one.format.name for one in answer.found}
    assert {"fp8"} == {one.plan.settings.kv_cache_dtype for one in answer.found}


def test_a_gpu_without_a_price_comes_last_among_the_cheap():
    """It cannot be said to cost less; it is listed all the same."""
    answer = solve.set_ups(QWEN, LONG, ["H200", "H100"], prices={"H100": 99})

    assert [99 * 4, None] == [one.price_per_hour for one in answer.ranked("cheapest")]
    assert "H100" == answer.cheapest.gpu.name
    assert solve.set_ups(QWEN, LONG, "H200", prices={}).cheapest is None


def test_the_price_of_answers_is_the_bound_on_speed(found):
    """Price of an hour / (tokens a second x 3,600) x a million."""
    first = found.fewest
    bound = planner.speed_bound(first.plan, LONG)

    assert bound.total_at_most_tokens_per_second == first.at_most_tokens_per_second
    assert bound.prefill_at_least_seconds == first.first_token_at_least_seconds
    a_million_takes_hours = 1e6 / first.at_most_tokens_per_second / 3600
    assert first.at_least_price_per_million_tokens == pytest.approx(
        8.0 * a_million_takes_hours
    )


def test_a_set_up_is_what_its_changes_lead_to(found):
    """Applied to any plan of the model, they give GPU and layout of the row."""
    for set_up in found.found:
        other = planner.plan(QWEN, gpu="B200", pipeline_parallel_size=2)
        changed = other.changed(**set_up.changes())

        assert set_up.gpu == changed.gpu
        given = changed.settings
        assert set_up.layout.tensor_parallel_size == (given.tensor_parallel_size or 1)
        assert set_up.layout.pipeline_parallel_size == (
            given.pipeline_parallel_size or 1
        )
        assert set_up.layout.data_parallel_size == (given.data_parallel_size or 1)


def test_a_small_gpu_gets_the_share_that_is_free():
    """The row's changes name the share with which its plan was made."""
    answer = solve.set_ups("Qwen/Qwen3-0.6B", SHORT, "RTX2080Ti", prices={})

    (best,) = answer.ranked()
    share = best.plan.settings.gpu_memory_utilization
    assert share == best.changes().get("gpu_memory_utilization")
    assert best.plan.fits


def test_the_misses_say_what_is_missing(found):
    """L4 has no room for 20 on 8."""
    (near,) = found.misses

    assert ("L4", 8) == (near.gpu.name, near.gpus_total)
    assert 0 < near.serving.requests_held < 20 or "blocks" in near.why
    assert near.why.endswith(".")


def test_given_sizes_stay():
    """Two stages are asked for: every layout has two."""
    answer = solve.set_ups(
        QWEN, LONG, ["H200", "H100"], prices={}, pipeline_parallel_size=2
    )

    assert {2} == {one.layout.pipeline_parallel_size for one in answer.found}


def test_more_machines_serve_what_one_cannot():
    """DeepSeek-R1 needs 11 H100, a pipeline stage each, and machines have eight."""
    load = Load(prompt_tokens=8_000, output_tokens=1_000, requests=8)
    model = "deepseek-ai/DeepSeek-R1"

    one = solve.set_ups(model, load, "H100", prices={})
    two = solve.set_ups(model, load, "H100", prices={}, nodes=2)

    assert not one.is_found
    assert {11} == {found.gpus_total for found in two.found}
    assert 8 >= max(found.layout.tensor_parallel_size for found in two.found)


def test_a_plan_keeps_its_arguments_and_a_load_in_parts_is_taken():
    """kv_cache_dtype stays, and half the KV cache needs half the GPUs."""
    plan = planner.plan(QWEN, gpu="H100", kv_cache_dtype="fp8")

    answer = solve.set_ups(
        plan,
        prompt_tokens=32_000,
        output_tokens=768,
        requests=20,
        gpus="H200",
        prices={},
    )

    assert LONG == answer.load
    assert "fp8" == answer.fewest.plan.settings.kv_cache_dtype
    assert 2 == answer.fewest.gpus_total


def test_a_load_is_needed():
    """Without one there is nothing to serve."""
    with pytest.raises(PlannerError, match="the length of a request is needed"):
        solve.set_ups(QWEN, gpus="H200")


def test_a_custom_gpu_without_bandwidth_has_no_speed():
    """Memory decides whether it serves; the bound needs the bandwidth."""
    gpu = GPU(
        name="Mine",
        total_memory_bytes=200 << 30,
        compute_capability=(9, 0),
        memory_bandwidth_bytes_per_second=None,
    )
    answer = solve.set_ups(QWEN, SHORT, [gpu], prices={"Mine": 1.5})

    assert answer.fewest.speed is None
    assert answer.fewest.at_least_price_per_million_tokens is None
    assert 1.5 == answer.fewest.price_per_hour


def test_rows_come_while_the_search_runs():
    """A step is at most a plan: the page draws and answers in between."""
    search = SetUpSearch.of(
        QWEN,
        LONG,
        ["H200", "H100", "L4"],
        prices=PriceList(),
        room=Room(gpus_per_node=8, nodes=1),
    )
    seen = [(search.done, len(search.found)) for _ in search.steps()]

    assert seen == sorted(seen)
    assert (0, 1) in seen
    assert 3 == search.done == search.total
    assert search.result().found == search.result().found != ()


def test_the_catalogue_is_searched_without_mig_slices():
    """Each kind is a set-up or a miss."""
    answer = solve.set_ups("Qwen/Qwen3-8B", SHORT, prices={})

    named = {one.gpu.name for one in (*answer.found, *answer.misses)}
    assert {gpu.name for gpu in catalogue() if not gpu.mig_profile} == named


def test_plain_values_have_no_plan(found):
    """What another program reads: sizes, prices and the command."""
    plain = found.to_dict()

    row = plain["set_ups"][0]
    assert ["EUR", 20] == [plain["currency"], plain["load"]["requests"]]
    assert ["H200", 2, 8.0] == [row["gpu"], row["gpus_total"], row["price_per_hour"]]
    assert "your own price" == row["price_source"]
    assert row["command"].startswith("vllm serve Qwen/Qwen3-32B")
    assert {"gpu", "gpus_total", "requests_held", "why"} == set(plain["misses"][0])


def test_numbers_between_powers_of_two_are_tried():
    """Six A40 as TP 2 and PP 3 at 0.44 are 2.64, eight would be 3.52."""
    found = solve.set_ups(QWEN, LONG, "A40", prices={"A40": 0.44})

    assert (6, (1, 2, 3, 4, 5, 6, 7, 8)) == (found.fewest.gpus_total, found.gpus_tried)
    assert pytest.approx(2.64) == found.cheapest.price_per_hour
    assert (2, 3) == (
        found.cheapest.layout.tensor_parallel_size,
        found.cheapest.layout.pipeline_parallel_size,
    )
    assert "Tried: 1 to 8 GPUs of each kind" in str(found).splitlines()[0]


def test_a_comparison_of_gpus_tells_the_sizes_that_it_tried():
    """Tensor parallel alone, from the given size up."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100", tensor_parallel_size=2)
    found = planner.compare_gpus(plan, ["L4"], {"L4": 1})

    assert (2, 3, 4, 5, 6, 7, 8) == found.sizes_tried
    assert "Tried: tensor parallel sizes 2, 3, 4, 5, 6, 7, 8, with" in str(found)
