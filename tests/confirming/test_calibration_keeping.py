"""A start becomes a record, or a sentence why not."""

from dataclasses import replace

import pytest

from planner.confirming.calibration import record_of, store
from planner.confirming.measurement import EngineFigures, Measurement
from planner.engine.releases import NEWEST
from planner.planning.calibrations.store import NotStored, everything
from planner.units import GIB, MIB
from tests import measured


def test_a_start_is_stored_under_gpu_release_model_and_settings(data_folder):
    """One file named by the id, with the figures of the account without the cache."""
    plan = measured.plan()
    kept = store(plan, measured.start(plan))
    assert data_folder / "calibration" / "v1" / f"{kept.record.id}.json" == kept.path
    assert (kept.record,) == everything().records
    record = kept.record
    assert (NEWEST, "LlamaForCausalLM") == (
        record.key.vllm_version,
        record.key.architecture,
    )
    assert plan.gpu.device_name == record.device
    assert record.is_dummy
    sizes = {line.covers: line.size_bytes for line in record.ranks[0].lines}
    assert {
        ("weights",): plan.ranks[0].allocated_weights_bytes,
        ("persistent buffers", "non-torch"): measured.REST,
        ("peak activation",): measured.PEAK,
    } == sizes
    assert measured.GRAPHS == record.ranks[0].cudagraph_estimate_bytes


def test_what_only_divides_the_memory_is_not_in_the_key():
    """Another share, a fixed cache, another length: the same record."""
    first = measured.plan()
    record = record_of(first, measured.start(first))
    for arguments in (
        {"gpu_memory_utilization": 0.5},
        {"max_model_len": 4096},
        {"num_gpu_blocks_override": 1000},
        {"served_model_name": "mine", "entrypoint": "llm"} | _batch(first),
        {"env": {"HF_HOME": "/somewhere", "CUDA_VISIBLE_DEVICES": "1"}},
    ):
        plan = measured.plan(**arguments)
        assert record.id == record_of(plan, measured.start(plan)).id


def _batch(plan):
    """The batch of the server, for the entry point that would have another."""
    return {
        "max_num_batched_tokens": plan.resolved.max_num_batched_tokens,
        "max_num_seqs": plan.resolved.max_num_seqs,
    }


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_num_seqs": 256},
        {"max_num_batched_tokens": 2048},
        {"enforce_eager": True},
        {"kv_cache_dtype": "fp8"},
        {"dtype": "float16"},
        {"quantization": "fp8"},
        {"attention_backend": "TRITON_ATTN"},
        {"cudagraph_capture_sizes": [1, 2, 4]},
        {"enable_lora": True},
        {"vllm_version": "0.32.0"},
        {"env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}},
        {"env": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}},
        {"model": "Qwen/Qwen3-8B"},
        {"gpu": "H200"},
    ],
    ids=str,
)
def test_what_decides_memory_is_in_the_key(arguments):
    """Another batch, graphs, dtype, kernel, adapters, release, variable, model, GPU."""
    first, other = measured.plan(), measured.plan(**arguments)
    ids = {record_of(plan, measured.start(plan)).id for plan in (first, other)}
    assert 2 == len(ids)


def test_latent_attention_depends_on_the_length():
    """It takes room for its context, so 4,096 and 8,192 tokens are two records."""
    ids = set()
    for length in (4096, 8192):
        plan = measured.plan(
            model="deepseek-ai/DeepSeek-V2-Lite-Chat", max_model_len=length
        )
        ids.add(record_of(plan, measured.start(plan)).id)
    assert 2 == len(ids)


def test_a_length_that_vllm_chooses_is_called_auto():
    """The shortened length is not known before the start."""
    plan = measured.plan(
        model="deepseek-ai/DeepSeek-V2-Lite-Chat", gpu="A100-40GB", max_model_len="auto"
    )
    record = record_of(plan, measured.start(plan))
    assert '"max_model_len": "auto"' in record.key.settings


def test_fine_tunes_of_one_shape_share_a_record():
    """The name is told, and does not count."""
    ids, names = set(), set()
    for name in (measured.LLAMA_8B, "deepseek-ai/DeepSeek-R1-Distill-Llama-8B"):
        plan = measured.plan(model=name)
        record = record_of(plan, measured.start(plan))
        ids.add(record.id)
        names.add(record.model_name)
    assert (1, 2) == (len(ids), len(names))


