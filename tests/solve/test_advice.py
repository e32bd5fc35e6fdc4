"""Every single change that helps, ranked, each with the gain that planning gives."""

from dataclasses import replace

import pytest

import planner
from planner.show.advice import before_any_change, gains
from planner.solve.advice import Advice, AdviceItem, CostClass
from planner.solve.advice.situation import Burden
from planner.units import MIB


def _item(advice: Advice, *names: str) -> AdviceItem:
    """Return the change of just these arguments."""
    return next(item for item in advice.items if set(item.changes) == set(names))


LONG = planner.Load(prompt_tokens=30_000, output_tokens=2_768, requests=20)
"""20 users with 32,768 tokens each."""


def test_a_cut_over_two_gpus_gains_what_planning_it_gains():
    """Qwen3-32B on one H100: 61 GiB of weights; over two GPUs half of them each."""
    plan = planner.plan("Qwen/Qwen3-32B", gpu="H100")
    item = _item(planner.advise(plan), "tensor_parallel_size")

    cut = plan.changed(tensor_parallel_size=2)
    assert item.plan == cut
    assert item.flags == "--tensor-parallel-size 2"
    assert item.starts
    now, then = plan.ranks[0], cut.ranks[0]
    gained = then.available_kv_cache_bytes - now.available_kv_cache_bytes
    assert item.gain_bytes == gained
    assert item.gain_tokens == cut.kv_cache_size_tokens - plan.kv_cache_size_tokens
    # Before it does not start, so it holds no request; then as many whole ones.
    assert item.gain_requests == int(cut.max_concurrency_low)


def test_the_longest_context_starts_and_one_token_more_does_not():
    """max_model_len is offered to the token."""
    plan = planner.plan("Qwen/Qwen3-32B", gpu="H100")
    item = _item(planner.advise(plan), "max_model_len")
    longest = item.changes["max_model_len"]
    assert plan.changed(max_model_len=longest).fits
    assert not plan.changed(max_model_len=longest + 1).fits


def test_what_asks_least_comes_first_among_what_starts():
    """Settings before fewer bits, before shorter requests, before more GPUs."""
    advice = planner.advise(planner.plan("Qwen/Qwen3-32B", gpu="H100"))
    starting = [item for item in advice.items if item.starts]
    assert [item.burden for item in starting] == sorted(i.burden for i in starting)
    assert advice.items[: len(starting)] == tuple(starting)
    assert {Burden.ACCURACY, Burden.HARDWARE} <= {item.burden for item in starting}


