"""Pages that are pasted alone: nvidia-smi, a server's metrics, a config.json."""

from __future__ import annotations

import planner
from planner.engine.gpu import GPU
from planner.reading.logs.pages import reading_of_page
from planner.reading.reading import Kind, Reading
from planner.units import GIB, MIB
from tests.rows import each_row

TABLE = """
|   0  NVIDIA GeForce RTX 4090        Off |   00000000:01:00.0 Off |          Off |
| 30%   35C    P8             22W /  450W |    1024MiB /  24564MiB |      0%  N/A |
+-----------------------------------------+------------------------+--------------+
|   1  NVIDIA GeForce RTX 4090        Off |   00000000:02:00.0 Off |          Off |
| 30%   35C    P8             22W /  450W |       0MiB /  24564MiB |      0%  N/A |
"""
QUERY = """
    Product Name                          : NVIDIA L40S
    FB Memory Usage
        Total                             : 46068 MiB
        Reserved                          : 600 MiB
        Used                              : 12000 MiB
        Free                              : 33468 MiB
    BAR1 Memory Usage
        Free                              : 65536 MiB
"""
CSV = "name, memory.used [MiB]\nNVIDIA A10G, 10 MiB\nNVIDIA A10G, 2048 MiB\n"
LISTS = (
    # Text, GPU, number of them, and what others take of the fullest.
    (TABLE, "RTX4090", 2, 1024),
    (QUERY, "L40S", 1, None),
    (CSV, "A10G", 2, 2048),
    ("$ nvidia-smi -L\nGPU 0: NVIDIA H200 (UUID: GPU-1)\n", "H200", 1, None),
    (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5d)\n"
        "  MIG 3g.40gb     Device  0: (UUID: MIG-1)\n"
        "  MIG 3g.40gb     Device  1: (UUID: MIG-2)\n",
        "H100-MIG-3g.40gb",
        2,
        None,
    ),
)
METRICS = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="Qwen/Qwen3-8B"} 4.0
vllm:kv_cache_usage_perc{engine="0",model_name="Qwen/Qwen3-8B"} 0.53
vllm:cache_config_info{engine="0",gpu_memory_utilization="0.9",num_gpu_blocks="9"} 1.0
process_open_fds 42.0
"""
CONFIG = '{"model_type": "qwen3", "hidden_size": 4096, "architectures": ["Qwen3For"]%s}'


@each_row("row", LISTS)
def test_a_list_of_gpus_tells_gpu_count_and_free_memory(
    row: tuple[str, str, int, int | None],
) -> None:
    """Every form of nvidia-smi; the fullest of the GPUs limits the plan."""
    text, name, count, used = row

    found = planner.read(text)

    assert isinstance(found.gpu, GPU)
    assert (found.kind, found.gpu.name, found.gpus) == (Kind.GPUS, name, count)
    if used is not None:
        free = found.gpu.free_memory_bytes
        assert free == found.gpu.total_memory_bytes - used * MIB


def test_the_free_memory_of_a_query_is_taken_as_it_is() -> None:
    """33,468 MiB are free, whatever the catalogue's total."""
    found = planner.read(QUERY)

    assert isinstance(found.gpu, GPU)
    assert found.gpu.free_memory_bytes == 33468 * MIB
    plan = found.plan(model="Qwen/Qwen3-8B", gpu_memory_utilization=0.5)
    assert plan.gpu.free_memory_bytes == 33468 * MIB < 33 * GIB


def test_a_question_beside_a_list_is_a_question() -> None:
    """What is asked comes before what is listed."""
    found = planner.read("Does Qwen3-8B fit?\nGPU 0: NVIDIA L4 (UUID: GPU-1)\n")

    assert found.kind is Kind.QUESTION
    assert found.model == "Qwen/Qwen3-8B"


def test_metrics_are_those_of_a_server_that_runs() -> None:
    """As if the server were asked: the figures of use, the settings, the model."""
    found: Reading = planner.read(METRICS)

    assert (found.kind, found.model) == (Kind.SERVER, "Qwen/Qwen3-8B")
    assert found.engine_args == {"gpu_memory_utilization": 0.9}
    assert found.log is not None
    assert found.log.figures["kv_cache_usage"] == 0.53


def test_a_config_is_a_model() -> None:
    """By the name that it has; without one, it says how to plan it."""
    named = planner.read(CONFIG % ', "_name_or_path": "Qwen/Qwen3-8B"')
    unnamed = planner.read(CONFIG % "")

    assert (named.kind, named.model) == (Kind.MODEL, "Qwen/Qwen3-8B")
    assert unnamed.model is None
    assert "save it in a folder" in unnamed.open[0]


def test_a_line_of_blanks_is_passed_over_at_once() -> None:
    """By its square it would take minutes."""
    text = f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1)\n{' ' * 60_000}x?\n"
    found = reading_of_page(text)

    assert found is not None
    assert 1 == found.gpus


def test_of_several_kinds_the_one_that_the_words_name() -> None:
    """`nvidia-smi -L` of two kinds: the question is about one of them."""
    listed = (
        "GPU 0: NVIDIA GeForce RTX 5090 (UUID: GPU-1)\n"
        "GPU 1: NVIDIA GeForce RTX 3090 (UUID: GPU-2)\n"
    )
    for name in ("5090", "3090"):
        found = planner.read(f"Will Qwen3-8B fit on the {name} alone?\n\n{listed}")
        assert (found.gpu.name, found.gpus) == (f"RTX{name}", 1)


def test_a_config_in_a_letter_is_that_of_a_model() -> None:
    """With the GPU that the words name; it has to be in a folder to be planned."""
    config = '{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32}'
    found = planner.read(f"My finetune, KV cache per token? I have a 3090.\n\n{config}")
    assert (found.kind, found.gpu.name) == (Kind.MODEL, "RTX3090")
    assert "config.json of a model (llama)" in found.open[0]
