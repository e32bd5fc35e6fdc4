"""Many workers, many nodes and odd amounts: an answer or a sentence, in few steps."""

import pytest

import planner
from planner import PlannerError, ray
from planner.app.cli import main
from planner.planning.result import Plan
from planner.ray import Node, NodeType
from planner.ray.node_counts import _Cluster
from planner.ray.node_usage import Effort, NodeCapacity, reserve
from planner.ray.rooms import Room

EIGHT = NodeType(name="node", cpus=96, gpus=8)
LINE = ("ray", "Qwen/Qwen3-8B", "--gpu", "L4", "--max-model-len", "8k")
NAN, ENDLESS = float("nan"), float("inf")


def plan(tensor: int = 1) -> Plan:
    """Return a plan of so many GPUs."""
    return planner.plan(
        "Qwen/Qwen3-8B", gpu="L4", max_model_len=8192, tensor_parallel_size=tensor
    )


def said(call) -> str:
    """Return the sentence that a call ends in."""
    with pytest.raises(PlannerError) as refused:
        call()
    return str(refused.value)


def test_thousands_of_engines_are_counted() -> None:
    """2,000 engines on nodes of eight GPUs: 250 of them."""
    needed = ray.pipeline(plan(), concurrency=(1, 2000)).nodes_needed([EIGHT])

    assert needed.maximum == (250,)


def test_an_engine_of_1024_gpus_needs_128_nodes_of_eight() -> None:
    """Nodes are added by division, not one more at each try."""
    needed = ray.pipeline(plan(1024)).nodes_needed([EIGHT])

    assert needed.to_dict()["to_start"] == {"node": 128}


def test_the_steps_of_a_worker_do_not_grow_with_the_nodes() -> None:
    """Of equal nodes, one is looked at: ten times the workers, ten times the steps."""

    def steps(count: int) -> int:
        room = Room((), Effort())
        stage = ray.pipeline(plan(), concurrency=(count, count)).engine
        _Cluster((EIGHT,), room).add_all([(stage, count)])
        return room.effort.spent

    assert steps(1000) <= 10.1 * steps(100)


@pytest.mark.parametrize("count", [100_000, 10**9, 10**18])
def test_too_many_engines_are_a_sentence_before_any_is_placed(count: int) -> None:
    """Their number is checked first."""
    found = ray.pipeline(plan(), concurrency=count)

    assert "too many to place" in said(lambda: found.nodes_needed([EIGHT]))
    assert "too many to place" in said(lambda: found.on([EIGHT.node("a")]))
    assert "too many to place" in said(lambda: planner.export.ray_cluster(found))


def test_too_many_nodes_are_a_sentence() -> None:
    """A type with a billion nodes from the start."""
    many = NodeType(name="node", cpus=96, gpus=8, min_nodes=10**9)

    assert "fewer nodes" in said(lambda: ray.pipeline(plan()).nodes_needed([many]))


def test_an_engine_of_too_many_gpus_is_a_sentence() -> None:
    """A bundle for each of a hundred million."""
    words = said(lambda: ray.pipeline(plan(10**8)))

    assert "tensor x pipeline parallel is 100000000: at most 8,192" in words


def test_what_waits_is_asked_for_once_until_something_is_placed() -> None:
    """2,000 engines on one node of eight GPUs; the others wait, for one reason."""
    found = ray.pipeline(plan(), concurrency=(2000, 2000))
    placed = found.on([Node(name="a", cpus=9000, gpus=8)])

    waiting = {id(w.why) for w in placed.replicas if w.state == "waits"}
    assert (8, 1992, 1) == (
        placed.count("placed"),
        placed.count("waits"),
        len(waiting),
    )


