"""The solver on one start: worked examples, with the arithmetic in sight.

A model of one layer makes the blocks easy: 1 KV head x 64 + 64 values x 2 bytes = 256
bytes a token, 16 tokens a block: 4,096 bytes.
"""

from dataclasses import replace

import pytest

import planner
from planner import GPU, Inputs, Load, PlannerError, solve
from planner.units import GIB
from tests.configs import BERT, LLAMA_8B, architecture
from tests.hybrids import MAMBA

BLOCK_BYTES = 4096
TINY = architecture(
    LLAMA_8B,
    hidden_size=64,
    intermediate_size=64,
    num_hidden_layers=1,
    num_attention_heads=1,
    num_key_value_heads=1,
    vocab_size=64,
    max_position_embeddings=10_000,
    rope_scaling=None,
)


def blocks(number):
    """The bytes of so many blocks of the tiny model."""
    return number * BLOCK_BYTES


def test_the_longest_context_is_what_the_blocks_hold_less_the_empty_one():
    """101 blocks - 1 that stays empty = 100 x 16 tokens."""
    found = solve.longest_context(TINY, kv_cache_memory_bytes=blocks(101))

    assert 1600 == found.value
    assert "tokens" == found.unit
    assert found.plan.fits
    assert not found.next_plan.fits
    assert 1601 == found.next_plan.settings.max_model_len
    assert (
        "At max_model_len=1,600: 1 request of 1,600 tokens needs 1 x 100 + 1 (stays "
        "empty) = 101 blocks; 101 are available (413,696 bytes = 0.00 GiB / 4,096 per "
        "block). At 1,601: 1 request of 1,601 tokens needs 1 x 101 + 1 (stays empty) = "
        "102 blocks, but only 101 are available (413,696 bytes = 0.00 GiB / 4,096 per "
        "block)." == found.why
    )


def test_several_requests_share_the_blocks():
    """100 blocks / 7 requests = 14 each x 16 tokens; output is the end of each."""
    found = solve.longest_context(
        TINY, requests=7, output_tokens=24, kv_cache_memory_bytes=blocks(101)
    )

    assert 14 * 16 == found.value
    assert Load(prompt_tokens=200, output_tokens=24, requests=7) == found.load
    assert 7 == found.plan.settings.max_num_seqs
    assert "200 tokens of prompt + 24 of output." in found.why


def test_max_num_seqs_stays_where_no_number_of_requests_is_asked_for():
    """One request is what vLLM itself checks; its own default stays."""
    found = solve.longest_context(TINY, kv_cache_memory_bytes=blocks(101))

    assert found.plan.settings.max_num_seqs is None
    assert "--max-num-seqs" not in found.command()


def test_the_longest_context_ends_where_the_model_does():
    """vLLM refuses more than max_position_embeddings, however much memory there is."""
    found = solve.longest_context(TINY, kv_cache_memory_bytes=blocks(10_000))

    assert 10_000 == found.value
    assert "refused" == found.next_plan.error.kind
    assert "vLLM says: User-specified max_model_len (10001)" in found.why