def test_a_load_counts_requests_of_its_own_length():
    """16 requests of 4,000 tokens: 250 blocks of 16 tokens each."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="L4", max_model_len=8192)
    load = planner.Load(prompt_tokens=3000, output_tokens=1000, requests=16)
    advice = planner.advise(plan, load)
    assert advice.request_tokens == 4000
    blocks = round(plan.max_concurrency_low * plan.blocks_per_request)
    # One block stays empty, as vLLM has it.
    assert advice.requests == (blocks - 1) // 250
    assert all(
        item.serves == (advice.requests + item.gain_requests >= 16)
        for item in advice.items
    )


def test_advice_shows_itself_as_text_html_values_and_a_table():
    """Each change, its flags and its cost stand in every form."""
    advice = planner.advise(planner.plan("Qwen/Qwen3-32B", gpu="H100"))
    item = advice.items[0]
    bundle = advice._repr_mimebundle_()
    assert item.flags in str(advice)
    assert item.cost in bundle["text/plain"]
    assert item.flags in bundle["text/html"]
    assert advice.to_dict()["items"][0]["changes"] == item.changes
    assert list(advice.to_frame()["title"])[: len(advice.items)] == [
        item.title for item in advice.items
    ]


def test_a_plan_that_vllm_refuses_is_told_which_argument_to_leave_out():
    """40 heads over 5 GPUs divide, a vocabulary of 151,936 does not."""
    plan = planner.plan("Qwen/Qwen3-14B", gpu="H100", tensor_parallel_size=5)
    assert plan.outcome == "refused"
    advice = planner.advise(plan)
    left_out = next(item for item in advice.items if item.removed_flags)
    assert left_out.changes == {"tensor_parallel_size": None}
    assert left_out.removed_flags == "--tensor-parallel-size"
    assert advice.request_tokens == 40960


def test_a_size_that_is_refused_is_answered_with_the_next_legal_one_below_it():
    """Over 5 GPUs refused, over 4 of them not; 8 would need three more."""
    plan = planner.plan("Qwen/Qwen3-14B", gpu="H100", tensor_parallel_size=5)
    sizes = [
        item.changes["tensor_parallel_size"]
        for item in planner.advise(plan).items
        if "tensor_parallel_size" in item.changes
    ]
    assert sizes == [4, None, 8]
    assert planner.advise(plan).best.cost.startswith("4 GPUs instead of 5")


def test_stages_that_are_refused_are_answered_with_fewer():
    """Whisper has no pipeline parallel at all: one stage."""
    plan = planner.plan("openai/whisper-large-v3", gpu="H100", pipeline_parallel_size=2)
    assert plan.outcome == "refused"
    assert planner.advise(plan).best.changes == {"pipeline_parallel_size": 1}


def test_a_gain_is_not_written_where_it_would_read_as_nothing():
    """5 MiB are 0.0049 GiB, 6 MiB are 0.0059: the first would be written as 0.00."""
    item = planner.advise(planner.plan("Qwen/Qwen3-14B", gpu="H100")).items[0]
    none = {"gain_requests": 0, "gain_tokens": 0, "gain_tokens_all_engines": 0}
    few = replace(item, gain_bytes=5 * MIB, **none)
    assert gains(few) == []
    assert gains(replace(few, gain_bytes=-5 * MIB)) == []
    assert gains(replace(few, gain_bytes=6 * MIB)) == ["+0.01 GiB of KV cache per GPU"]


def test_a_model_without_a_cache_is_told_nothing_of_its_size():
    """An encoder keeps no KV cache, however long its default length."""
    load = planner.Load(prompt_tokens=500, output_tokens=50, requests=64)
    advice = planner.advise(planner.plan("BAAI/bge-m3", gpu="L4"), load)
    assert not any("insists on" in text for text in advice.warnings)


def test_best_is_the_first_where_the_plan_starts_already():
    """The one that gains most."""
    advice = planner.advise(planner.plan("Qwen/Qwen3-14B", gpu="H100"))
    assert advice.best is advice.items[0]
    assert advice.helps_to_start


def test_two_settings_come_before_another_gpu():
    """66 GiB of weights on each of two A100-40GB: 4 bits of them, and 8 of the cache.

    Alone neither holds one request of 131,072 tokens, which takes 20 GiB on each.
    """
    plan = planner.plan(
        "meta-llama/Llama-3.1-70B-Instruct", gpu="A100-40GB", tensor_parallel_size=2
    )
    advice = planner.advise(plan)
    assert advice.items[0].needs_hardware
    assert advice.best is advice.pair
    assert advice.best.starts
    assert set(advice.best.changes) == {"model", "kv_cache_dtype"}


def test_notes_of_the_plan_stand_beside_the_warnings():
    """Another process on the GPU is the plan's note; the budget is the advice's."""
    total = planner.GPU.named("H100").total_memory_bytes
    busy = planner.GPU.named(
        "H100", total_memory_bytes=total, free_memory_bytes=total - 2 * 2**30
    )
    advice = planner.advise(planner.plan("Qwen/Qwen3-0.6B", gpu=busy))
    shown = advice._repr_mimebundle_()
    assert "Note: 2.00 GiB of this GPU are in use already." in shown["text/plain"]
    assert "Warning: vLLM takes its whole budget" in shown["text/plain"]
    assert "2.00 GiB of this GPU are in use already." in shown["text/html"]
    assert advice.to_dict()["notes"] == list(advice.plan.notes)


@pytest.mark.parametrize(
    ("size", "count"),
    [("tensor_parallel_size", 10**9), ("data_parallel_size", 1 << 20)],
)
def test_an_absurd_size_is_answered_without_trying_every_one_below_it(size, count):
    """No more sizes are tried than the model has heads."""
    refused = planner.plan("Qwen/Qwen3-8B", gpu="H100", **{size: count})
    makers_tried = planner.advise(refused)

    assert makers_tried.items
    if size == "tensor_parallel_size":
        sizes = [item.changes.get(size) for item in makers_tried.items]
        assert 32 in sizes  # its 32 heads, one to a GPU


def test_the_plans_own_load_is_what_advice_aims_at():
    """One H100 serves 1 of 20; each remedy serves all 20, planned again."""
    plan = planner.plan("Qwen/Qwen3-32B", gpu="H100", load=LONG)
    advice = planner.advise(plan)
    assert plan.fits
    assert advice.load == LONG
    assert advice.requests == plan.serving.requests_served == 1
    assert advice.best.serves
    for item in advice.offered:
        served = plan.changed(**item.changes).serving
        assert item.serves == served.is_served
        assert item.gain_requests == served.requests_served - 1


def test_text_and_page_state_how_many_of_the_load_each_change_serves():
    """8 bits of weights: 3 requests more than 1, of 20."""
    plan = planner.plan("Qwen/Qwen3-32B", gpu="H100", load=LONG)
    text = str(planner.advise(plan))
    assert "Serves 1 of 20 requests of 32,768 tokens at once before any change." in text
    assert "! serves 4 of 20 at once; +3 requests at once; +29.00 GiB" in text
    assert "✔ serves 20 of 20 at once; +19 requests at once" in text


def test_too_few_requests_in_one_step_are_raised_to_those_of_the_load():
    """max_num_seqs=4 on two engines serves 8 of 20: 10 on each serve all."""
    load = planner.Load(prompt_tokens=3000, output_tokens=1000, requests=20)
    four = {"max_num_seqs": 4, "data_parallel_size": 2}
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100", load=load, **four)
    advice = planner.advise(plan)
    assert advice.requests == 8
    assert advice.best.changes == {"max_num_seqs": 10}
    assert advice.best.serves
    assert advice.best.cost_class is CostClass.NO_LOSS


def test_a_load_that_is_served_needs_no_more_hardware():
    """20 requests of 4,000 tokens fit on one H100: nobody is sent to buy another."""
    load = planner.Load(prompt_tokens=3000, output_tokens=1000, requests=20)
    advice = planner.advise(planner.plan("Qwen/Qwen3-8B", gpu="H100", load=load))
    assert advice.is_served
    assert advice.offered
    assert not any(item.needs_hardware for item in advice.offered)


def test_all_engines_come_before_one_of_them():
    """8 engines: their tokens together, then those of each."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100", data_parallel_size=8)
    advice = planner.advise(plan)
    item = _item(advice, "kv_cache_dtype")
    assert item.gain_tokens_all_engines == 8 * item.gain_tokens
    together = f"{8 * item.gain_tokens:+,} tokens on 8 engines together"
    assert f"{together} ({item.gain_tokens:+,} on each)" in gains(item)
    assert "on all 8 engines together" in before_any_change(advice)


