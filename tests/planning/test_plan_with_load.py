"""A plan with a load: what follows from it, and whether the start serves it."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner import Inputs, Load
from planner.export import link, read_link, read_yaml, yaml
from planner.planning.serving import serving
from planner.show.figures import key_figures
from planner.show.kv_cache import kv_cache_html, kv_cache_title
from planner.show.plan_text import plan_text
from planner.show.verdict import VerdictState, verdict

QWEN = "Qwen/Qwen3-8B"
WINDOWS, STATES = "google/gemma-3-4b-it", "Qwen/Qwen3-Next-80B-A3B-Instruct"
USERS = Load(prompt_tokens=3000, output_tokens=1000, requests=16)


def plan(model=QWEN, load=USERS, **arguments):
    """Return a plan that has a load."""
    return planner.plan(model, load=load, **{"gpu": "H100"} | arguments)


def test_length_and_requests_follow_from_the_load():
    """3000 + 1000 tokens; all 16 on the one engine."""
    made = plan()

    assert ("max_model_len", "max_num_seqs") == made.follows
    assert (3000 + 1000, 16) == (
        made.resolved.max_model_len,
        made.resolved.max_num_seqs,
    )
    assert "--max-model-len 4000 --max-num-seqs 16" in made.command()


def test_engines_share_the_requests():
    """16 on three engines: one of them has six."""
    made = plan(data_parallel_size=3)

    assert 6 == made.resolved.max_num_seqs == made.serving.share


def test_what_is_set_by_hand_stays():
    """The load does not move an argument that the user gave."""
    made = plan(max_model_len=8192)

    assert ("max_num_seqs",) == made.follows
    assert 8192 == made.resolved.max_model_len


def test_another_load_moves_what_follows():
    """As a control of the page does; and without a load vLLM's defaults return."""
    longer = plan().changed(load=Load(prompt_tokens=9000, output_tokens=1000))

    assert 10_000 == longer.resolved.max_model_len
    assert planner.plan(QWEN, gpu="H100") == plan().changed(load=None)


def test_the_inputs_hold_the_load_and_not_what_follows():
    """So a changed number of engines moves max_num_seqs again."""
    inputs = Inputs.of(plan())

    assert USERS == inputs.load
    assert {} == inputs.engine_args
    assert 8 == plan().changed(data_parallel_size=2).resolved.max_num_seqs


@pytest.mark.parametrize(
    ("arguments", "state", "served"),
    [
        # 160 blocks / 16 a request of 256 tokens = 10, less the block kept empty: 9.
        ({"num_gpu_blocks_override": 160}, VerdictState.PARTLY, 9),
        ({"num_gpu_blocks_override": 16 * 16 + 1}, VerdictState.FITS, 16),
        ({"num_gpu_blocks_override": 16 * 16}, VerdictState.PARTLY, 15),
        # Two engines of 160 blocks hold 2 x 9.
        (
            {"num_gpu_blocks_override": 160, "data_parallel_size": 2},
            VerdictState.FITS,
            16,
        ),
        # vLLM works on no more than max_num_seqs at once.
        ({"max_num_seqs": 5}, VerdictState.PARTLY, 5),
        # It refuses every request that is longer than max_model_len.
        ({"max_model_len": 128}, VerdictState.PARTLY, 0),
        ({"tensor_parallel_size": 3}, VerdictState.REFUSED, 0),
    ],
)
def test_the_verdict_has_two_parts(arguments, state, served):
    """Green only where it starts and serves all."""
    load = Load(prompt_tokens=200, output_tokens=56, requests=16)
    made = plan(load=load, **arguments)
    said = verdict(made)

    assert state == said.state
    assert (state is VerdictState.FITS) == made.serving.is_served
    assert served == made.serving.requests_served
    if state is not VerdictState.REFUSED:
        assert f"serves {served} of 16 at once" == said.serves
        assert said.serves in plan_text(made)
        assert made.fits


def test_the_margin_is_that_of_the_whole_load():
    """16 x 16 blocks and the empty one of 400: 143 are left."""
    load = Load(prompt_tokens=200, output_tokens=56, requests=16)
    made = plan(load=load, kv_cache_memory_bytes=1 << 30)
    rank = made.limiting_rank
    left = (made.num_gpu_blocks - (16 * 16 + 1)) * rank.bytes_per_block

    assert verdict(made).margin == f"+{left / (1 << 30):.2f} GiB"


def test_figures_are_of_all_engines_first():
    """DeepSeek-R1 on eight engines: vLLM logs one of them, people ask for all."""
    made = planner.plan(
        "deepseek-ai/DeepSeek-R1",
        gpu="H200",
        data_parallel_size=8,
        enable_expert_parallel=True,
    )
    tokens = made.kv_cache_size_tokens
    figures = {figure.name: figure for figure in key_figures(made)}

    assert 8 == made.engines == made.to_dict()["all_engines"]["engines"]
    assert 8 * tokens == made.all_engines.kv_cache_size_tokens
    assert f"{8 * tokens:,}" == figures["GPU KV cache size"].text
    assert f"on 8 engines, each {tokens:,}" in figures["GPU KV cache size"].detail


