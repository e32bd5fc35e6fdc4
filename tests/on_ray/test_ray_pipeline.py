"""planner.ray.pipeline: GPUs, CPUs and groups, by the release of Ray."""

import pytest

import planner
from planner import ray
from planner.errors import PlannerError
from planner.ray import Bundle, Node, NodeType
from planner.ray.releases import RayRelease

R1 = {
    "tensor_parallel_size": 8,
    "pipeline_parallel_size": 2,
    "distributed_executor_backend": "ray",
    "accelerator_type": "H100",
    "max_model_len": 32768,
}
SMALL = {"gpu": "H100", "max_model_len": 4096}
QWEN = "Qwen/Qwen3-8B"


def test_the_guides_pipeline_takes_16_gpus_a_worker_and_64_in_all() -> None:
    """DeepSeek-R1, pipeline 2 x tensor 8 = 16 GPUs; 4 workers x 16 = 64."""
    found = ray.pipeline("deepseek-ai/DeepSeek-R1", gpu="H100", concurrency=4, **R1)

    assert (16, 64) == (found.gpus_per_replica, found.gpus_total)
    bundle = Bundle.of({"GPU": 1, "CPU": 1, "accelerator_type:H100": 0.001})
    group = found.placement_groups[0]
    assert ((bundle,) * 16, "PACK") == (group.bundles, group.strategy)
    eight = NodeType(name="8xH100", cpus=96, gpus=8, accelerator_type="H100")
    needed = found.nodes_needed([eight])
    assert (2, 8) == (needed.minimum[0], needed.maximum[0])
    placed = found.on(needed.nodes())
    assert (4, True) == (placed.count("placed"), placed.can_start)


def test_the_guides_pre_and_postprocessing_add_their_gpus() -> None:
    """0.5 x 2 + 1 x 4 + 1 x 1 = 6 GPUs; 8 CPUs x 2 before, 1 x 1 after."""
    found = ray.pipeline(
        QWEN,
        concurrency=4,
        preprocess_map_kwargs={"num_cpus": 8, "num_gpus": 0.5, "concurrency": 2},
        postprocess_map_kwargs={"num_gpus": 1, "concurrency": 1},
        **SMALL,
    )

    assert 6 == found.gpus_total
    by_name = {stage.name: stage for stage in found.stages}
    assert (1.0, 16) == (
        by_name["preprocess"].gpus_maximum,
        by_name["preprocess"].cpus_maximum,
    )


def test_two_instances_share_a_gpu_at_half_a_gpu_each() -> None:
    """The guide's gpu_memory_utilization=0.45: 2 x 0.5 GPUs on one GPU."""
    found = ray.pipeline(
        QWEN,
        concurrency=(2, 2),
        gpu_memory_utilization=0.45,
        placement_group_config={"bundle_per_worker": {"GPU": 0.5, "CPU": 1}},
        **SMALL,
    )

    assert (0.5, 1) == (found.gpus_per_replica, found.gpus_total)
    placed = found.on([Node(name="one", cpus=8, gpus=1)])
    assert [((0, 0.5),)] * 2 == [r.places[0].gpus for r in placed.replicas]


@pytest.mark.parametrize(
    ("version", "expected"),
    [("2.54.1", (4, 4, 4)), ("2.55.0", (1, 4, 1)), ("2.60.0", (1, 4, 1))],
)
def test_one_number_is_a_fixed_pool_until_2_54_and_a_range_since(
    version: str, expected: tuple[int, int, int]
) -> None:
    """get_concurrency(autoscaling_enabled=True) came with 2.55."""
    found = ray.pipeline(QWEN, concurrency=4, ray_version=version, **SMALL)

    assert expected == (found.gpus_minimum, found.gpus_maximum, found.replicas_minimum)
    assert 1 == found.gpus_to_start


@pytest.mark.parametrize(
    ("version", "gpus", "backend", "strategy", "bundles"),
    [
        ("2.44.1", 1, "mp", "PACK", 1),
        ("2.53.0", 4, "mp", "PACK", 1),
        ("2.54.0", 1, "uni", "PACK", 1),
        ("2.54.0", 4, "ray", "PACK", 4),
    ],
)
def test_the_release_chooses_the_executor(
    version: str, gpus: int, backend: str, strategy: str, bundles: int
) -> None:
    """Processes of one node before 2.54; since then Ray's for several GPUs."""
    found = ray.pipeline(QWEN, ray_version=version, tensor_parallel_size=gpus, **SMALL)

    group = found.engine.worker
    assert (backend, strategy, bundles, gpus) == (
        found.backend,
        group.strategy,
        len(group.bundles),
        group.gpus,
    )