def test_groups_are_in_the_order_of_what_they_cost_and_ranked_by_gain():
    """Those that suffice first; inside a group the requests, then the tokens decide."""
    advice = planner.advise(planner.plan("Qwen/Qwen3-32B", gpu="H100"))
    places = [(not group.suffices, group.cost_class.place) for group in advice.groups]
    assert places == sorted(places)
    assert sum(len(group.items) for group in advice.groups) == len(advice.offered)
    for group in advice.groups:
        order = [(i.starts, i.gain_requests, i.gain_tokens) for i in group.items]
        assert order == sorted(order, reverse=True)
        assert {item.cost_class for item in group.items} == {group.cost_class}


def test_every_burden_has_a_class_and_every_class_a_rule():
    """Four classes, from what nobody misses to what has to be bought."""
    assert [str(one) for one in CostClass] == [
        *("no loss", "little loss", "try your prompts first", "more hardware")
    ]
    assert {burden.cost_class for burden in Burden} == set(CostClass)
    assert Burden.ACCURACY.cost_class is CostClass.LITTLE_LOSS
    assert Burden.ABILITY.cost_class is CostClass.PROMPTS_FIRST
    assert all(one.rule.endswith(".") for one in CostClass)


def test_combinations_gain_more_than_what_they_are_made_of():
    """8-bit weights and an 8-bit cache: a quarter more requests than either."""
    advice = planner.advise(planner.plan("Qwen/Qwen3-32B", gpu="H100"))
    both = advice.pair
    assert set(both.changes) == {"quantization", "kv_cache_dtype"}
    alone = max(i.gain_requests for i in advice.items if i.burden <= Burden.ACCURACY)
    assert both.gain_requests >= 1.25 * alone
    classes = [item.cost_class for item in advice.combinations]
    assert len(classes) == len(set(classes))


def test_settings_save_gpus():
    """20 users on 4 H100, or on 2 with the 8-bit checkpoint and its 8-bit cache."""
    plan = planner.plan("Qwen/Qwen3-32B", gpu="H100", load=LONG)
    advice = planner.advise(plan)
    alone = _item(advice, "tensor_parallel_size")
    (saving,) = [i for i in advice.combinations if i.needs_hardware]
    assert saving.serves
    assert alone.plan.gpus_total == 4
    assert saving.changes == {
        "model": "Qwen/Qwen3-32B-FP8-Static-PerTensor",
        "tensor_parallel_size": 2,
    }
    assert "--tensor-parallel-size 2" in saving.flags


