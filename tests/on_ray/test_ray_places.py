"""What the planner says of placement is what a real Ray does with such groups."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from planner import ray
from planner.ray import Node, Pipeline

PROGRAM = Path(__file__).parents[1].joinpath("ray_places.py")
NODES = (
    Node(name="h1", cpus=40, gpus=8, accelerator_type="H100"),
    Node(name="h2", cpus=40, gpus=8, accelerator_type="H100"),
    Node(name="l1", cpus=40, gpus=4, accelerator_type="L4"),
    Node(name="l2", cpus=40, gpus=1, accelerator_type="L4"),
)
MODEL = {"gpu": "H100", "max_model_len": 4096}
ALONE = {
    "chat_template_stage": False,
    "tokenize_stage": False,
    "detokenize_stage": False,
}
HALF = {"bundle_per_worker": {"GPU": 0.5, "CPU": 1}}
PRE = {"num_gpus": 0.5, "concurrency": 2}


def group(strategy: str, *bundles: dict) -> dict:
    """Return bundles that are given by hand."""
    return {
        "placement_group_config": {"bundles": list(bundles), "strategy": strategy},
        "distributed_executor_backend": "ray",
    }


def of(tensor: int = 1, pipeline: int = 1, backend: str | None = None) -> dict:
    """Return an engine's layout."""
    layout = {"tensor_parallel_size": tensor, "pipeline_parallel_size": pipeline}
    return layout | ({"distributed_executor_backend": backend} if backend else {})


CASES = {
    # Fixed pools: all engines from the start.
    "one GPU each": {"concurrency": (4, 4)},
    "one GPU each, more than there are": {"concurrency": (23, 23)},
    "an accelerator by name": {"concurrency": (6, 6), "accelerator_type": "L4"},
    "an accelerator that is not there": {"accelerator_type": "A100"},
    "one node each": {"concurrency": (3, 3), **of(4, 1, "mp")},
    "four on a node of eight, two on one of four": {
        "concurrency": (6, 6),
        **of(4, 1, "mp"),
    },
    "a node's eight": {"concurrency": (3, 3), **of(8, 1, "mp")},
    "sixteen of one node": of(8, 2, "mp"),
    # Over nodes.
    "sixteen over nodes": {"concurrency": (2, 2), **of(8, 2, "ray")},
    "sixteen over nodes of a kind": {
        "concurrency": (1, 1),
        "accelerator_type": "H100",
        **of(8, 2, "ray"),
    },
    "five of a kind over nodes": {"accelerator_type": "L4", **of(5, 1, "ray")},
    "six of a kind that has five": {"accelerator_type": "L4", **of(6, 1, "ray")},
    "three over nodes until they are full": {"concurrency": (8, 8), **of(3, 1, "ray")},
    "older: strict pack": {
        "ray_version": "2.49.2",
        "concurrency": 3,
        **of(8, 1, "ray"),
    },
    "older: strict pack over nodes": {"ray_version": "2.49.2", **of(8, 2, "ray")},
    # Autoscaled: from the fewest to the most.
    "one to many": {"concurrency": 24},
    "two to six of four": {"concurrency": (2, 6), **of(4)},
    # Shares of GPUs.
    "two on a GPU": {
        "concurrency": (9, 9),
        "accelerator_type": "L4",
        "placement_group_config": HALF,
    },
    "two on a GPU, one too many": {
        "concurrency": (11, 11),
        "accelerator_type": "L4",
        "placement_group_config": HALF,
    },
    # A fifth would be a race: Ray chooses by sums, and the node then has no such GPU.
    "0.6 fits a GPU once": {
        "concurrency": (4, 4),
        "accelerator_type": "L4",
        "placement_group_config": {"bundles": [{"GPU": 0.6, "CPU": 1}]},
    },
    "a GPU and a half": {
        "concurrency": (4, 4),
        "accelerator_type": "L4",
        "placement_group_config": {"bundles": [{"GPU": 1.5, "CPU": 1}]},
    },
    "shares over nodes": {
        "concurrency": (2, 2),
        **of(2),
        **group("STRICT_SPREAD", {"GPU": 0.5, "CPU": 1}, {"GPU": 0.5, "CPU": 1}),
    },
    "shares on one node": {
        "accelerator_type": "L4",
        **of(6),
        **group("STRICT_PACK", *[{"GPU": 0.6, "CPU": 1}] * 6),
    },
    "spread": {
        "concurrency": (3, 3),
        **of(4),
        **group("SPREAD", *[{"GPU": 1, "CPU": 1}] * 4),
    },
    "spread strictly over too few": {
        **of(5),
        **group("STRICT_SPREAD", *[{"GPU": 1, "CPU": 1}] * 5),
    },
    # Beside other stages.
    "half a GPU before": {"concurrency": (4, 4), "preprocess_map_kwargs": PRE},
    "no GPU left for before": {
        "concurrency": (21, 21),
        "preprocess_map_kwargs": PRE,
    },
    "many CPUs": {
        "concurrency": (2, 2),
        "preprocess_map_kwargs": {"num_cpus": 41, "concurrency": 1},
    },
}

WITH_STAGES = ("one GPU each", "half a GPU before", "no GPU left for before")


def pipeline(case: str) -> Pipeline:
    """Return the pipeline of a case."""
    beside = {} if case in WITH_STAGES else ALONE
    return ray.pipeline("Qwen/Qwen3-8B", **MODEL, **beside, **CASES[case])


@pytest.mark.server
def test_ray_places_what_the_planner_says(tmp_path: Path) -> None:
    """Placed, waits or never: for each worker, in the order of their start.

    Every case is asked of one real cluster, which is told the planner's answer only to
    know what to wait for.
    """
    workers = {case: pipeline(case).on(NODES).workers for case in CASES}
    said = {case: [str(one.state) for one in found] for case, found in workers.items()}
    cases = [
        [one.group.to_dict() | {"expected": str(one.state)} for one in found]
        for found in workers.values()
    ]
    nodes = [
        {
            "num_cpus": node.cpus,
            "num_gpus": node.gpus,
            "resources": {f"accelerator_type:{node.accelerator_type}": 1},
        }
        for node in NODES
    ]
    asked, answer = tmp_path / "asked.json", tmp_path / "answer.json"
    asked.write_text(json.dumps({"nodes": nodes, "cases": cases}))
    command = [sys.executable, str(PROGRAM), str(asked), str(answer)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    by_ray = dict(zip(CASES, json.loads(answer.read_text()), strict=True))
    assert {} == {case: by_ray[case] for case in CASES if by_ray[case] != said[case]}