def test_a_comparison_counts_all_engines_and_the_load():
    """One engine of eight beside eight GPUs is no comparison."""
    one = plan(tensor_parallel_size=2)
    two = plan(data_parallel_size=2)
    rows = {row.name: row.values for row in planner.compare(one, two).rows}

    assert rows["kv_cache_size_tokens"] == (
        one.kv_cache_size_tokens,
        2 * two.kv_cache_size_tokens,
    )
    assert (1, 2) == rows["engines"]
    assert (16, 16) == rows["requests_served"]
    assert "engines" not in {row.name for row in planner.compare(one, one).rows}


@pytest.mark.parametrize("model", [QWEN, WINDOWS, STATES])
@settings(max_examples=15)
@given(prompt=st.integers(1, 30_000), requests=st.integers(1, 40))
def test_a_shorter_request_takes_what_its_own_plan_says(model, prompt, requests):
    """Law: counted beside the longest request, or planned alone: the same blocks."""
    load = Load(prompt_tokens=prompt, output_tokens=7, requests=requests)
    made = plan(model, load, gpu="B200", max_model_len=32_768, max_num_seqs=64)
    alone = planner.plan(model, gpu="B200", max_model_len=32_768, max_num_seqs=64)

    shorter = alone.changed(
        max_model_len=load.request_tokens,
        max_num_batched_tokens=alone.resolved.max_num_batched_tokens,
    )
    assert serving(alone, load).blocks_per_request == shorter.blocks_per_request
    assert serving(alone, load).requests_served == made.serving.requests_served


DOCUMENTS = Load(
    prompt_tokens=99_000, output_tokens=1000, requests=20, shared_prefix_tokens=90_000
)


def documents(**arguments):
    """Return the plan of 20 users whose prompts share nine tenths."""
    given = {"hf_overrides": {"max_position_embeddings": 131_072}, "gpu": "B300"}
    return plan("Qwen/Qwen3-32B", DOCUMENTS, **given | arguments)


def test_what_all_requests_begin_with_is_stored_once():
    """90,000 / 16 a block; 10,000 / 16 of each of 20, and the block kept empty."""
    served = documents().serving

    assert 90_000 // 16 == served.shared_blocks
    assert 1 + 90_000 // 16 + 20 * (10_000 // 16) == served.needed_blocks
    assert served.needed_blocks * 16 < 300_000 < 20 * 100_000
    assert served.is_served
    assert "5,625 (shared) + 20 x 625 + 1" in plan_text(served.plan)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"enable_prefix_caching": False}, "nothing shared (prefix caching is off)"),
        ({"model": WINDOWS}, "vLLM may evict the windows or states of a prefix"),
        ({"model": STATES}, "vLLM may evict the windows or states of a prefix"),
    ],
)
def test_nothing_is_shared_where_nothing_is_sure_to_be_found(arguments, why):
    """Every request counts with the whole of its prompt, and the verdict says so."""
    arguments = {"model": QWEN, "gpu": "B300"} | arguments
    load = replace(DOCUMENTS, prompt_tokens=30_000, shared_prefix_tokens=20_000)
    shared = plan(load=load, **arguments)
    alone = plan(load=replace(load, shared_prefix_tokens=0), **arguments)

    assert 0 == shared.serving.shared_blocks
    assert alone.serving.needed_blocks == shared.serving.needed_blocks
    assert alone.serving.requests_held == shared.serving.requests_held
    assert why in verdict(shared).sentence


