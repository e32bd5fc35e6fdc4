"""KubeRay manifests: they hold to its schema, and carry the pipeline they are for."""

from __future__ import annotations

import ast
import json

import kubernetes_validate
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner import PlannerError
from planner.engine.releases import NEWEST
from planner.export import ray_cluster, ray_data, ray_job, ray_serve_config, ray_service
from planner.ray import NodeType, RayRelease, State, pipeline
from tests import kuberay

MODEL = "Qwen/Qwen3-8B"
GIB = 2**30


def read(text):
    """Read documents back, and hold each to its schema."""
    documents = list(yaml.safe_load_all(text))
    for document in documents:
        kuberay.validate(document)
    return {document["kind"]: document for document in documents}


def cluster_of(documents):
    """Return the specification of the cluster, whichever kind holds it."""
    if "RayJob" in documents:
        return documents["RayJob"]["spec"]["rayClusterSpec"]
    if "RayService" in documents:
        return documents["RayService"]["spec"]["rayClusterConfig"]
    return documents["RayCluster"]["spec"]


def groups_of(documents):
    """Return the groups of workers by name."""
    groups = cluster_of(documents)["workerGroupSpecs"]
    return {group["groupName"]: group for group in groups}


def nodes_of(groups, which):
    """Return nodes as Ray makes them of the groups' pods: minReplicas, maxReplicas."""
    return [
        one_node(group).node(f"{name}-{number}")
        for name, group in groups.items()
        for number in range(group[which])
    ]


def one_node(group):
    """Return what Ray makes of a pod."""
    (container,) = group["template"]["spec"]["containers"]
    limits = container["resources"]["limits"]
    named = json.loads(
        group["rayStartParams"].get("resources", '"{}"')[1:-1].replace("\\", "")
    )
    kind = [name.partition(":")[2] for name in named if name.startswith("accelerator")]
    return NodeType(
        name="worker",
        cpus=int(limits["cpu"]),
        gpus=int(limits.get("nvidia.com/gpu", 0)),
        accelerator_type=kind[0] if kind else None,
        memory_bytes=int(limits["memory"].removesuffix("Gi")) * GIB,
    )


PIPELINES = {
    "one engine": {},
    "four engines": {"concurrency": 4},
    "a range": {"concurrency": (2, 8), "accelerator_type": "H100"},
    "half a GPU before": {"preprocess_map_kwargs": {"num_gpus": 0.5, "concurrency": 2}},
    "several GPUs": {"concurrency": (1, 3), "tensor_parallel_size": 4},
    "two machines": {"tensor_parallel_size": 8, "pipeline_parallel_size": 2},
    "two on a GPU": {
        "concurrency": (1, 4),
        "gpu_memory_utilization": 0.45,
        "placement_group_config": {"bundles": [{"GPU": 0.5, "CPU": 1}]},
    },
    "an older Ray": {"ray_version": "2.49.2", "concurrency": 3},
}


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("write", [ray_cluster, ray_job, ray_service])
def test_every_kind_of_pipeline_has_manifests_of_each_kind(name, write):
    """Unknown fields are refused, and so are types that are not KubeRay's."""
    found = pipeline(MODEL, gpu="H100", **PIPELINES[name])
    cluster = cluster_of(read(write(found)))

    assert RayRelease.named(found.ray_version).version == cluster["rayVersion"]


@pytest.mark.parametrize("name", PIPELINES)
def test_the_pods_carry_the_pipeline(name):
    """As many as may be place all of it; one with GPUs fewer does not."""
    found = pipeline(MODEL, gpu="H100", **PIPELINES[name])
    groups = groups_of(read(ray_cluster(found)))

    assert State.PLACED is found.on(nodes_of(groups, "maxReplicas")).state
    fewer = groups["gpu-workers"]
    fewer["maxReplicas"] -= 1
    assert (
        fewer["maxReplicas"] == 0
        or State.PLACED is not found.on(nodes_of(groups, "maxReplicas")).state
    )


