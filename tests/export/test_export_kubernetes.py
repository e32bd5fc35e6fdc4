"""Kubernetes manifests: they hold to the API's schemas, and start the same plan."""

from __future__ import annotations

import re
import shlex

import kubernetes_validate
import pytest
import yaml
from hypothesis import given

import planner
from planner import GPU, PlannerError
from planner.export import kubernetes
from tests import plans
from tests.export.test_export_command import ARGUMENTS
from tests.recorded_parser import engine_arguments

MODEL = "Qwen/Qwen3-8B"
LARGE = "meta-llama/Llama-3.1-70B-Instruct"


def read(plan):
    """Read a plan's manifests back, and hold each to its schema."""
    documents = list(yaml.safe_load_all(kubernetes(plan)))
    for document in documents:
        if document["kind"] == "LeaderWorkerSet":
            template = document["spec"]["leaderWorkerTemplate"]
            for part in ("leaderTemplate", "workerTemplate"):
                validate(
                    {
                        "apiVersion": "v1",
                        "kind": "PodTemplate",
                        "metadata": document["metadata"],
                        "template": template[part],
                    }
                )
        else:
            validate(document)
    return {document["kind"]: document for document in documents}


def validate(document):
    """Hold a document to the newest schema; nothing beside it is allowed."""
    kubernetes_validate.validate(
        document, kubernetes_validate.latest_version(), strict=True
    )


def container(documents):
    """Return the one container of the Deployment."""
    (found,) = documents["Deployment"]["spec"]["template"]["spec"]["containers"]
    return found


