"""How sure is this: what the panel says."""

import planner
from planner.confirming.calibration import store
from planner.show.certainty import (
    accuracy,
    certainty_html,
    overall_sentence,
    own_sentence,
    range_sentence,
    record_sentence,
    sizes_by_basis,
)
from planner.units import format_gib
from tests import measured, plans


def test_every_byte_but_the_kv_cache_rests_on_something() -> None:
    """The sizes by basis add up to the lines without the KV cache."""
    plan = plans.fitting()
    used = sum(line.size_bytes for line in plan.limiting_rank.lines)
    cache = plan.limiting_rank.line("KV cache").size_bytes
    assert sum(sizes_by_basis(plan).values()) == used - cache
    assert sizes_by_basis(plan)["exact"] == (
        plan.limiting_rank.line("weights").size_bytes
    )


def test_the_range_is_that_of_the_kv_cache() -> None:
    """Both ends, or none where it is fixed."""
    plan = plans.fitting()
    rank = plan.limiting_rank
    assert format_gib(rank.available_kv_cache_low_bytes) in range_sentence(plan)
    assert format_gib(rank.available_kv_cache_high_bytes) in range_sentence(plan)
    fixed = planner.plan(plans.LLAMA_8B, gpu="H100", kv_cache_memory_bytes="30GiB")
    assert "fixed" in range_sentence(fixed)


def test_the_record_is_that_of_the_plans_release() -> None:
    """0.19 has many published start-ups, 0.33 none."""
    older = planner.plan(plans.LLAMA_8B, gpu="H100", vllm_version="0.19.0")
    starts = accuracy()["releases"]["0.19"]["starts"]
    assert record_sentence(older).startswith(f"vLLM 0.19: {starts} published")
    assert record_sentence(plans.fitting()).startswith("No published start-up of vLLM")


def test_what_an_own_start_measured_is_told_apart() -> None:
    """From what was fitted to published ones; the bytes still add up."""
    first = measured.plan()
    assert own_sentence(first) == ""
    record = store(first, measured.start(first)).record
    plan = measured.plan()
    rank = plan.limiting_rank
    sizes = sizes_by_basis(plan)
    names = ("peak activation", "non-torch", "CUDA graphs")
    assert sizes["measured here"] == sum(rank.line(n).size_bytes for n in names)
    assert "measured" not in sizes
    used = rank.requested_memory_bytes - rank.line("KV cache").size_bytes
    assert sum(sizes.values()) == used
    assert record.id in own_sentence(plan)
    shown = certainty_html(plan)
    assert "by one of your own starts" in shown
    assert own_sentence(plan) in shown


def test_the_panel_shows_all_of_it() -> None:
    """Nothing where vLLM allocates nothing."""
    shown = certainty_html(plans.fitting())
    assert "How sure is this?" in shown
    assert overall_sentence() in shown
    assert certainty_html(plans.refused()) == ""
