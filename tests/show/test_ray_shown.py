"""How a pipeline and its placement are shown: text, HTML, figure, command line."""

import json

import pytest

from planner import Load, ray
from planner.app.cli import main
from planner.ray import Node, Pipeline, Placement
from planner.show.charts.ray_nodes import figure_spec
from planner.show.palette import SWATCHES
from planner.units import GIB

NODES = [Node(name="a", cpus=32, gpus=4), Node(name="b", cpus=32, gpus=1)]


def pipeline(**given: object) -> Pipeline:
    """Return two replicas of two GPUs, and half a GPU before them."""
    asked = {
        "gpu": "H100",
        "max_model_len": 8192,
        "tensor_parallel_size": 2,
        "concurrency": (2, 2),
        "preprocess_map_kwargs": {"num_gpus": 0.5, "concurrency": 1},
    }
    return ray.pipeline("Qwen/Qwen3-8B", **(asked | given))


def placement() -> Placement:
    """Return these on five GPUs: 2 x 2 and 0.5."""
    return pipeline().on(NODES)


def test_the_text_says_totals_and_stages() -> None:
    """2 x 2 + 0.5 = 4.5 GPUs; to start 2 + 0.5."""
    text = str(pipeline())

    assert "4.5 GPUs at most: 2 replicas of 2 and 0.5 for preprocess; 2.5 to" in text
    assert "A placement group: 2 x (GPU 1, CPU 1), PACK." in text


def test_each_gpu_is_a_bar_with_the_replicas_lines_in_their_colours() -> None:
    """Five GPUs, four with a replica; its lines add up to what vLLM may take."""
    found = placement()
    spec = figure_spec(found)
    memory = [t for t in spec["data"] if t["yaxis"] == "y" and t["name"] != "left"]
    rank = found.pipeline.plan.ranks[0]

    assert [["a"] * 4 + ["b"], ["0", "1", "2", "3", "0"]] == memory[0]["x"]
    assert [SWATCHES[t["name"]].fill for t in memory if t["name"] in SWATCHES] == [
        t["marker"]["color"] for t in memory if t["name"] in SWATCHES
    ]
    for gpu in range(4):
        drawn = sum(trace["y"][gpu] for trace in memory)
        assert round(rank.requested_memory_bytes / GIB, 1) == round(drawn, 1)
    assert 0 == sum(trace["y"][4] for trace in memory)


def test_the_shares_of_a_gpu_add_up_to_one() -> None:
    """Replicas, half a GPU before them, and what is free."""
    shares = [t["y"] for t in figure_spec(placement())["data"] if t["yaxis"] == "y2"]

    assert [1, 1, 1, 1, 1] == [sum(column) for column in zip(*shares, strict=True)]
    assert 0.5 == shares[-1][4]  # free beside preprocess


def test_figures_and_html_draw_without_a_cluster() -> None:
    """Without nodes, as many of eight GPUs as are needed."""
    assert len(pipeline().figure().data)
    html = placement()._repr_mimebundle_()["text/html"]
    assert "2 of 2 replicas placed; the job can run" in html
    assert (
        "Stages, in the order in which rows pass them"
        in pipeline()._repr_mimebundle_()["text/html"]
    )


def test_frames_have_a_row_for_each_stage_and_worker() -> None:
    """Six stages of a text model; two engines among the workers."""
    pytest.importorskip("pandas")

    assert 6 == len(pipeline().to_frame())
    frame = placement().to_frame()
    assert 2 == (frame["stage"] == "vLLMEngineStage").sum()


def test_a_load_bounds_rows_and_time() -> None:
    """Rows per second = replicas x tokens per second / (tokens of an answer - 1)."""
    load = Load(prompt_tokens=1000, output_tokens=101)
    bound = pipeline(load=load, num_rows=10_000).throughput

    assert bound is not None
    each = bound.speed.total_at_most_tokens_per_second / 100
    assert (each, 2 * each) == (
        bound.rows_per_second_per_replica,
        bound.rows_per_second,
    )
    assert 10_000 / (2 * each) == bound.at_least_seconds


