"""A day at the desk starts from the plan's own figures.

What its scheduler does with them is held to vLLM's by `tests/js/scheduler.test.js`.
"""

from __future__ import annotations

import pytest

from planner import Load, plan, speed_bound
from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.learn import living_kv_cache
from planner.learn.living import rules_of
from planner.units import GIB

PLANS = [
    ("Qwen/Qwen3-8B", "L4", {"max_model_len": 8192}, ["full"]),
    (
        "deepseek-ai/DeepSeek-R1",
        "H200",
        {"tensor_parallel_size": 8, "max_model_len": 32768},
        ["full"],
    ),
    ("openai/gpt-oss-20b", "H100", {}, ["window", "full"]),
    ("Qwen/Qwen3.5-9B", "H100", {}, ["state", "state", "state", "full"]),
    (
        "meta-llama/Llama-4-Scout-17B-16E-Instruct",
        "H200",
        {"tensor_parallel_size": 8, "max_model_len": 131072},
        ["chunk", "chunk", "chunk", "full"],
    ),
]


def _desk():
    return living_kv_cache(plan("Qwen/Qwen3-8B", "L4", max_model_len=8192))


@pytest.mark.parametrize(("model", "gpu", "arguments", "kinds"), PLANS)
def test_each_kind_of_cache_has_its_rules(model, gpu, arguments, kinds) -> None:
    """A rule for each group of layers, with the plan's blocks."""
    living = living_kv_cache(plan(model, gpu, **arguments))
    choice = living.described()["desk"]["choices"][0]

    assert sorted(kinds) == sorted(rule["kind"] for rule in choice["rules"])
    assert [group.block_size for group in living.choices[0].kv_groups] == [
        rule["size"] for rule in choice["rules"]
    ]


def test_every_choice_is_a_plan_of_its_own() -> None:
    """fp8 halves a block's bytes; fewer requests at once leave more blocks."""
    living = _desk()
    desk = living.described()["desk"]
    found = {
        (one["dtype"], one["seqs"], one["caching"]): one for one in desk["choices"]
    }
    for (dtype, seqs, caching), one in found.items():
        made = living.plan.changed(
            kv_cache_dtype=dtype, max_num_seqs=seqs, enable_prefix_caching=caching
        )
        assert made.limiting_rank.num_blocks - 1 == one["blocks"]

    assert {"auto", "fp8"} == {dtype for dtype, _, _ in found}
    assert found["auto", 256, True]["blocks"] < found["auto", 2, True]["blocks"]
    assert desk["settings"]["seqs"] == 256


def test_a_step_takes_what_speed_bound_says() -> None:
    """One request of 3,072 tokens: weights and its cache are read for another."""
    living = _desk()
    least, kept, computed = living.described()["desk"]["choices"][-1]["seconds"]
    load = Load(prompt_tokens=3072, output_tokens=1, requests=1)
    bound = speed_bound(living.choices[-1], load)

    assert bound.decode_at_least_seconds == pytest.approx(least + 3072 * kept, rel=1e-3)
    assert bound.prefill_at_least_seconds == pytest.approx(3072 * computed, rel=0.1)


def test_a_day_has_forty_visitors_and_costs_what_the_list_says() -> None:
    """Two of its hours are crowded; the price is the list's."""
    desk = _desk().described()["desk"]
    arrivals = desk["arrivals"]
    by_hour = [sum(int(share * 9) == hour for share in arrivals) for hour in range(9)]

    assert 40 == len(arrivals)
    assert arrivals == sorted(arrivals)
    assert 7 == max(by_hour) == by_hour[3]
    assert {"price": 0.39, "currency": "USD"} == {
        name: desk["cost"][name] for name in ("price", "currency")
    }
    assert "2026" in desk["cost"]["source"]


def test_a_gpu_of_unknown_speed_and_price_has_a_day_too() -> None:
    """A step is taken as 0.05 seconds, and nothing is spent."""
    gpu = GPU(name="mine", total_memory_bytes=24 * GIB, compute_capability=(8, 9))
    desk = living_kv_cache(plan("Qwen/Qwen3-8B", gpu, max_model_len=8192)).described()

    assert desk["desk"]["cost"] is None
    assert (0.05, 0.0, 0.0) == desk["desk"]["choices"][0]["seconds"]


@pytest.mark.parametrize(
    ("model", "gpu", "length", "says"),
    [
        ("openai/whisper-large-v3", "L4", 448, "kind CrossAttentionSpec"),
        ("BAAI/bge-small-en-v1.5", "L4", 512, "no KV cache"),
        ("Qwen/Qwen3-8B", "L4", 40960, "no room to show"),
        ("Qwen/Qwen3-32B", "L4", 8192, "no room to show"),
    ],
)
def test_what_cannot_be_shown_is_said(model, gpu, length, says) -> None:
    """Caches of other kinds fill otherwise; a start that fails has no cache."""
    made = plan(model, gpu, max_model_len=length)
    with pytest.raises(PlannerError, match=says):
        living_kv_cache(made)


def test_without_scripts_a_table_says_what_each_choice_has_room_for() -> None:
    """Ten choices: two dtypes, five limits; caching changes no block of these."""
    living = _desk()
    bundle = living._repr_mimebundle_()
    written = bundle["text/html"].partition("<script")[0]

    assert 10 == written.count("<th scope='row'>")
    assert "max_num_seqs=2: " in bundle["text/plain"]
    assert living.to_html().startswith("<!doctype html>")


def test_groups_of_layers_are_told_with_what_they_store() -> None:
    """Windows and states beside the layers that store every token."""
    words = living_kv_cache(plan("openai/gpt-oss-20b", "H100")).words

    assert "2 groups of layers share them: 12 layers store a window of 128" in words
    assert "12 layers store every token (16 a block)." in words


def test_states_that_are_reused_come_with_prefix_caching_only() -> None:
    """vLLM's mamba_cache_mode is align with it."""
    made = plan("Qwen/Qwen3.5-9B", "H100")
    without = made.changed(enable_prefix_caching=False)

    assert any(rule.reused for rule in rules_of(made))
    assert not any(rule.reused for rule in rules_of(without))