def test_each_engine_stores_what_is_shared():
    """Two engines: ten requests each, and the beginning twice."""
    two = documents(data_parallel_size=2).serving

    assert 1 + 90_000 // 16 + 10 * (10_000 // 16) == two.needed_blocks
    own = (two.num_blocks - 1 - 90_000 // 16) // (10_000 // 16)
    assert 2 * own == two.requests_held


def test_the_last_token_of_a_prompt_is_never_found():
    """4,096 shared of 4,096: 4,095 are found, in 255 whole blocks."""
    load = Load(
        prompt_tokens=4096, output_tokens=16, requests=4, shared_prefix_tokens=4096
    )

    assert 4095 // 16 == plan(load=load).serving.shared_blocks


def test_a_draft_that_reads_the_model_computes_a_block_again():
    """vLLM drops the last block that is found, whose states the draft needs."""
    load = Load(
        prompt_tokens=4096, output_tokens=16, requests=4, shared_prefix_tokens=3200
    )
    made = planner.plan(
        "deepseek-ai/DeepSeek-R1",
        gpu="B300",
        tensor_parallel_size=8,
        load=load,
        speculative_config={"method": "mtp", "num_speculative_tokens": 1},
    )

    assert 32 == made.kv_groups[0].block_size
    assert 3200 // 32 - 1 == made.serving.shared_blocks


def test_a_mean_counts_requests_and_the_longest_says_what_is_certain():
    """400 blocks, one kept empty: 1,000 + 100 tokens are 69 blocks, 2,500 are 157."""
    load = Load(
        prompt_tokens=2000,
        output_tokens=500,
        requests=5,
        mean_prompt_tokens=1000,
        mean_output_tokens=100,
    )
    made = plan(load=load, num_gpu_blocks_override=400)

    assert 399 // 69 == made.serving.requests_held == 5
    assert 399 // 157 == made.serving.requests_certain == 2
    assert made.serving.is_served
    assert "serves 5 of 5 at once on average, 2 for certain" == verdict(made).serves
    assert 2500 == made.resolved.max_model_len
    as_dict = made.to_dict()["serves"]
    assert (5, 2, 69) == (
        as_dict["requests_held"],
        as_dict["requests_certain"],
        as_dict["blocks_per_request"],
    )


@settings(max_examples=40)
@given(
    prompt=st.integers(1, 6000),
    output=st.integers(0, 600),
    requests=st.integers(1, 40),
    parts=st.tuples(st.floats(0, 1), st.floats(0, 1), st.booleans()),
    blocks=st.integers(600, 4000),
)
def test_sharing_and_means_only_help(prompt, output, requests, parts, blocks):
    """Law: never fewer are held; a cache of the needed blocks serves, one less not."""
    plain = Load(prompt_tokens=prompt, output_tokens=output, requests=requests)
    mean = max(1, round(prompt * parts[0])) if parts[2] else None
    shared = round((mean or prompt) * parts[1])
    load = replace(plain, mean_prompt_tokens=mean, shared_prefix_tokens=shared)
    size = {"max_model_len": 8192, "max_num_seqs": 64}
    made = plan(load=load, num_gpu_blocks_override=blocks, **size).serving
    alone = plan(load=plain, num_gpu_blocks_override=blocks, **size).serving

    assert made.held >= alone.held
    assert made.is_served == (made.num_blocks >= made.needed_blocks)
    if shared == 0 and mean is None:
        assert alone.held == made.held


@settings(max_examples=30)
@given(
    load=st.builds(
        Load,
        prompt_tokens=st.integers(1, 40_000),
        output_tokens=st.integers(0, 900),
        requests=st.integers(1, 500),
        shared_prefix_tokens=st.integers(0, 1),
        mean_output_tokens=st.sampled_from([None, 0]),
    ),
    length=st.sampled_from([None, 8192]),
)
def test_links_and_files_bring_the_load_back(load, length):
    """Law: a plan with a load survives a link and a file, and follows as before."""
    made = plan(load=load, max_model_len=length)

    assert made == read_link(link(made)).inputs.plan()
    assert made == read_yaml(yaml(made)).inputs.plan()


@pytest.mark.parametrize(
    "query",
    [
        "load.prompt_tokens=x",
        "load.prompt_tokens=0",
        "load.requests=3",
        "load.prompt_tokens=5&load.colour=1",
        "load.prompt_tokens=99999999999",
    ],
)
def test_a_link_with_no_load_says_so(query):
    """A link can come from anywhere: nothing of it is lost silently."""
    read = read_link(f"?model={QWEN}&{query}")

    assert read.inputs.load is None
    assert "load" in " ".join(read.ignored)


def test_solvers_take_the_load_of_a_plan():
    """Nobody says twice what the users need."""
    made = plan(gpu="L4")
    fewest = planner.solve.fewest_gpus(made, gpus=["L4", "L40S"])

    assert fewest == planner.solve.fewest_gpus(QWEN, gpus=["L4", "L40S"], load=USERS)
    assert fewest.plan.serving.is_served
    assert planner.speed_bound(made) == planner.speed_bound(made, USERS)


def test_two_longest_lengths_say_why_they_differ():
    """vLLM computes its message in the middle of the range, we at its low end."""
    made = planner.plan("Qwen/Qwen3-32B", gpu="H100", max_model_len=40_960)
    longest = key_figures(made)[-1]
    low, middle = made.max_model_len_that_fits, made.estimated_max_model_len

    assert low < middle
    assert f"{low:,}" == longest.text
    assert f"vLLM's {middle:,} is for the middle" in longest.detail


def test_the_blocks_of_all_engines_are_added_up():
    """The arithmetic from one engine to all stands where blocks are explained."""
    made = plan(data_parallel_size=4)
    inside = kv_cache_html(made)

    assert f"{4 * made.num_gpu_blocks:,} blocks" in kv_cache_title(made)
    assert f"4 engines hold 4 x {made.max_concurrency:,.2f} =" in inside
    assert "engines hold" not in kv_cache_html(plan())
