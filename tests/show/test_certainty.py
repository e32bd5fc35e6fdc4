"""How sure is this: what the panel says."""

import planner
from planner.confirming.calibration import store
from planner.show.certainty import (
    accuracy,
    certainty_html,
    compared,
    features_of,
    overall_sentence,
    own_sentence,
    range_sentence,
    record_sentences,
    sentences,
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


def test_the_record_is_that_of_the_plans_model_gpu_and_release() -> None:
    """Llama-3.1-8B on an H100 with 0.19 was started often."""
    older = planner.plan(plans.LLAMA_8B, gpu="H100", vllm_version="0.19.0")
    architecture = older.model.architecture
    mine = [
        row
        for row in compared("published")
        if (row.release, row.gpu, row.architecture) == ("0.19", "H100", architecture)
    ]
    assert len(mine) > 10
    said = record_sentences(older)
    assert said[0] == "Each part of this plan was compared with published starts."
    assert said[1].startswith(
        f"This model, GPU and release: {len(mine)} published starts, KV cache off by "
    )
    starts = accuracy()["releases"]["0.19"]["starts"]
    assert any(one.startswith(f"vLLM 0.19: {starts} published starts") for one in said)


def test_what_is_not_known_comes_first() -> None:
    """No start of an RTX 5090 or of 0.33 was published; dry runs of 0.33 are known."""
    plan = planner.plan(
        plans.LLAMA_8B, gpu="RTX5090", data_parallel_size=2, vllm_version="0.33.0"
    )
    said = record_sentences(plan)
    assert said[0].startswith(
        "Not compared with any published start: vLLM 0.33, RTX5090, data parallel."
    )
    assert not any(one.startswith("This model, GPU and release") for one in said)
    runs = [
        row
        for row in compared("dry")
        if (row.release, row.architecture) == ("0.33", plan.model.architecture)
    ]
    assert runs
    assert f"with vLLM 0.33: {len(runs)} dry runs" in said[-1]


def test_features_are_those_that_were_asked_for() -> None:
    """One GPU and a dense model in 16 bits have none."""
    assert features_of(planner.plan(plans.LLAMA_8B, gpu="H100")) == ()
    many = planner.plan(
        plans.LLAMA_8B,
        gpu="H100",
        tensor_parallel_size=2,
        enable_lora=True,
        kv_cache_dtype="fp8",
    )
    expected = ("tensor parallel", "adapters", "a quantised KV cache")
    assert features_of(many) == expected


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
    assert len(sentences(plan)) == 3


def test_the_panel_shows_all_of_it() -> None:
    """Nothing where vLLM allocates nothing."""
    shown = certainty_html(plans.fitting())
    assert "How sure is this?" in shown
    assert overall_sentence() in shown
    assert certainty_html(plans.refused()) == ""
