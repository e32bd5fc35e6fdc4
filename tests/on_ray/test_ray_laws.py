"""Laws of pipelines and their placement, for whatever is asked."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner import ray
from planner.planning.result import Plan
from planner.ray import Node, NodeType, Pipeline
from planner.ray.bundles import in_units

FEW = settings(max_examples=40, deadline=None)
shares = st.sampled_from([0, 0.25, 0.4, 0.5, 0.6, 1, 2])
pools = st.tuples(st.integers(1, 4), st.integers(0, 5)).map(lambda p: (p[0], sum(p)))


@cache
def plan(tensor: int, stages: int) -> Plan:
    """Return a plan of so many GPUs; one for all examples."""
    return planner.plan(
        "Qwen/Qwen3-8B",
        max_model_len=4096,
        tensor_parallel_size=tensor,
        pipeline_parallel_size=stages,
    )


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    """Any pool, layout, executor and stages beside the engine."""
    layout = draw(st.sampled_from([(1, 1), (2, 1), (4, 1), (2, 2)]))
    backend = draw(st.sampled_from([None, "mp", "ray"]))
    before = {"num_gpus": draw(shares), "concurrency": draw(st.integers(1, 3))}
    return ray.pipeline(
        plan(*layout),
        concurrency=draw(pools),
        distributed_executor_backend=backend,
        preprocess_map_kwargs=before,
        postprocess_map_kwargs={"num_gpus": draw(shares), "concurrency": 1},
    )


clusters = st.lists(
    st.tuples(st.integers(0, 24), st.sampled_from([0, 1, 2, 4, 8])),
    min_size=1,
    max_size=4,
).map(
    lambda sizes: [
        Node(name=f"n{number}", cpus=cpus, gpus=gpus)
        for number, (cpus, gpus) in enumerate(sizes)
    ]
)


@FEW
@given(pipelines())
def test_totals_add_up(found: Pipeline) -> None:
    """Most = replicas x GPUs + each stage's; start <= fewest <= most."""
    beside = [stage for stage in found.stages if not stage.is_engine]
    engines = found.replicas_maximum * found.gpus_per_replica
    most = engines + sum(stage.gpus_maximum for stage in beside)

    assert in_units(most) == in_units(found.gpus_total)
    assert found.gpus_to_start <= found.gpus_minimum <= found.gpus_maximum
    assert found.cpus_to_start <= found.cpus_minimum <= found.cpus_maximum


@FEW
@given(pipelines(), clusters)
def test_placement_never_gives_a_resource_twice(
    found: Pipeline, nodes: list[Node]
) -> None:
    """What lies on a node is at most what it has; on each GPU at most all of it."""
    placed = found.on(nodes)

    for node in nodes:
        on_it = [
            (worker.group.bundles[place.bundle], place.gpus)
            for worker in placed.workers
            for place in worker.places
            if place.node == node.name
        ]
        for name in ("CPU", "GPU"):
            taken = sum(in_units(bundle.get(name)) for bundle, _ in on_it)
            assert taken <= in_units(node.total.get(name))
        for gpu in range(int(node.gpus)):
            used = [s for _, gpus in on_it for index, s in gpus if index == gpu]
            assert in_units(sum(used)) <= 10_000


@FEW
@given(pipelines(), clusters)
def test_each_worker_is_placed_whole_or_says_why(
    found: Pipeline, nodes: list[Node]
) -> None:
    """Every bundle of a placed worker has a node; others have none, and a reason."""
    for worker in found.on(nodes).workers:
        count = len(worker.group.bundles) if worker.state == "placed" else 0
        assert count == len(worker.places)
        assert worker.why.endswith((".", "PACK."))


@FEW
@given(pipelines(), clusters)
def test_a_larger_cluster_makes_never_no_more_frequent(
    found: Pipeline, nodes: list[Node]
) -> None:
    """What nodes can hold when empty, they can hold beside one more."""
    more = [*nodes, Node(name="more", cpus=64, gpus=8)]

    assert found.on(more).count("never") <= found.on(nodes).count("never")


@FEW
@given(st.sampled_from([(1, 1), (2, 1), (4, 1), (2, 2)]), st.integers(1, 9))
def test_more_replicas_never_need_fewer_nodes(
    layout: tuple[int, int], count: int
) -> None:
    """On nodes of one type."""
    kind = NodeType(name="node", cpus=32, gpus=4)

    fewer, more = (
        ray.pipeline(plan(*layout), concurrency=(number, number)).nodes_needed([kind])
        for number in (count, count + 1)
    )
    assert fewer.minimum <= more.minimum
    assert fewer.maximum <= more.maximum


@FEW
@given(pipelines())
def test_the_nodes_that_are_needed_hold_every_worker(found: Pipeline) -> None:
    """Planned for the most workers, none waits and rows flow."""
    kind = NodeType(name="node", cpus=200, gpus=8)
    nodes = found.nodes_needed([kind]).nodes()

    assert len(nodes) >= found.gpus_total / 8
    assert found.on(nodes).can_start


def test_nodes_of_one_name_are_refused() -> None:
    """A placement says where by name."""
    twice = [Node(name="a", gpus=1), Node(name="a", gpus=1)]

    with pytest.raises(planner.PlannerError) as refused:
        ray.pipeline(plan(1, 1)).on(twice)
    assert "Two nodes are called a" in str(refused.value)
