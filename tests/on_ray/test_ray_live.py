"""A live Ray cluster: what it tells, what can be placed, and what goes wrong."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planner import GPU, PlannerError
from planner import ray as planner_ray
from planner.app.cli import main
from planner.ray.beside_ray.cluster_state import groups_of_file
from planner.ray.bundles import Node, NodeType, ray_names, types_in
from planner.ray.live import Cluster, cluster, read
from planner.ray.remote import sentence
from tests.ray_clusters import add_node
from tests.ray_clusters import cluster as started

H100S = {"num_cpus": 16, "num_gpus": 8, "resources": {"accelerator_type:H100": 1}}


@pytest.fixture(scope="module")
def machines() -> Iterator[Any]:
    """A head, and one machine that says it has eight H100."""
    with started(num_cpus=2, no_monitor=False) as made:
        add_node(made, **H100S)
        yield made


def a_cluster(*nodes: Node, types: tuple[NodeType, ...] = ()) -> Cluster:
    """Return a cluster that was never asked."""
    return Cluster(
        address="here:1",
        ray_version="2.60.0",
        nodes=nodes,
        autoscaler_node_types=types,
        is_autoscaled=bool(types),
    )


def a_pipeline(concurrency: Any = 2, **options: Any) -> Any:
    """Return a pipeline of one model on H100."""
    return planner_ray.pipeline(
        "Qwen/Qwen3-8B",
        gpu="H100",
        accelerator_type="H100",
        concurrency=concurrency,
        **options,
    )


EIGHT = Node(name="a", cpus=16, gpus=8, accelerator_type="H100")
EIGHT_MORE = NodeType(name="h100x8", cpus=16, gpus=8, accelerator_type="H100")


@pytest.mark.server
def test_a_cluster_tells_its_machines(machines) -> None:
    """And the pipeline is placed on them: two replicas of four GPUs; a third waits."""
    read_now = planner_ray.cluster(machines.address)

    assert read_now.ray_version == "2.60.0"
    assert sorted((node.cpus, node.gpus) for node in read_now.nodes) == [
        (2, 0),
        (16, 8),
    ]
    assert (read_now.gpus, read_now.gpus_free) == (8, 8)
    assert read_now.accelerator_types == ("H100",)
    assert read_now.autoscaler == "No autoscaler has reported to it."
    assert "8 of 8 H100 GPUs free" in str(read_now)
    two = read_now.check(a_pipeline(2, tensor_parallel_size=4))
    three = read_now.check(a_pipeline(3, tensor_parallel_size=4))
    assert two.can_start
    assert two.added == ()
    assert str(two) == "2 of 2 replicas can be placed now."
    assert "2 of 3 replicas can be placed now." in str(three)
    assert [line.partition(":")[0] for line in three.waiting] == ["replica 2"]
    assert three.added is None
    assert three.to_dict()["cluster"]["nodes"][0]["total"]


@pytest.mark.server
def test_the_command_asks_the_cluster(machines, capsys) -> None:
    """Nine replicas of one GPU on eight: eight go now, and rows flow."""
    words = "ray Qwen/Qwen3-8B --gpu H100 --accelerator-type H100 --concurrency 9"
    status = main([*words.split(), "--address", machines.address])

    out = capsys.readouterr().out
    assert status == 0
    assert "8 of 9 replicas can be placed now." in out
    assert "8 of 8 H100 GPUs free" in out


@pytest.mark.server
def test_auto_finds_the_cluster_of_this_machine(machines, monkeypatch) -> None:
    """As Ray does it: from RAY_ADDRESS, else from what runs here."""
    monkeypatch.setenv("RAY_ADDRESS", machines.address)
    assert planner_ray.cluster().gpus == 8


def test_what_an_autoscaler_would_have_to_add() -> None:
    """Three replicas of four GPUs on a machine of eight: one more machine.

    Five: two more; where one more is the most, that is said.
    """
    grows = a_cluster(EIGHT, types=(EIGHT_MORE,))
    three = grows.check(a_pipeline(3, tensor_parallel_size=4))
    five = grows.check(a_pipeline(5, tensor_parallel_size=4))

    assert [node.name for node in three.added or ()] == ["h100x8-1"]
    assert "The autoscaler would have to add 1 x h100x8." in str(three)
    assert "The autoscaler would have to add 2 x h100x8." in str(five)
    one = NodeType(name="h100x8", cpus=16, gpus=8, accelerator_type="H100", max_nodes=1)
    held = a_cluster(EIGHT, types=(one,)).check(a_pipeline(5, tensor_parallel_size=4))
    assert held.added is None
    assert str(held).endswith(
        "Its autoscaler may add: h100x8 (at most 1). That is not enough for all of the "
        "replicas."
    )


@pytest.mark.server
def test_a_replica_across_machines_needs_more_than_one_at_once() -> None:
    """Pipeline 2 x tensor 8 are 16 GPUs: no machine alone helps."""
    empty = a_cluster(Node(name="head", cpus=8), types=(EIGHT_MORE,))
    across = empty.check(
        a_pipeline(
            1,
            tensor_parallel_size=8,
            pipeline_parallel_size=2,
            distributed_executor_backend="ray",
        )
    )

    assert [node.name for node in across.added or ()] == ["h100x8-1", "h100x8-2"]


def test_an_autoscaler_that_does_not_tell_is_asked_for() -> None:
    """What it may add can be given."""
    mute = Cluster(
        address="here:1",
        ray_version="",
        nodes=(EIGHT,),
        autoscaler_node_types=(),
        is_autoscaled=True,
    )
    waits = mute.check(a_pipeline(3, tensor_parallel_size=4))
    assert str(waits).endswith("does not report what it may add: give node_types.")


def test_the_file_of_a_cluster_tells_its_node_types() -> None:
    """`max_workers` of the whole holds where a type has none; the head is one."""
    groups = groups_of_file(
        {
            "max_workers": 5,
            "head_node_type": "head",
            "available_node_types": {
                "head": {"resources": {"CPU": 4}},
                "gpu": {"resources": {"GPU": 8}, "min_workers": 1, "max_workers": 3},
                "cpu": {"resources": {"CPU": 16}},
            },
        }
    )
    told = [(one["name"], one["min"], one["max"]) for one in groups]
    assert told == [("head", 0, 0), ("gpu", 1, 3), ("cpu", 0, 5)]
    made = read(
        {
            "address": "here:1",
            "ray_version": "2.60.0",
            "nodes": [],
            "groups": groups,
            "is_autoscaled": True,
        }
    )
    assert [kind.gpus for kind in made.autoscaler_node_types] == [0, 8, 0]
    assert made.autoscaler == (
        "Its autoscaler may add: head (at most 0), gpu (at most 3), cpu (at most 5)."
    )


def test_names_of_gpus_are_rays() -> None:
    """As Ray makes them from the driver's names, before and after it joined words."""
    from ray._private.accelerators.nvidia_gpu import NvidiaGPUAcceleratorManager

    for name in ("H100", "A100-80GB", "L4", "L40S", "T4", "B300", "RTX 4090"):
        gpu = GPU.named(name)
        own = NvidiaGPUAcceleratorManager._gpu_name_to_accelerator_type(gpu.device_name)
        assert ray_names(gpu)[0] == own
    assert ray_names(GPU(name="CPU", total_memory_bytes=1 << 34)) == ()
    assert types_in([{"GPU": 1}, {"accelerator_type:L4": 1, "CPU": 2}]) == ("L4",)