@given(
    engines=st.tuples(st.integers(1, 6), st.integers(0, 6)),
    tensor=st.sampled_from([1, 2, 4, 8]),
    stages=st.sampled_from([1, 2]),
    gpus=st.sampled_from([None, 0.25, 0.5, 1]),
    cpus=st.integers(1, 8),
    version=st.sampled_from(["2.60.0", "2.54.1", "2.51.1"]),
)
def test_any_pods_made_to_measure_carry_their_pipeline(
    engines, tensor, stages, gpus, cpus, version
):
    """The most pods place all of it, and the fewest let rows flow."""
    found = pipeline(
        MODEL,
        gpu="H100",
        ray_version=version,
        concurrency=(engines[0], sum(engines)),
        tensor_parallel_size=tensor,
        pipeline_parallel_size=stages,
        distributed_executor_backend="ray",
        preprocess_map_kwargs={} if gpus is None else {"num_gpus": gpus},
        placement_group_config={
            "bundles": [{"GPU": 1, "CPU": cpus}] * (tensor * stages)
        },
    )
    (document,) = yaml.safe_load_all(ray_cluster(found))
    groups = groups_of({"RayCluster": document})

    assert State.PLACED is found.on(nodes_of(groups, "maxReplicas")).state
    assert found.on(nodes_of(groups, "minReplicas")).can_start


def test_the_check_can_fail():
    """A field that KubeRay has not, one too few, and a number for a text."""
    document = yaml.safe_load(ray_cluster(planner.plan(MODEL)))
    group = document["spec"]["workerGroupSpecs"][0]
    without = {name: value for name, value in group.items() if name != "maxReplicas"}
    wrong = {
        "WorkerGroupSpec has no replica": group | {"replica": 1},
        "is no texts": group | {"rayStartParams": {"num-gpus": 1}},
        "maxReplicas is missing": without,
        "is no int32": group | {"minReplicas": "1"},
    }
    for reason, changed in wrong.items():
        spec = {**document["spec"], "workerGroupSpecs": [changed]}
        with pytest.raises(ValueError, match=reason):
            kuberay.validate(document | {"spec": spec})
    pod = group["template"]["spec"]["containers"][0] | {"gpus": 1}
    spec = {**document["spec"]}
    spec["workerGroupSpecs"] = [group | {"template": {"spec": {"containers": [pod]}}}]
    with pytest.raises(kubernetes_validate.ValidationError):
        kuberay.validate(document | {"spec": spec})


def test_a_range_is_left_to_ray_s_autoscaler():
    """2 to 8 engines of a GPU: 2 to 8 pods of one; one engine needs no scaling."""
    found = pipeline(MODEL, gpu="H100", concurrency=(2, 8), accelerator_type="H100")
    cluster = cluster_of(read(ray_cluster(found)))
    group, others = cluster["workerGroupSpecs"]
    fixed = cluster_of(read(ray_cluster(pipeline(MODEL, gpu="H100"))))

    assert cluster["enableInTreeAutoscaling"] is True
    assert (2, 2, 8) == (group["replicas"], group["minReplicas"], group["maxReplicas"])
    assert "enableInTreeAutoscaling" not in fixed
    assert "nodeSelector" not in others["template"]["spec"]
    assert {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"} == (
        group["template"]["spec"]["nodeSelector"]
    )


def test_ray_s_own_autoscaler_reads_what_was_planned():
    """Its reader makes the same nodes of the manifest: CPUs, GPUs, accelerator."""
    from ray.autoscaler._private.kuberay import autoscaling_config

    found = pipeline(MODEL, gpu="H100", concurrency=(2, 8), accelerator_type="H100")
    document = read(ray_cluster(found))["RayCluster"]
    document["metadata"]["namespace"] = "default"
    config = autoscaling_config._derive_autoscaling_config_from_ray_cr(document)
    worker = config["available_node_types"]["gpu-workers"]
    others = config["available_node_types"]["cpu-workers"]
    head = config["available_node_types"]["headgroup"]

    assert (2, 8) == (worker["min_workers"], worker["max_workers"])
    assert 1 == worker["resources"]["GPU"]
    assert 1 == worker["resources"]["accelerator_type:H100"]
    cpus = [(one["max_workers"], one["resources"]["CPU"]) for one in (worker, others)]
    assert sum(count * each for count, each in cpus) > found.cpus_maximum
    assert "GPU" not in others["resources"]
    assert 0 == head["resources"]["CPU"]


