"""What a start measured takes the place of a plan's estimates."""

from math import ceil

import pytest

import planner
from planner.confirming.calibration import store
from planner.confirming.log import LogReading
from planner.memory.account import Basis
from planner.memory.lines.activations import compile_bytes
from planner.units import GIB, MIB
from tests import measured

USED = ("peak activation", "non-torch", "CUDA graphs")


def _stored(plan, *workers, **facts):
    return store(plan, measured.start(plan, *workers, **facts)).record


def test_a_later_plan_has_the_measured_lines_and_says_so():
    """3 GiB stay and 1 GiB is given back: the cache is what vLLM had left, exactly."""
    first = measured.plan()
    record = _stored(first)
    plan = measured.plan()
    rank = plan.ranks[0]
    for name in USED:
        line = rank.line(name)
        assert (Basis.MEASURED, record.id) == (line.basis, line.record)
        assert record.id in line.why
        assert "2026-11-21" in line.why
    assert measured.PEAK == rank.line("peak activation").size_bytes
    assert measured.GRAPHS == rank.line("CUDA graphs").size_bytes
    stays = [rank.line(name).size_bytes for name in ("persistent buffers", "non-torch")]
    assert measured.REST == sum(stays)
    left = record.ranks[0].figure("available_kv_cache_bytes")
    assert left == rank.available_kv_cache_bytes
    assert rank.requested_memory_bytes == sum(line.size_bytes for line in rank.lines)
    (note,) = [note for note in plan.notes if record.id in note]
    assert "with random weights" in note
    assert f"planner calibration forget {record.id}" in note


def test_the_weights_stay_those_of_vllms_code():
    """What the start told is the same to a segment of PyTorch's."""
    first = measured.plan()
    size = first.ranks[0].allocated_weights_bytes
    told = measured.worker(
        first, weights_bytes=size + MIB, consumed_bytes=size + MIB + measured.REST
    )
    _stored(first, told)
    rank = measured.plan().ranks[0]
    assert (Basis.EXACT, size) == (
        rank.line("weights").basis,
        rank.line("weights").size_bytes,
    )
    stays = [rank.line(name).size_bytes for name in ("persistent buffers", "non-torch")]
    assert measured.REST + MIB == sum(stays)


def test_weights_of_another_size_are_taken_over_and_reported():
    """1 GiB more than computed."""
    first = measured.plan()
    size = first.ranks[0].allocated_weights_bytes + GIB
    told = measured.worker(
        first, weights_bytes=size, consumed_bytes=size + measured.REST
    )
    _stored(first, told)
    plan = measured.plan()
    line = plan.ranks[0].line("weights")
    assert (Basis.MEASURED, size) == (line.basis, line.size_bytes)
    assert [note for note in plan.notes if "weights differ from the computed" in note]


@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
def test_another_share_of_the_gpu_profits_as_well(share):
    """The cache is the new budget less the same figures."""
    first = measured.plan()
    _stored(first)
    rank = measured.plan(gpu_memory_utilization=share).ranks[0]
    used = measured.REST + measured.PEAK + measured.GRAPHS
    weights = first.ranks[0].allocated_weights_bytes
    expected = rank.requested_memory_bytes - weights - used
    assert expected == rank.available_kv_cache_bytes


def test_the_range_is_narrower_and_holds_the_measured():
    """Another start of the same may differ a little; the estimate's range is wider."""
    before = measured.plan().ranks[0]
    _stored(measured.plan())
    after = measured.plan().ranks[0]
    assert _width(after) < _width(before) / 2
    low, high = after.available_kv_cache_low_bytes, after.available_kv_cache_high_bytes
    assert low < after.available_kv_cache_bytes < high


def _width(rank):
    return rank.available_kv_cache_high_bytes - rank.available_kv_cache_low_bytes


def test_a_start_that_found_its_compiled_model_leaves_room_for_one_that_does_not():
    """A first start's copy of the word embeddings: above a warm start, below a cold."""
    few = {"max_num_seqs": 16}
    more = compile_bytes(measured.plan(**few).ranks[0].profile_run)
    assert more > 100 * MIB
    lines = {}
    for is_cold in (True, False):
        _stored(measured.plan(**few), is_compile_cache_cold=is_cold)
        lines[is_cold] = measured.plan(**few).ranks[0].line("peak activation")
    assert lines[True].high_bytes + more == lines[False].high_bytes
    assert lines[True].low_bytes + more == lines[False].low_bytes


def test_graphs_that_are_not_charged_stay_beside_the_budget():
    """A fixed cache has no estimate taken off, whatever was measured."""
    _stored(measured.plan())
    rank = measured.plan(kv_cache_memory_bytes="20GiB").ranks[0]
    assert 0 == rank.line("CUDA graphs").size_bytes
    assert measured.PEAK == rank.line("peak activation").size_bytes
    assert 20 * GIB == rank.line("KV cache").size_bytes
    assert rank.requested_memory_bytes == sum(line.size_bytes for line in rank.lines)