def test_one_machine_is_a_deployment_a_volume_and_a_service():
    """GPUs, shared memory, probes on /health, and room for the model."""
    plan = planner.plan(MODEL, gpu="H100", tensor_parallel_size=2)
    documents = read(plan)
    pod = documents["Deployment"]["spec"]["template"]["spec"]
    found = container(documents)

    assert {"PersistentVolumeClaim", "Deployment", "Service"} == set(documents)
    assert {"nvidia.com/gpu": "2"} == found["resources"]["limits"]
    assert shlex.split(plan.command()) == [*found["command"], *found["args"]]
    assert {"medium": "Memory", "sizeLimit": "8Gi"} == pod["volumes"][1]["emptyDir"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert {"path": "/health", "port": "http"} == found[probe]["httpGet"]
    # 16 minutes, asked every 10 seconds.
    assert 96 == found["startupProbe"]["failureThreshold"]
    assert (
        "30Gi"
        == documents["PersistentVolumeClaim"]["spec"]["resources"]["requests"][
            "storage"
        ]
    )


def test_a_service_finds_its_pods_and_does_not_disturb_vllm():
    """Its labels are the pod's; VLLM_PORT is not set by a Service called vllm."""
    documents = read(planner.plan(MODEL))
    template = documents["Deployment"]["spec"]["template"]

    assert template["metadata"]["labels"] == documents["Service"]["spec"]["selector"]
    assert template["spec"]["enableServiceLinks"] is False
    assert "http" == documents["Service"]["spec"]["ports"][0]["targetPort"]


def test_a_token_comes_from_a_secret():
    """By reference alone, and a public model needs none."""
    plan = planner.plan(MODEL, hf_token="hf_x1", env={"HF_TOKEN": "hf_x2"})
    (variable,) = container(read(plan))["env"]

    assert "hf_x" not in kubernetes(plan)
    assert {
        "name": "vllm-secrets",
        "key": "HF_TOKEN",
        "optional": True,
    } == variable["valueFrom"]["secretKeyRef"]


def test_a_processor_asks_for_memory_and_no_gpu():
    """vLLM's CPU build."""
    cpu = GPU(name="CPU", total_memory_bytes=64 * 2**30)
    found = container(read(planner.plan(MODEL, gpu=cpu, max_model_len=2048)))

    assert {"requests": {"memory": "64Gi"}} == found["resources"]
    assert "vllm-cpu-release-repo" in found["image"]


def test_a_slice_of_a_gpu_is_a_resource_of_its_own():
    """As NVIDIA's device plugin names it."""
    found = container(read(planner.plan("Qwen/Qwen3-0.6B", gpu="H100-MIG-1g.10gb")))

    assert {"nvidia.com/mig-1g.10gb": "1"} == found["resources"]["limits"]


def test_two_machines_are_a_leader_and_a_worker():
    """16 GPUs: 8 each; each pod tells vLLM its rank, the workers serve nobody."""
    plan = planner.plan(LARGE, tensor_parallel_size=8, pipeline_parallel_size=2)
    documents = read(plan)
    template = documents["LeaderWorkerSet"]["spec"]["leaderWorkerTemplate"]
    (leader,) = template["leaderTemplate"]["spec"]["containers"]
    (worker,) = template["workerTemplate"]["spec"]["containers"]

    assert 2 == template["size"]
    assert {"nvidia.com/gpu": "8"} == leader["resources"]["limits"]
    assert [*leader["args"], "--headless"] == worker["args"]
    assert "startupProbe" in leader
    assert "startupProbe" not in worker
    assert documents["Service"]["spec"]["selector"]["role"] == "leader"


@pytest.mark.parametrize("release", ["0.33.0", "0.26.0", "0.19.0", "0.11.2"])
def test_the_group_s_arguments_are_those_of_the_release(release):
    """nnodes, node_rank, master_addr and headless are parsed by vLLM's own parser."""
    plan = planner.plan(LARGE, tensor_parallel_size=16, vllm_version=release)
    template = read(plan)["LeaderWorkerSet"]["spec"]["leaderWorkerTemplate"]
    (worker,) = template["workerTemplate"]["spec"]["containers"]
    words = [word.replace("$(LWS_WORKER_INDEX)", "1") for word in worker["args"]]
    parsed = engine_arguments(release, ["vllm", "serve", *words])

    assert (2, 1) == (parsed["nnodes"], parsed["node_rank"])
    assert 16 == parsed["tensor_parallel_size"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"vllm_version": "0.10.2", "tensor_parallel_size": 16}, "Ray alone"),
        ({"tensor_parallel_size": 8, "data_parallel_size": 2}, "over several machines"),
    ],
)
def test_what_a_group_cannot_express_is_said(arguments, reason):
    """Older releases, and several engines."""
    with pytest.raises(PlannerError, match=reason):
        kubernetes(planner.plan(LARGE, **arguments))


def test_a_folder_of_this_machine_is_no_manifest(tiny_folder):
    """A cluster does not see it."""
    with pytest.raises(PlannerError, match="folder of this machine"):
        kubernetes(planner.plan(tiny_folder))


def test_dollars_stay_dollars():
    """Kubernetes would put a variable in for $(A)."""
    plan = planner.plan(MODEL, served_model_name="$(A)", env={"B": "$(C)"})
    found = container(read(plan))

    assert "$$(A)" in found["args"]
    assert {"name": "B", "value": "$$(C)"} == found["env"][1]


@pytest.mark.parametrize("make", plans.ALL)
def test_every_kind_of_plan_has_manifests(make):
    """Names are what DNS takes, however long the model's is."""
    name = read(make())["Deployment"]["metadata"]["name"]

    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name)


@given(ARGUMENTS)
def test_any_manifest_runs_the_plan_s_own_command(arguments):
    """Word by word, whatever YAML and Kubernetes make of quotes and dollars."""
    try:
        plan = planner.plan(MODEL, **arguments)
    except PlannerError:
        return
    if plan.gpus_total > 8:  # several machines
        return
    (found,) = [
        document["spec"]["template"]["spec"]["containers"][0]
        for document in yaml.safe_load_all(kubernetes(plan))
        if document["kind"] == "Deployment"
    ]
    words = [word.replace("$$", "$") for word in found["args"]]

    assert shlex.split(plan.command()) == [*found["command"], *words]