def test_three_changes_of_little_loss_are_added_up_where_two_do_not_suffice():
    """DeepSeek-R1 on 8 engines serves 32 of 200; smaller steps, FP8 and 0.98 do it."""
    load = planner.Load(prompt_tokens=30_000, output_tokens=2_768, requests=200)
    plan = planner.plan(
        "deepseek-ai/DeepSeek-R1",
        gpu="H200",
        load=load,
        data_parallel_size=8,
        enable_expert_parallel=True,
    )
    best = planner.advise(plan).best
    assert best.serves
    assert best.cost_class is CostClass.LITTLE_LOSS
    assert len(best.changes) == 3
    for name in best.changes:
        fewer = {key: value for key, value in best.changes.items() if key != name}
        assert not plan.changed(**fewer).serving.is_served


def test_of_more_hardware_the_fewest_gpus_come_first():
    """Every one of them serves the load, so that more tokens are of no use."""
    load = planner.Load(prompt_tokens=31_000, output_tokens=1_768, requests=20)
    advice = planner.advise(planner.plan("Qwen/Qwen3-32B", gpu="H100", load=load))
    (bought,) = (
        group
        for group in advice.groups
        if group.suffices and group.cost_class is CostClass.MORE_HARDWARE
    )
    sizes = [item.plan.gpus_total for item in bought.items]

    assert sizes == sorted(sizes)
    assert [1, 2, 4] == sorted(set(sizes))


def test_no_pair_has_a_part_that_serves_alone():
    """70B on 2 x A100-40GB: two larger GPUs serve, so they need no 8-bit weights."""
    load = planner.Load(prompt_tokens=3_000, output_tokens=1_000, requests=16)
    plan = planner.plan(
        "meta-llama/Llama-3.1-70B-Instruct",
        gpu="A100-40GB",
        tensor_parallel_size=2,
        load=load,
    )
    advice = planner.advise(plan)
    alone = [dict(item.changes) for item in advice.items if item.serves]

    assert alone
    for pair in advice.combinations:
        assert not any(one.items() <= pair.changes.items() for one in alone)


def test_latent_attention_is_offered_as_engines_of_one_gpu():
    """Each of eight ranks keeps the whole KV cache of DeepSeek-R1; engines do not.

    DP8 and expert parallelism is how the same eight GPUs hold several times as many
    tokens: 8 x 222,416 against about 650,000.
    """
    load = planner.Load(prompt_tokens=30_000, output_tokens=2_000, requests=64)
    plan = planner.plan(
        "deepseek-ai/DeepSeek-R1", gpu="H200", tensor_parallel_size=8, load=load
    )
    changed = {"tensor_parallel_size": None, "data_parallel_size": 8}
    (item,) = (
        item
        for item in planner.advise(plan).items
        if changed.items() <= item.changes.items()
    )

    assert item.changes["enable_expert_parallel"]
    assert plan.gpus_total == item.plan.gpus_total
    assert item.gain_tokens_all_engines > plan.kv_cache_size_tokens


def test_each_change_says_what_it_does_to_the_speed_of_the_load():
    """Half of the bytes of the weights: more tokens per second, in text and values."""
    load = planner.Load(prompt_tokens=3000, output_tokens=1000, requests=8)
    plan = planner.plan("Qwen/Qwen3-8B", gpu="L40S", max_model_len=4000)
    advice = planner.advise(plan, load)
    item = next(one for one in advice.items if "quantization" in one.changes)
    before, after = advice.forecast(), advice.forecast(item)

    total = after.total_tokens_per_second
    assert total.value > before.total_tokens_per_second.value
    assert planner.speed_forecast(item.plan, load).total_tokens_per_second == total
    assert (
        f"about {total.value:,.0f} ({before.total_tokens_per_second.value:,.0f} "
        in (str(advice))
    )
    told = next(one for one in advice.to_dict()["items"] if one["title"] == item.title)
    assert total.to_dict() == told["tokens_per_second"]


def test_without_a_load_nothing_is_said_of_speed():
    """The speed depends on it."""
    advice = planner.advise(planner.plan("Qwen/Qwen3-8B", gpu="L40S"))

    assert advice.forecast() is None
    assert "Speed:" not in str(advice)