def test_graphs_as_they_were_captured_stand_beside_the_budget():
    """0.75 GiB captured, 500 MiB of it charged: 268 MiB beside; a log rounds."""
    captured = LogReading(figures={"cudagraph_gib": 0.75})
    _stored(measured.plan(), log=captured)
    plan = measured.plan()
    rank = plan.ranks[0]
    assert 768 * MIB == rank.captured_graph_bytes == plan.to_dict()["cudagraph_bytes"]
    (line,) = [line for line in rank.outside if line.name == "CUDA graphs not charged"]
    assert 268 * MIB == line.size_bytes
    assert "768.0 MiB captured - 500.0 MiB charged" in line.why


def test_graphs_of_stages_are_not_told_apart():
    """The log has one line for each, which does not say whose it is."""
    arguments = {"pipeline_parallel_size": 2}
    first = measured.plan(**arguments)
    workers = [measured.worker(first, stage, stage) for stage in (0, 1)]
    captured = LogReading(figures={"cudagraph_gib": 0.75})
    _stored(first, *workers, log=captured)
    expected = first.ranks[0].captured_graph_bytes
    assert expected == measured.plan(**arguments).ranks[0].captured_graph_bytes


def test_up_to_0_26_each_line_is_measured_by_itself():
    """Peak and non-torch memory are two figures there."""
    first = measured.plan(vllm_version="0.19.0")
    _stored(first, measured.older_worker(first))
    rank = measured.plan(vllm_version="0.19.0").ranks[0]
    assert measured.REST == rank.line("non-torch").size_bytes
    assert measured.PEAK == rank.line("peak activation").size_bytes
    assert not rank.line("persistent buffers").record


def test_a_sum_smaller_than_the_estimates_cuts_them():
    """100 MiB stay, less than the buffers that the code asks for."""
    first = measured.plan()
    weights = first.ranks[0].allocated_weights_bytes
    assert 100 * MIB < first.ranks[0].line("persistent buffers").size_bytes
    _stored(first, measured.worker(first, consumed_bytes=weights + 100 * MIB))
    rank = measured.plan().ranks[0]
    assert 100 * MIB == rank.line("persistent buffers").size_bytes
    assert 0 == rank.line("non-torch").size_bytes


def test_one_sum_for_all_of_it_is_shared_out():
    """A backend that measures its process alone: buffers and peak keep theirs."""
    first = measured.plan(enforce_eager=True)
    weights = first.ranks[0].allocated_weights_bytes
    told = measured.worker(
        first,
        weights_bytes=None,
        consumed_bytes=weights + 8 * GIB,
        peak_activation_bytes=None,
        cudagraph_estimate_bytes=None,
    )
    _stored(first, told)
    rank = measured.plan(enforce_eager=True).ranks[0]
    for name in ("persistent buffers", "peak activation"):
        expected = first.ranks[0].line(name).size_bytes
        assert expected == rank.line(name).size_bytes
    names = ("persistent buffers", "peak activation", "non-torch")
    assert 8 * GIB == sum(rank.line(name).size_bytes for name in names)


def test_each_stage_has_its_own_figures():
    """The second stage's rest is 2 GiB larger; one that told nothing is estimated."""
    arguments = {"pipeline_parallel_size": 2}
    first = measured.plan(**arguments)
    workers = []
    for stage in (0, 1):
        weights = first.ranks[stage].allocated_weights_bytes
        rest = measured.REST + stage * 2 * GIB
        workers.append(
            measured.worker(first, stage, stage, consumed_bytes=weights + rest)
        )
    _stored(first, *workers)
    sums = [
        sum(rank.line(name).size_bytes for name in ("persistent buffers", "non-torch"))
        for rank in measured.plan(**arguments).ranks
    ]
    assert [measured.REST, measured.REST + 2 * GIB] == sums
    _stored(first, workers[0])
    ranks = measured.plan(**arguments).ranks
    assert ranks[0].line("non-torch").record
    assert not ranks[1].line("non-torch").record


@pytest.mark.parametrize(
    "arguments",
    [
        {"gpu": "H200"},
        {"vllm_version": "0.32.0"},
        {"max_num_seqs": 64},
        {"max_num_batched_tokens": 4096},
        {"enforce_eager": True},
        {"tensor_parallel_size": 2},
        {"model": "Qwen/Qwen3-8B"},
        {"env": {"VLLM_USE_FLASHINFER_SAMPLER": "0"}},
    ],
    ids=str,
)
def test_another_start_does_not_use_it(arguments):
    """Another GPU, release, batch, model: the plan is as without the record."""
    before = measured.plan(**arguments)
    _stored(measured.plan())
    assert before == measured.plan(**arguments)