def test_each_stage_keeps_the_rank_with_the_least_left():
    """Two stages of two ranks: ranks 0 and 1 are the first stage, 2 and 3 the other."""
    plan = measured.plan(tensor_parallel_size=2, pipeline_parallel_size=2)
    workers = [
        measured.worker(plan, rank, rank // 2, available_kv_cache_bytes=left * GIB)
        for rank, left in enumerate((9, 8, 6, 7))
    ]
    record = record_of(plan, measured.start(plan, *workers))
    assert [0, 1] == [rank.pp_rank for rank in record.ranks]
    left = [rank.figure("available_kv_cache_bytes") for rank in record.ranks]
    assert [8 * GIB, 6 * GIB] == left


def test_another_release_is_not_stored():
    """The plan's rules are not those of what ran."""
    plan = measured.plan()
    with pytest.raises(
        NotStored, match=r"vLLM 0\.32\.0 ran, and the plan is for 0\.33"
    ):
        store(plan, measured.start(plan, vllm_version="0.32.0+cu130"))


def test_a_build_without_a_releases_number_is_not_stored():
    """Nor is it known which rules it has; a log that names none is taken as planned."""
    plan = measured.plan()
    with pytest.raises(NotStored, match="vLLM dev ran"):
        store(plan, measured.start(plan, vllm_version="dev"))
    assert record_of(plan, measured.start(plan, vllm_version=None))


def test_ranks_that_told_nothing_are_left_out():
    """One of two ended before it measured."""
    plan = measured.plan(tensor_parallel_size=2)
    silent = measured.worker(plan, 0, available_kv_cache_bytes=None)
    record = record_of(plan, measured.start(plan, silent, measured.worker(plan, 1)))
    assert [0] == [rank.pp_rank for rank in record.ranks]


def test_another_gpu_is_not_stored():
    """The plan's defaults are those of the other card."""
    plan = measured.plan()
    with pytest.raises(NotStored, match="ran on a NVIDIA H200, and the plan is for a"):
        store(plan, measured.start(plan, device_name="NVIDIA H200"))


def test_another_batch_is_not_stored():
    """vLLM chose another default than the plan."""
    plan = measured.plan()
    ran = measured.start(plan, engine=EngineFigures(max_num_seqs=128))
    with pytest.raises(NotStored, match="max_num_seqs=128, and the plan has 1024"):
        store(plan, ran)


def test_a_start_without_figures_is_not_stored():
    """It failed before it measured, or measured nothing because the cache is fixed."""
    plan = measured.plan()
    with pytest.raises(NotStored, match="did not get as far"):
        store(plan, Measurement(vllm_version=NEWEST))
    fixed = measured.worker(
        plan,
        consumed_bytes=None,
        peak_activation_bytes=None,
        cudagraph_estimate_bytes=None,
    )
    with pytest.raises(NotStored, match="kv_cache_memory_bytes fixes"):
        store(plan, measured.start(plan, fixed))
    refused = measured.plan(tensor_parallel_size=3)
    with pytest.raises(NotStored, match="refuses this plan"):
        store(refused, Measurement())
    assert () == everything().records


def test_memory_of_others_that_moved_is_not_stored():
    """As far as a look at the driver tells, or a figure below zero."""
    plan = measured.plan()
    ran = measured.start(plan)
    with pytest.raises(NotStored, match=r"Other processes changed .* by 1\.00 GiB"):
        store(plan, ran, moved_bytes=-GIB)
    store(plan, ran, moved_bytes=16 * MIB)
    weights = plan.ranks[0].allocated_weights_bytes
    worker = measured.worker(plan, consumed_bytes=weights - GIB)
    with pytest.raises(NotStored, match="another process gave memory back"):
        store(plan, measured.start(plan, worker))


def test_memory_that_a_processor_shares_is_not_stored():
    """Starts of one plan on a GB10 were published 4 GiB apart."""
    plan = measured.plan(gpu="GB10")
    with pytest.raises(NotStored, match="share their memory"):
        store(plan, measured.start(plan))


def test_switched_off_nothing_is_stored(monkeypatch):
    """PLANNER_CALIBRATION=off leaves the folder alone."""
    monkeypatch.setenv("PLANNER_CALIBRATION", "off")
    plan = measured.plan()
    with pytest.raises(NotStored, match="PLANNER_CALIBRATION is off"):
        store(plan, measured.start(plan))


def test_the_newer_start_of_the_same_replaces_the_older():
    """One record for each key, with the later date."""
    plan = measured.plan()
    store(plan, measured.start(plan))
    later = replace(measured.start(plan), date="2026-11-22T08:00:00+00:00")
    store(plan, later)
    assert ["2026-11-22"] == [record.day for record in everything().records]