def test_few_rows_leave_engines_without_any() -> None:
    """40 rows are 2 batches of 32: 2 of 8 engines get one."""
    found = pipeline(concurrency=(8, 8), num_rows=40)

    assert any("at most 2 of 8 engines" in c.message for c in found.cautions)


@pytest.mark.parametrize(
    ("given", "kind", "is_fatal"),
    [
        ({"max_num_seqs": 512}, "starved", False),
        ({"max_pending_requests": 64}, "pending", False),
        ({"concurrency": 4}, "autoscaling", False),
        ({"preprocess_map_kwargs": {"num_gpus": 1}}, "no_limit", False),
        ({"data_parallel_size": 2}, "data_parallel", True),
        (
            {"max_model_len": 40960, "gpu": "L4", "tensor_parallel_size": 1},
            "memory",
            True,
        ),
        ({"ray_version": "2.50.0"}, "in_flight", False),
        ({"placement_group_config": {"bundles": [{"CPU": 1}]}}, "group", True),
    ],
)
def test_what_numbers_do_not_say_is_a_caution(
    given: dict, kind: str, *, is_fatal: bool
) -> None:
    """Each with a remedy."""
    if given.get("ray_version"):
        given = {**given, "preprocess_map_kwargs": None}
    found = pipeline(**given)

    assert is_fatal in [c.is_fatal for c in found.cautions if c.kind == kind]


def test_a_group_without_a_cpu_never_starts_its_actor() -> None:
    """The actor asks for a CPU within its own group."""
    found = pipeline(placement_group_config={"bundle_per_worker": {"GPU": 1}})

    assert "group" in [c.kind for c in found.cautions if c.is_fatal]
    assert "never" == found.on(NODES).replicas[0].state


def test_half_gpus_over_rays_executor_need_vllms_own_variable() -> None:
    """vLLM's workers ask for a whole GPU unless VLLM_RAY_PER_WORKER_GPUS says less."""
    half = {"placement_group_config": {"bundle_per_worker": {"GPU": 0.5, "CPU": 1}}}
    told = pipeline(**half, env={"VLLM_RAY_PER_WORKER_GPUS": "0.5"})

    kinds = [c.message for c in pipeline(**half).cautions if c.kind == "group"]
    assert 1 == len(kinds)
    assert "Set VLLM_RAY_PER_WORKER_GPUS=0.5" in kinds[0]
    assert [] == [c for c in told.cautions if c.kind == "group"]


def test_the_command_line_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """DeepSeek-R1: 64 GPUs; on 3 nodes of 8 one replica of four is placed."""
    words = "--tensor-parallel-size 8 --pipeline-parallel-size 2 --concurrency 4 --json"
    model = ["ray", "deepseek-ai/DeepSeek-R1", "--max-model-len", "32768"]

    assert 0 == main([*model, *words.split(), "--nodes", "3"])
    told = json.loads(capsys.readouterr().out)
    assert (64, 16) == (told["gpus_total"], told["gpus_per_replica"])
    assert {"placed": 1, "waits": 3, "never": 0} == told["placement"]["replicas"]


def test_the_command_line_says_how_many_nodes_are_needed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """2 to 6 replicas of one GPU on nodes of two."""
    words = ["--concurrency", "2,6", "--gpus-per-node", "2", "--max-model-len", "4096"]

    assert 0 == main(["ray", "Qwen/Qwen3-8B", *words])
    assert "1 to start, 1 for the fewest workers, 3 for the" in capsys.readouterr().out


def test_the_command_line_refuses_a_minimum_above_the_maximum(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A sentence, and status 2."""
    assert 2 == main(["ray", "Qwen/Qwen3-8B", "--concurrency", "8,2"])
    assert "the minimum, 8, is above the maximum, 2" in capsys.readouterr().err


def test_rows_between_stages_take_two_blocks_of_each_worker() -> None:
    """Six stages; 1 + 2 + 2 + 2 + 2 + 1 = 10 workers x 2 x 128 MiB = 2.5 GiB."""
    found = pipeline()
    nodes = [Node(name="a", cpus=32, gpus=8, object_store_memory_bytes=30 * GIB)]

    assert 5 * GIB // 2 == found.object_store_bytes
    assert 15 * GIB == found.on(nodes).object_store_usable_bytes
    assert "up to 2.50 GiB" in str(found)