@pytest.mark.server
def test_nobody_answers() -> None:
    """A port where nobody listens is told at once, a wrong host too."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(PlannerError, match=f"No Ray cluster answers at {address}"):
            cluster(address)


@pytest.mark.server
def test_somebody_else_answers() -> None:
    """A program that takes the connection and says nothing: bounded too."""
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(PlannerError, match=f"No Ray cluster answers at {address}"):
            cluster(address, timeout_seconds=6.0)


def test_ray_is_missing(tmp_path: Path, monkeypatch) -> None:
    """How to install it is said."""
    (tmp_path / "ray.py").write_text("raise ImportError('No module named ray')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(PlannerError, match=r"pip install 'ray\[data\]'"):
        cluster("auto")


def test_versions_differ() -> None:
    """In Ray's own words, shortened."""
    from ray._private.utils import check_version_info

    with pytest.raises(RuntimeError) as raised:
        check_version_info({"ray_version": "2.44.1", "python_version": "3.12.1"}, "x")
    told = sentence("auto", "RuntimeError", str(raised.value))
    assert told.startswith("Ray or Python here differs from the cluster's at this")
    assert "Ray: 2.44.1" in told
    assert told.endswith("Install the cluster's versions here.")


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("ImportError", "Ray Client requires pip package `ray[client]`", "Ray Client"),
        ("ConnectionError", "Could not find any running Ray instance.", "ray start"),
        ("Exception", "Can't find a `node_ip_address.json` file", "is not part of"),
        ("ValueError", "first\nsecond", "Ray refused at here:1: first"),
    ],
)
def test_what_ray_says_becomes_a_sentence(kind, text, words) -> None:
    """With what to do next."""
    assert words in sentence("here:1", kind, text)