def test_an_allowed_longer_context_ends_where_the_blocks_do():
    """VLLM_ALLOW_LONG_MAX_MODEL_LEN=1: 999 blocks x 16 = 15,984 tokens."""
    found = solve.longest_context(
        TINY,
        env={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"},
        kv_cache_memory_bytes=blocks(1000),
    )

    assert 999 * 16 == found.value


def test_states_do_not_limit_the_length():
    """Mamba keeps one state a request, and its config names no length: 2^30 ends it."""
    found = solve.longest_context(architecture(MAMBA), "H100", requests=4)

    assert 1 << 30 == found.value
    assert found.next_plan is None
    assert "the search ends here" in found.why


def test_fewer_states_than_vllm_works_on_by_default_lower_max_num_seqs():
    """vLLM refuses 1,024 sequences with fewer states, and says how many it takes."""
    config = "Qwen/Qwen3-Next-80B-A3B-Instruct"
    arguments = {"tensor_parallel_size": 8, "kv_cache_memory_bytes": 2 * GIB}
    refused = planner.plan(config, max_model_len=8192, **arguments)

    found = solve.longest_context(config, **arguments)

    assert "num_seqs" == refused.error.kind
    assert found.plan.fits
    assert found.plan.settings.max_num_seqs == found.plan.num_gpu_blocks


def test_the_most_requests_are_what_the_blocks_hold():
    """A request of 100 + 28 tokens takes 8 blocks: 100 / 8 = 12.5."""
    found = solve.most_requests(
        TINY, prompt_tokens=100, output_tokens=28, kv_cache_memory_bytes=blocks(101)
    )

    assert 12 == found.value
    assert 12 == found.plan.settings.max_num_seqs
    assert 128 == found.plan.settings.max_model_len
    assert 13 == found.next_plan.settings.max_num_seqs
    assert found.next_plan.fits
    assert "12 x 8 + 1 (stays empty) = 97 blocks; 101 are" in found.why
    assert "13 x 8 + 1 (stays empty) = 105 blocks, but only" in found.why


def test_a_given_max_num_seqs_stays_and_limits():
    """16 sequences are never 17 at once, however many blocks there are."""
    found = solve.most_requests(TINY, "H100", prompt_tokens=100, max_num_seqs=16)

    assert 16 == found.value
    assert (
        "max_num_seqs=16 lets vLLM work on 16 requests at once, not on 17" in found.why
    )


def test_a_given_max_model_len_stays_and_requests_count_at_their_own_length():
    """max_model_len 1,600 takes 100 blocks; the load's 128 tokens take 8 of 100."""
    found = solve.most_requests(
        TINY,
        prompt_tokens=128,
        max_model_len=1600,
        kv_cache_memory_bytes=blocks(101),
    )

    assert 12 == found.value
    assert 1600 == found.plan.settings.max_model_len


def test_a_length_that_is_left_to_vllm_becomes_that_of_the_load():
    """auto fits the length to the memory; a load says how long it must be."""
    found = solve.most_requests(
        TINY,
        prompt_tokens=128,
        max_model_len="auto",
        kv_cache_memory_bytes=blocks(101),
    )

    assert (12, 128) == (found.value, found.plan.settings.max_model_len)


def test_copies_serve_a_share_each():
    """3 copies x 12 requests; the 37th makes 13 on one of them."""
    found = solve.most_requests(
        TINY,
        prompt_tokens=128,
        data_parallel_size=3,
        kv_cache_memory_bytes=blocks(101),
    )

    assert 36 == found.value
    assert 12 == found.plan.settings.max_num_seqs
    assert "13 requests of 128 tokens on each of 3 copies need 13 x 8" in found.why


def test_blocks_that_are_overridden_count():
    """num_gpu_blocks_override=41: 40 blocks / 8."""
    found = solve.most_requests(TINY, prompt_tokens=128, num_gpu_blocks_override=41)

    assert 5 == found.value
    assert "= 41 blocks; 41 are available. 6:" in found.why


def test_a_model_without_a_cache_is_limited_by_the_step():
    """BERT keeps nothing: a step of 16,384 tokens takes as many sequences."""
    found = solve.most_requests(
        architecture(BERT), prompt_tokens=512, max_num_batched_tokens=16_384
    )

    assert 16_384 == found.value
    assert "stores nothing between steps" in found.why
    assert "must be greater than or equal to max_num_seqs (16385)" in found.why


def test_the_smallest_kv_cache_is_exact_to_the_byte():
    """(12 requests x 8 blocks + 1) x 4,096 bytes; a byte less is a block less."""
    found = solve.smallest_kv_cache_memory(TINY, prompt_tokens=128, requests=12)

    assert blocks(97) == found.value
    assert blocks(97) - 1 == found.next_plan.settings.kv_cache_memory_bytes
    assert "With 397,312 bytes:" in found.why
    assert found.plan.fits


def test_the_smallest_utilization_is_one_that_can_be_typed():
    """In steps of 0.01; one less leaves too few blocks."""
    load = Load(prompt_tokens=3000, output_tokens=1000, requests=16)
    found = solve.smallest_utilization("Qwen/Qwen3-8B", "H100", load=load)

    assert found.value == round(found.value, 2)
    assert found.value == found.plan.settings.gpu_memory_utilization
    below = found.next_plan.settings.gpu_memory_utilization
    assert 0.01 == round(found.value - below, 9)
    needed = 16 * 250 + 1
    assert low_blocks(found.next_plan) < needed <= low_blocks(found.plan)


def low_blocks(plan):
    """KV cache blocks at the low end of the estimate."""
    rank = plan.limiting_rank
    return rank.available_kv_cache_low_bytes // rank.bytes_per_block


def test_a_finer_step_finds_a_smaller_utilization():
    """Thousandths lie between hundredths."""
    load = Load(prompt_tokens=3000, output_tokens=1000, requests=16)
    coarse = solve.smallest_utilization("Qwen/Qwen3-8B", load=load)
    fine = solve.smallest_utilization("Qwen/Qwen3-8B", load=load, step=0.001)

    assert coarse.value - 0.01 < fine.value <= coarse.value


def test_memory_that_others_hold_is_no_room():
    """40 GiB are free: what needs 60 finds no share, and the nearest load is named."""
    gpu = GPU.named("H100", free_memory_bytes=40 * GIB)
    load = Load(prompt_tokens=4096, output_tokens=0, requests=64)
    assert solve.smallest_utilization("Qwen/Qwen3-8B", "H100", load=load).is_found

    found = solve.smallest_utilization("Qwen/Qwen3-8B", gpu, load=load)

    assert found.value is None
    assert "Even at gpu_memory_utilization=0.5:" in found.why
    assert found.nearest[0].requests < 64
    assert found.nearest[1].request_tokens < 4096


def test_an_impossible_load_names_the_nearest_ones():
    """Fewer requests of that length, and as many that are shorter; both are served."""
    load = Load(prompt_tokens=7000, output_tokens=1192, requests=64)
    found = solve.smallest_utilization("Qwen/Qwen3-8B", "L4", load=load)

    fewer, shorter = found.nearest
    assert found.value is None
    assert found.plan is None
    assert (8192, 64) == (fewer.request_tokens, shorter.requests)
    assert (
        f"Nearest that is served: {fewer.requests} requests of 8,192 tokens or 64 "
        in (found.why)
    )
    for possible in found.nearest:
        again = solve.smallest_utilization("Qwen/Qwen3-8B", "L4", load=possible)
        assert again.is_found


def test_weights_that_do_not_fit_name_the_gpus_that_hold_them():
    """131 GiB of weights: two H100 hold them, each half."""
    found = solve.longest_context("meta-llama/Llama-3.1-70B-Instruct", "H100")

    assert found.value is None
    assert "The weights take 131.45 GiB" in found.why
    assert "Nearest that serves it: 2 x H100 (tensor parallel 2)." in found.why


def test_a_kv_cache_must_find_room_on_the_gpu():
    """A load may need more than the GPU has; vLLM would find out when it allocates."""
    load = Load(prompt_tokens=4000, output_tokens=0, requests=64)
    found = solve.smallest_kv_cache_memory("Qwen/Qwen3-8B", "L4", load=load)

    assert found.value is None
    # 64 x 250 + 1 blocks x 36 layers x 16 tokens x 8 heads x 256 values x 2 bytes
    assert (
        f"{16_001 * 36 * 16 * 8 * 256 * 2:,} bytes, and the GPU has room" in found.why
    )
    assert [8, 64] == [possible.requests for possible in found.nearest]


def test_a_plan_can_be_asked_about():
    """What a plan was given counts: GPU, release, entry point and arguments."""
    plan = planner.plan(
        "Qwen/Qwen3-8B",
        gpu="L4",
        vllm_version="0.29.0",
        entrypoint="llm",
        kv_cache_dtype="fp8",
        max_model_len=4096,
    )
    found = solve.longest_context(plan)

    settings = found.plan.settings
    assert found.value > 4096
    assert ("L4", "0.29.0", "llm", "fp8") == (
        found.plan.gpu.name,
        found.plan.vllm_version,
        found.plan.entrypoint,
        settings.kv_cache_dtype,
    )
    assert found == solve.longest_context(Inputs.of(plan))


def test_a_processor_serves_too():
    """vLLM's CPU build takes a share of the machine's memory."""
    machine = GPU(name="CPU", total_memory_bytes=64 * GIB)
    load = Load(prompt_tokens=1000, output_tokens=24, requests=4)
    found = solve.smallest_utilization(
        "Qwen/Qwen3-0.6B", machine, load=load, vllm_version="0.32.0", block_size=32
    )

    assert found.is_found
    assert found.plan.gpu.is_cpu
    assert not found.next_plan.fits or low_blocks(found.next_plan) < 4 * 32 + 1


@pytest.mark.parametrize(
    ("asked", "named", "message"),
    [
        (solve.most_requests, {}, "prompt_tokens"),
        (
            solve.most_requests,
            {"prompt_tokens": 10, "requests": 3},
            "is the answer here",
        ),
        (solve.longest_context, {"prompt_tokens": 10}, "leave it out"),
        (solve.longest_context, {"requests": 0}, "requests=0"),
        (solve.longest_context, {"requests": 1.5}, "requests=1.5"),
        (solve.longest_context, {"output_tokens": -1}, "output_tokens=-1"),
        (solve.smallest_utilization, {"requests": 3}, "without prompt_tokens="),
        (solve.smallest_utilization, {"prompt_tokens": 0}, "prompt_tokens=0"),
        (solve.smallest_utilization, {"step": 0}, "step=0"),
        (solve.smallest_utilization, {"step": 2}, "step=2"),
        (solve.smallest_utilization, {"step": "a"}, "step='a'"),
        (solve.smallest_utilization, {"load": 3}, "load=3"),
        (solve.smallest_utilization, {"max_modle_len": 3}, "max_model_len"),
        (solve.smallest_kv_cache_memory, {"gpu": "H101"}, "H100"),
    ],
)
def test_malformed_input_is_named(asked, named, message):
    """Not serving is an answer; what cannot be understood is an error."""
    with pytest.raises(PlannerError, match=message):
        asked(TINY, **named)


def test_a_load_is_given_once():
    """As a value or in its parts."""
    load = Load(prompt_tokens=10, output_tokens=0)
    with pytest.raises(PlannerError, match="are two ways to give the load"):
        solve.smallest_utilization(TINY, load=load, prompt_tokens=10)


@pytest.mark.parametrize(
    "asked",
    [
        solve.most_requests,
        solve.smallest_utilization,
        solve.smallest_kv_cache_memory,
        solve.fewest_gpus,
        solve.instances_on_one_gpu,
    ],
)
def test_a_load_may_stand_behind_the_model(asked):
    """Where a GPU stands otherwise; as `planner.advise(plan, load)` takes it."""
    load = Load(prompt_tokens=10, output_tokens=5, requests=2)
    plan = planner.plan("facebook/opt-125m", gpu="L4")

    assert asked(plan, load) == asked(plan, load=load)
    with pytest.raises(PlannerError, match="given twice"):
        asked(plan, load, load=load)


def test_a_load_behind_several_models_is_each_ones():
    """The GPU is the first plan's."""
    plans = [planner.plan("facebook/opt-125m", gpu="L4")] * 2
    load = Load(prompt_tokens=10, output_tokens=5, requests=2)

    found = solve.instances_on_one_gpu(plans, load)

    assert found == solve.instances_on_one_gpu(plans, "L4", load=load)
    assert load == found.load


@pytest.mark.parametrize(
    ("asked", "instead"),
    [
        (solve.longest_context, "requests="),
        (solve.layouts, "planner.solve.fewest_gpus"),
    ],
)
def test_a_load_without_a_question_for_it_says_what_to_write(asked, instead):
    """The length is the answer of one, and the other counts no requests."""
    with pytest.raises(PlannerError, match=instead):
        asked(TINY, Load(prompt_tokens=10, output_tokens=5))


def test_a_model_is_a_name_a_path_or_a_plan():
    """Anything else is named."""
    with pytest.raises(PlannerError, match="model=3"):
        solve.longest_context(3)


def test_one_notion_of_serving_can_be_asked_for():
    """How many requests of a length a plan holds, and whether it serves a load."""
    plan = planner.plan(
        TINY, max_model_len=1600, max_num_seqs=16, kv_cache_memory_bytes=blocks(101)
    )
    load = Load(prompt_tokens=128, output_tokens=0, requests=12)

    assert solve.serving(plan, load).is_served
    assert 12 == solve.serving(plan, load).requests_held
    assert not solve.serving(plan, replace(load, requests=13)).is_served
    assert not solve.serving(plan, replace(load, prompt_tokens=1601)).is_served
    assert 1 == solve.serving(plan).requests_held


def test_too_many_requests_of_any_length_name_the_most_and_the_longest():
    """No length serves 2,000 at once: logits and tables of so many leave no cache."""
    found = solve.longest_context("Qwen/Qwen3-8B", "L4", requests=2000)

    most, alone = found.nearest
    assert found.value is None
    assert "No length serves 2,000 requests" in found.why
    assert 1 < most.requests < 2000
    assert 1 == alone.requests < most.requests
    assert alone.request_tokens > most.request_tokens
    for load in found.nearest:
        assert solve.smallest_utilization("Qwen/Qwen3-8B", "L4", load=load).is_found


def test_what_vllm_refuses_everywhere_names_no_gpu():
    """An L4 cannot hold the model, and no GPU makes it take 200,000 tokens."""
    found = solve.most_requests(
        "meta-llama/Llama-3.1-70B-Instruct", "L4", prompt_tokens=200_000
    )

    assert found.value is None
    assert "vLLM refuses it on any GPU: User-specified max_model_len" in (found.why)


@pytest.mark.parametrize(
    ("times", "told"),
    [
        (400, "Nearest that serves it: 20 x GB300 (tensor parallel 4, pipeline "),
        (2000, "the largest GPU of the catalogue, do not serve it either."),
    ],
)
def test_a_model_for_several_machines_says_how_many_gpus(times, told):
    """32 layers x 3 x 4,096 x 14,336 x 400 values x 2 bytes = 4.2 TiB, and 5 x that."""
    model = architecture(LLAMA_8B, intermediate_size=14_336 * times)

    found = solve.longest_context(model, "H100")

    assert found.value is None
    assert told in found.why