@pytest.mark.parametrize("strategy", ["PACK", "STRICT_PACK", "SPREAD", "STRICT_SPREAD"])
def test_a_room_places_as_all_of_its_nodes_would(strategy: str) -> None:
    """Of equal nodes only the first are looked at: the same bundles, the same nodes."""
    nodes = [Node(name=f"n{i}", cpus=16, gpus=(8, 4, 4, 1)[i % 4]) for i in range(12)]
    bundles = tuple(ray.Bundle.of({"GPU": gpus, "CPU": 1}) for gpus in (1, 0.6, 0.5, 1))
    group = ray.PlacementGroup(bundles=bundles, strategy=strategy)
    room, plainly = Room.of(nodes, Effort()), [NodeCapacity.of(node) for node in nodes]

    for _ in range(20):
        assert room.reserve(group) == reserve(plainly, group, Effort())


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--nodes", "1000000000"), "at most 10,000"),
        (("--gpus-per-node", "inf"), "gpus=inf must be 0 or more"),
        (("--gpus-per-node", "nan"), "gpus=nan must be 0 or more"),
        (("--gpus-per-node", "1000000000"), "at most 8,192"),
        (("--cpus-per-node", "nan"), "cpus=nan must be 0 or more"),
        (("--cpus-per-node", "1e308"), "cpus=1e+308 must be 0 or more"),
        (("--preprocess-map-kwargs", '{"num_cpus":NaN}'), "CPU=nan must be 0 or more"),
        (("--preprocess-map-kwargs", '{"resources":5}'), "a table such as"),
        (("--placement-group-config", '{"bundles":5}'), "a list of 1 to 8,192 bundles"),
        (("--concurrency", "1" + "0" * 400), "give a number of engines from 1"),
        (
            (
                "--tensor-parallel-size",
                "2",
                "--distributed-executor-backend",
                "ray",
                "--env",
                "VLLM_RAY_PER_WORKER_GPUS=x",
            ),
            "VLLM_RAY_PER_WORKER_GPUS='x': a number of GPUs",
        ),
    ],
)
def test_an_odd_number_is_named(
    flags: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each flag with a value that is no amount."""
    assert main([*LINE, *flags]) == 2
    assert words in capsys.readouterr().err


def test_a_deep_table_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """20,000 tables within each other."""
    deep = '{"a":' * 20_000 + "1" + "}" * 20_000

    assert 2 == main([*LINE, "--placement-group-config", deep])
    assert "nested too deeply" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": 5}, "The name of a node=5: a text"),
        ({"name": ["a"]}, "The name of a node=['a']: a text"),
        ({"gpus": "8"}, "gpus='8' must be 0 or more"),
        ({"min_nodes": 1.5}, "min_nodes=1.5: a whole number from 0"),
        ({"min_nodes": None}, "min_nodes=None: a whole number from 0"),
        ({"max_nodes": "4"}, "max_nodes='4': a whole number from 0"),
        ({"min_nodes": 3, "max_nodes": 2}, "3 to 2 nodes cannot be"),
        ({"resources": [1]}, "resources=[1]: a table"),
        ({"resources": {"a": NAN}}, "a=nan must be 0 or more"),
        ({"accelerator_type": 4}, "accelerator_type=4: a text"),
        ({"memory_bytes": ENDLESS}, "memory_bytes=inf must be 0 or more"),
        ({"cpus": 10**5000}, "cpus=a very large int must be 0 or more"),
    ],
)
def test_a_node_of_wrong_types_is_a_sentence(given: dict, words: str) -> None:
    """Each field of a type of node."""
    assert words in said(lambda: NodeType(**({"name": "n", "gpus": 8} | given)))


def test_what_is_no_node_is_a_sentence() -> None:
    """A number, a text, and a type where a node belongs."""
    found = ray.pipeline(plan())

    for odd in (5, "abc", [5], [EIGHT]):
        assert "is not a Node." in said(lambda given=odd: found.on(given))
    for odd in (5, [5], [EIGHT.node("a")]):
        assert "is not a NodeType." in said(lambda given=odd: found.nodes_needed(given))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"accelerator_type": 5}, "accelerator_type=5: a text"),
        ({"batch_size": 10**400}, "batch_size=1000"),
        ({"max_pending_requests": 10**19}, "max_pending_requests=1000"),
        ({"chat_template_stage": {"num_cpus": "x"}}, "CPU='x' must be 0 or more"),
        ({"placement_group_config": {5: 1}}, "placement_group_config has 5"),
        (
            {"placement_group_config": {"bundles": [{"GPU": 1, "x": 1e-5}]}},
            "cannot go beyond 0.0001",
        ),
        (
            {"placement_group_config": {"bundles": [{"GPU": 1}], "strategy": [1]}},
            "strategy=[1]: Ray has PACK",
        ),
    ],
)
def test_settings_of_wrong_types_are_a_sentence(given: dict, words: str) -> None:
    """Each of Ray's names."""
    with pytest.raises(PlannerError) as refused:
        ray.pipeline(plan(), **given)
    assert words in str(refused.value)