def test_the_job_runs_the_program_it_brings():
    """The ConfigMap's text is what ray_data writes, mounted where the head looks."""
    found = pipeline(MODEL, gpu="H100")
    documents = read(ray_job(found, source="s3://a b/in", target="/out"))
    program = documents["ConfigMap"]["data"]["pipeline.py"]
    head = cluster_of(documents)["headGroupSpec"]["template"]["spec"]

    assert ray_data(found) == program
    ast.parse(program)
    assert (
        "python /home/ray/pipeline/pipeline.py 's3://a b/in' /out"
        == documents["RayJob"]["spec"]["entrypoint"]
    )
    assert (
        documents["ConfigMap"]["metadata"]["name"]
        == head["volumes"][0]["configMap"]["name"]
    )
    assert "/home/ray/pipeline" == head["containers"][0]["volumeMounts"][0]["mountPath"]


def test_the_service_serves_the_configuration():
    """serveConfigV2 is the text of `serve deploy`."""
    found = pipeline(MODEL, gpu="H100", concurrency=(1, 4))
    service = read(ray_service(found))["RayService"]["spec"]

    assert yaml.safe_load(ray_serve_config(found)) == yaml.safe_load(
        service["serveConfigV2"]
    )


def test_a_pod_of_one_s_own_is_kept():
    """Eight GPUs a pod: 8 engines fit one."""
    node = NodeType(name="dgx", cpus=64, gpus=8, memory_bytes=512 * GIB)
    found = pipeline(MODEL, gpu="H100", concurrency=(2, 16))
    (group,) = groups_of(read(ray_cluster(found, node_type=node))).values()

    assert ("dgx", 1, 2) == (
        group["groupName"],
        group["minReplicas"],
        group["maxReplicas"],
    )


def test_the_image_is_ray_s_and_says_which_vllm_it_brings():
    """Ray 2.60.0 comes with vLLM 0.29.0."""
    newest = ray_cluster(planner.plan(MODEL, gpu="L4", vllm_version=NEWEST))
    same = ray_cluster(planner.plan(MODEL, gpu="L4", vllm_version="0.29.0"))

    assert "rayproject/ray-llm:2.60.0-py312-cu130" in newest
    assert f"brings vLLM 0.29.0, and this plan is for {NEWEST}" in newest
    assert "brings" not in same


def test_a_token_comes_from_a_secret():
    """By reference alone, in the head's pod and the workers'."""
    plan = planner.plan(MODEL, gpu="L4", hf_token="hf_x1", env={"HF_TOKEN": "hf_x2"})
    text = ray_job(plan)
    groups = groups_of(read(text))

    assert "hf_x" not in text
    for group in groups.values():
        (container,) = group["template"]["spec"]["containers"]
        (variable,) = container["env"]
        assert "vllm-secrets" == variable["valueFrom"]["secretKeyRef"]["name"]


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ({"gpu": "H100-MIG-1g.10gb"}, "slice of a GPU"),
        ({"gpu": planner.GPU(name="CPU", total_memory_bytes=64 * GIB)}, "NVIDIA GPUs"),
    ],
)
def test_what_ray_s_images_cannot_do_is_said(plan, reason):
    """Slices of GPUs, and processors."""
    with pytest.raises(PlannerError, match=reason):
        ray_cluster(planner.plan("Qwen/Qwen3-0.6B", max_model_len=2048, **plan))


def test_a_folder_of_this_machine_is_no_manifest(tiny_folder):
    """A cluster does not see it."""
    with pytest.raises(PlannerError, match="folder of this machine"):
        ray_job(planner.plan(tiny_folder))


def test_a_replica_larger_than_a_pod_is_named():
    """Sixteen GPUs in one pod of eight, without Ray's executor over nodes."""
    node = NodeType(name="dgx", cpus=64, gpus=8)
    found = pipeline(
        MODEL, gpu="H100", tensor_parallel_size=16, distributed_executor_backend="mp"
    )
    with pytest.raises(PlannerError, match="16"):
        ray_cluster(found, node_type=node)