def test_the_engine_that_ray_starts_has_the_schedulers_defaults() -> None:
    """AsyncLLM is neither server nor LLM class: 2,048 tokens and 128 requests."""
    found = ray.pipeline(QWEN, **SMALL)

    resolved = found.plan.resolved
    assert resolved is not None
    assert (2048, 128) == (resolved.max_num_batched_tokens, resolved.max_num_seqs)
    assert 141 == found.max_pending_requests  # ceil(128 x 1 x 1.1)
    assert 141 == found.rows_in_flight  # min(8 x 32, 141)


def test_a_plan_is_kept_as_it_is() -> None:
    """What was planned is what the pipeline shows."""
    plan = planner.plan(QWEN, tensor_parallel_size=2, **SMALL)

    found = ray.pipeline(plan, concurrency=(1, 3))

    assert plan is found.plan
    assert (2, 6) == (found.gpus_minimum, found.gpus_maximum)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"concurrency": (8, 2)}, "the minimum, 8, is above the maximum, 2"),
        ({"concurrency": 0}, "a number of engines from 1"),
        ({"concurrency": (1, 2), "ray_version": "2.49.0"}, "needs Ray 2.50"),
        ({"ray_version": "2.30"}, "modelled from 2.44.0 to 2.60.0"),
        ({"batch_size": 0}, "batch_size=0: a whole number from 1"),
        ({"preprocess_map_kwargs": {"concurrency": (1, 2)}}, "not a callable class"),
        ({"preprocess_map_kwargs": {"num_gpus": 0.00001}}, "cannot go beyond 0.0001"),
        ({"resources_per_bundle": {"GPU": 1}}, "use placement_group_config"),
        ({"placement_group_config": {"strategy": "PACK"}}, "needs bundle_per_worker"),
        ({"placement_group_config": [1]}, "a table such as"),
        ({"placement_group_config": {"bundles": [1]}}, "a bundle names resources"),
        (
            {"placement_group_config": {"bundles": [{"GPU": 1}], "strategy": "ANY"}},
            "Ray has PACK, STRICT_PACK, SPREAD",
        ),
        ({"preprocess_map_kwargs": [1]}, "a table such as"),
        ({"tensor_parallel_size": 2, "distributed_executor_backend": "uni"}, "one GPU"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(given: dict, said: str) -> None:
    """Each says what was given, and what to do."""
    with pytest.raises(planner.PlannerError) as refused:
        ray.pipeline(QWEN, **SMALL, **given)

    assert said in str(refused.value)


def test_an_accelerator_that_no_node_has_is_never_placed() -> None:
    """The resource accelerator_type:H100 is on no node."""
    found = ray.pipeline(QWEN, accelerator_type="H100", **SMALL)

    placed = found.on([Node(name="a", cpus=8, gpus=8, accelerator_type="L4")])

    assert (1, False) == (placed.count("never"), placed.can_start)
    assert placed.replicas[0].why.startswith(
        "No node has accelerator type H100; there is L4."
    )


def test_more_gpus_than_a_node_has_need_rays_executor() -> None:
    """16 GPUs of one engine as processes of one node, on nodes of 8."""
    found = ray.pipeline(
        QWEN,
        tensor_parallel_size=8,
        pipeline_parallel_size=2,
        distributed_executor_backend="mp",
        **SMALL,
    )
    eight = NodeType(name="8xH100", cpus=96, gpus=8)

    with pytest.raises(planner.PlannerError) as refused:
        found.nodes_needed([eight])
    assert "One node must hold 16 of GPU, and the largest has 8" in str(refused.value)
    assert "distributed_executor_backend='ray'" in str(refused.value)


def test_an_accelerator_type_alone_says_the_gpu() -> None:
    """Ray's A100-40G is the planner's A100-40GB; a TPU is no GPU."""
    found = ray.pipeline(QWEN, accelerator_type="A100-40G", max_model_len=4096)

    assert "A100-40GB" == found.plan.gpu.name
    with pytest.raises(planner.PlannerError) as refused:
        ray.pipeline(QWEN, accelerator_type="TPU-V6E")
    assert "knows no GPU of that name" in str(refused.value)


def test_a_plan_for_another_gpu_than_engines_ask_for_is_a_caution() -> None:
    """Planned for an H100, asked for on nodes with an L4."""
    found = ray.pipeline(QWEN, accelerator_type="L4", **SMALL)

    assert ["accelerator"] == [c.kind for c in found.cautions if "H100" in c.message]


def test_a_release_of_ray_has_short_numbers() -> None:
    """A number of five thousand digits is none."""
    with pytest.raises(PlannerError, match="a release such as"):
        RayRelease.named(f"{'9' * 5000}.1")