def test_a_total_within_a_mebibyte_is_the_same_gpu():
    """Drivers keep a little more or less for themselves."""
    record = _stored(measured.larger(measured.plan(), MIB))
    assert record.id == measured.plan().ranks[0].line("non-torch").record


def test_a_catalogues_total_gives_way_to_what_vllm_saw():
    """A driver that keeps 64 MiB less: budget and figures are the start's own."""
    far = measured.larger(measured.plan(), 64 * MIB)
    share = far.resolved.gpu_memory_utilization
    requested = ceil(far.gpu.total_memory_bytes * share)
    record = _stored(far)
    plan = measured.plan()
    rank = plan.ranks[0]
    assert record.id == rank.line("non-torch").record
    assert far.gpu.total_memory_bytes == plan.gpu.total_memory_bytes
    assert requested == rank.requested_memory_bytes
    (note,) = [note for note in plan.notes if record.id in note]
    assert "counts with them instead of 79.19 GiB" in note


def test_another_card_of_the_name_is_not_used_and_said():
    """A GiB apart, or a total that was given; the note says how to use it."""
    far = measured.larger(measured.plan(), GIB)
    record = _stored(far)
    plan = measured.plan()
    assert not plan.ranks[0].line("non-torch").record
    (note,) = [note for note in plan.notes if "it is not used" in note]
    total = far.gpu.total_memory_bytes
    assert f"total_memory_bytes={total}" in note
    own = planner.GPU.named("H100", total_memory_bytes=total)
    assert record.id == measured.plan(gpu=own).ranks[0].line("non-torch").record
    less = planner.GPU.named("H100", total_memory_bytes=total - 64 * MIB)
    assert not measured.plan(gpu=less).ranks[0].line("non-torch").record


def test_the_store_can_be_left_aside(monkeypatch):
    """PLANNER_CALIBRATION=off."""
    before = measured.plan()
    _stored(before)
    monkeypatch.setenv("PLANNER_CALIBRATION", "off")
    assert before == measured.plan()


# Another start of the same family

OLDER = {"vllm_version": "0.19.0"}


def _stored_older(**arguments):
    first = measured.plan(**OLDER, **arguments)
    return _stored(first, measured.older_worker(first, non_torch_bytes=200 * MIB))


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_num_seqs": 64, "cudagraph_capture_sizes": [1, 2, 4]},
        {"max_num_batched_tokens": 2048, "cudagraph_capture_sizes": [1, 2, 4]},
        {
            "model": "meta-llama/Llama-3.2-1B-Instruct",
            "cudagraph_capture_sizes": [1, 2, 4],
        },
    ],
    ids=str,
)
def test_non_torch_memory_serves_the_whole_family(arguments):
    """Another batch or size of the class; every other line is estimated as before."""
    before = measured.plan(**OLDER, **arguments).ranks[0]
    record = _stored_older(cudagraph_capture_sizes=[1, 2, 4])
    plan = measured.plan(**OLDER, **arguments)
    rank = plan.ranks[0]
    assert 200 * MIB == rank.line("non-torch").size_bytes
    assert record.id == rank.line("non-torch").record
    for name in ("weights", "peak activation", "CUDA graphs"):
        assert before.line(name) == rank.line(name)
    (note,) = [note for note in plan.notes if record.id in note]
    assert note.startswith("Non-torch memory is that of record")
    assert rank.requested_memory_bytes == sum(line.size_bytes for line in rank.lines)


@pytest.mark.parametrize(
    "arguments",
    [
        {"model": "Qwen/Qwen3-8B"},
        {"enforce_eager": True},
        {"tensor_parallel_size": 2},
        {"pipeline_parallel_size": 2},
        {"quantization": "fp8"},
        {"attention_backend": "TRITON_ATTN"},
    ],
    ids=str,
)
def test_other_families_ranks_and_kernels_are_estimated(arguments):
    """What could load other modules or buffers."""
    before = measured.plan(**OLDER, **arguments)
    _stored_older()
    assert before == measured.plan(**OLDER, **arguments)


def test_fused_all_reduce_grows_with_the_batch_so_it_is_estimated():
    """Two ranks of an H100 hold buffers by the message; its size is the batch's."""
    arguments = {"tensor_parallel_size": 2, "cudagraph_capture_sizes": [1]}
    _stored_older(**arguments)
    plan = measured.plan(**OLDER, **arguments, max_num_batched_tokens=1024)
    assert not plan.ranks[0].line("non-torch").record
    assert measured.plan(**OLDER, **arguments).ranks[0].line("non-torch").record


def test_from_0_27_on_the_family_tells_nothing():
    """What stays is one sum there, which grows with vocabulary and batch."""
    _stored(measured.plan())
    rank = measured.plan(max_num_batched_tokens=2048).ranks[0]
    assert not any(line.record for line in rank.lines)
