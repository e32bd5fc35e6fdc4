"""What manifests and configurations say of vLLM, and how a change is written there."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import planner
from planner.errors import PlannerError
from planner.reading.passage import Passage
from planner.reading.starts.manifests import starts_in_manifest

FOLDER = Path(__file__).parents[2] / "data/texts"
NAMES = list(json.loads((FOLDER / "manifests.json").read_text(encoding="utf-8")))
STARTS = json.loads((FOLDER / "manifests.json").read_text(encoding="utf-8"))


def text_of(name: str) -> str:
    """Return a file of tests/data/texts."""
    return (FOLDER / name).read_text(encoding="utf-8")


def pod(*lines: str, image: str = "vllm/vllm-openai:v0.11.0") -> str:
    """Return a Pod whose container has further lines."""
    head = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: one}}
spec:
  containers:
    - name: vllm
      image: {image}
"""
    return head + "".join(f"      {line}\n" for line in lines)


@pytest.mark.parametrize("name", [n for n in NAMES if "starts" in STARTS[n]])
def test_several_starts_come_in_order_by_their_names(name: str) -> None:
    """Two services, decode and prefill, variants of a recipe."""
    names = STARTS[name]["starts"]
    found = [planner.read(text_of(name), start=n + 1) for n in range(len(names))]

    assert names == [one.shown for one in found]
    assert {len(names)} == {one.num_starts for one in found}


@pytest.mark.parametrize("name", [n for n in NAMES if "starts" in STARTS[n]])
def test_a_change_of_the_second_start_leaves_the_first(name: str) -> None:
    """Each has its own place."""
    first, second = (planner.read(text_of(name), start=n) for n in (1, 2))
    if not second.engine_args and "recipe" in name:
        pytest.skip("a recipe's arguments are those of all variants")
    # In a table that a stack's start does not have yet, the chart sets this one, too.
    own = {"enable_prefix_caching": False} if name == "helm-stack-two.yaml" else {}
    changed = second.text(tensor_parallel_size=8, **own)

    assert planner.read(changed, start=2).engine_args["tensor_parallel_size"] == 8
    if "recipe" not in name:  # whose variants share their arguments
        assert planner.read(changed, start=1).engine_args == first.engine_args


@pytest.mark.parametrize("name", NAMES)
def test_line_breaks_of_windows_stay(name: str) -> None:
    """What is added has them too, and every reading is the same."""
    text = text_of(name).replace("\n", "\r\n")
    found = planner.read(text)
    changed = found.text(gpu_memory_utilization=0.5, max_num_seqs=7)

    assert found.engine_args == planner.read(text_of(name)).engine_args
    assert planner.read(changed).engine_args["max_num_seqs"] == 7
    if "\\\n" not in text_of(name):
        assert changed.count("\n") == changed.count("\r\n")


def test_joined_flags_stay_joined_and_comments_stay() -> None:
    """`--flag=value` is written where the list writes its flags so."""
    text = pod(
        "args:",
        "  - --model=org/m",
        "  # why four",
        "  - --tensor-parallel-size=4  # of eight",
        "  - --max-model-len=4096",
    )
    changed = planner.read(text).text(
        tensor_parallel_size=2, max_model_len=None, max_num_seqs=9
    )

    assert changed == text.replace("size=4 ", "size=2 ").replace(
        "        - --max-model-len=4096\n", "        - --max-num-seqs=9\n"
    )


def test_numbers_that_are_added_to_args_are_texts() -> None:
    """Kubernetes refuses a number among them."""
    text = pod("args: [--model, org/m]")

    assert '[--model, org/m, --max-num-seqs, "9"]' in planner.read(text).text(
        max_num_seqs=9
    )


def test_the_first_argument_of_a_flow_list_leaves_no_comma() -> None:
    """Neither before nor after."""
    text = pod('args: ["--max-model-len", "4096", "--model", "org/m"]')

    assert 'args: ["--model", "org/m"]' in planner.read(text).text(max_model_len=None)


def test_an_edit_inside_a_block_of_shell_touches_only_its_characters() -> None:
    """The value in its line."""
    text = text_of("kubernetes-shell.yaml")

    assert planner.read(text).text(max_model_len=1024) == text.replace("24576", "1024")


def test_a_change_of_a_leader_is_made_in_its_workers() -> None:
    """All machines of a group need the same arguments."""
    text = text_of("kubernetes-leader-worker.yaml")
    found = planner.read(text)

    assert found.num_starts == 1
    assert found.text(tensor_parallel_size=4) == text.replace("size 8", "size 4")


def test_an_image_that_counts_other_releases_tells_none() -> None:
    """llm-d's 0.4.0 and Ray's 2.52.0 are no releases of vLLM."""
    for image in ("ghcr.io/llm-d/llm-d-cuda:v0.4.0", "rayproject/ray-llm:2.52.0"):
        text = pod("command: [vllm, serve, org/m]", image=image)

        assert planner.read(text).vllm_version is None


def test_another_release_is_written_as_the_tag_is() -> None:
    """With its v, inside of a variable's default, and without the old digest."""
    pinned = planner.read(text_of("kubernetes-pod.yaml")).text(vllm_version="0.30.0")
    default = planner.read(text_of("compose-folded.yaml")).text(vllm_version="0.30.0")
    tag = planner.read(text_of("helm-stack.yaml")).text(vllm_version="0.30.0")

    assert '"vllm/vllm-openai:v0.30.0"' in pinned
    assert "image: vllm/vllm-openai:v0.30.0\n" in default
    assert 'tag: "v0.30.0"' in tag


def test_a_container_that_starts_something_else_is_none() -> None:
    """Although its image is vLLM's."""
    text = pod("command: [python3, /scripts/warm_up.py]", 'args: ["--model", "org/m"]')

    with pytest.raises(PlannerError, match="No start of vLLM"):
        planner.read(text)


def test_a_variable_from_a_secret_is_open_only_where_it_matters() -> None:
    """A token changes no memory."""
    text = pod(
        "args: [--model, org/m, --max-model-len, $(LENGTH)]",
        "env:",
        "  - {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: a, key: b}}}",
        "  - name: VLLM_USE_FLASHINFER_SAMPLER",
        "    valueFrom: {configMapKeyRef: {name: a, key: c}}",
    )
    found = planner.read(text)

    assert "max_model_len" not in found.engine_args
    assert any("$(LENGTH)" in sentence for sentence in found.open)
    assert any("VLLM_USE_FLASHINFER_SAMPLER" in sentence for sentence in found.open)
    assert not any("HF_TOKEN" in sentence for sentence in found.open)


@pytest.mark.parametrize(
    ("label", "gpu"),
    [
        ("nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB", "A100-40GB"),
        ("cloud.google.com/gke-accelerator: nvidia-tesla-a100", "A100-40GB"),
        ("cloud.google.com/gke-accelerator: nvidia-a100-80gb", "A100-80GB"),
        ("cloud.google.com/gke-accelerator: nvidia-h100-mega-80gb", "H100"),
    ],
)
def test_labels_name_the_gpu(label: str, gpu: str) -> None:
    """Those of NVIDIA's feature discovery and of GKE."""
    text = pod("args: [--model, org/m]") + f"  nodeSelector: {{{label}}}\n"

    assert planner.read(text).to_dict()["inputs"]["gpu"] == gpu


def test_several_gpus_are_open() -> None:
    """An affinity may allow more than one."""
    text = pod("args: [--model, org/m]") + (
        "  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
        "{nodeSelectorTerms: [{matchExpressions: [{key: nvidia.com/gpu.product, "
        "operator: In, values: [NVIDIA-L4, NVIDIA-A10G]}]}]}}}\n"
    )
    found = planner.read(text)

    assert found.gpu is None
    assert "The text allows several GPUs: NVIDIA-L4, NVIDIA-A10G." in found.open


def test_the_production_stack_switches_prefix_caching_off() -> None:
    """Where vllmConfig does not name it: the chart's own rule."""
    text = text_of("helm-stack-two.yaml")
    found = planner.read(text)

    assert found.engine_args["enable_prefix_caching"] is False
    changed = found.text(enable_prefix_caching=True)
    assert "      maxModelLen: 40960\n      enablePrefixCaching: true\n" in changed
    assert "enable_prefix_caching" not in planner.read(text, start=2).engine_args


def test_two_arguments_begin_a_table_once() -> None:
    """A list or a table that the text does not have yet."""
    small = planner.read(text_of("helm-stack-two.yaml"), start=2)
    recipe = planner.read(text_of("recipe-moe.yaml"))
    changes = {"tensor_parallel_size": 2, "max_num_seqs": 4}
    with pytest.raises(PlannerError, match="else of enable_prefix_caching"):
        small.text(**changes)  # the chart switches it off in a table of its own
    changes |= {"enable_prefix_caching": False}

    assert small.text(**changes).endswith(
        "    vllmConfig:\n      tensorParallelSize: 2\n      maxNumSeqs: 4\n"
        "      enablePrefixCaching: false\n"
    )
    for read, start in ((small, 2), (recipe, 1)):
        after = planner.read(read.text(**changes), start=start).engine_args
        assert {**read.engine_args, **changes} == {
            name: after[name] for name in (*read.engine_args, *changes)
        }


def test_two_changes_of_one_place_are_refused() -> None:
    """They would be written over each other."""
    found = planner.read('{"model_source": "org/m"}')

    with pytest.raises(PlannerError, match="same place"):
        found.text(max_model_len=4096, max_num_seqs=4)
    assert json.loads(found.text(max_num_seqs=4)) == {
        "model_source": "org/m",
        "engine_kwargs": {"max_num_seqs": 4},
    }


def test_merged_and_aliased_values_are_read() -> None:
    """An alias is replaced where it stands; the anchor stays."""
    text = (
        "x: &length 4096\nmodel: org/m\nmax-model-len: *length\n"
        "max-num-seqs: 4\ntensor-parallel-size: 2\n"
    )
    found = planner.read(text)

    assert found.engine_args["max_model_len"] == 4096
    assert found.text(max_model_len=512) == text.replace("*length", "512")


@pytest.mark.parametrize(
    "text",
    [
        '{"model": "org/m", "messages": [], "max_tokens": 5}',
        '{"architectures": ["LlamaForCausalLM"], "model_type": "x", "dtype": "half"}',
        "name: a\nversion: 2\nmodel: x\nlearning_rate: 3\n",
    ],
)
def test_other_tables_are_no_configuration_of_vllm(text: str) -> None:
    """A request, a model's config.json, a training's settings."""
    with pytest.raises(PlannerError, match="No start of vLLM"):
        planner.read(text)


def test_a_broken_manifest_names_its_line() -> None:
    """Other text that is no YAML may still be something else."""
    with pytest.raises(PlannerError, match="Line 9: the text is not valid YAML"):
        planner.read(pod("args: [--model", "env: []"))
    assert planner.read("# a: b: c\nvllm serve org/m: --seed 1").kind == "command"


def test_a_wrong_argument_in_a_plan_file_names_its_line() -> None:
    """As `planner plan -f` does."""
    with pytest.raises(PlannerError, match="Line 3"):
        planner.read("model: org/m\nengine_args:\n  max_modellen: 3\n")


BOMB = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB + "model: org/m\nmax-num-seqs: 1\ndtype: half\ncompilation-config: *i\n",
        "model: &a [*a]\n",
        "apiVersion: " + "[" * 100_000,
        "model: " + "{" * 5000 + "\n",
        "apiVersion: v1\nkind: Pod\nmodel: x\n" + "a: b\n" * 39_000,
        "services:\n" + "  - vllm: {{ x }} \n" * 5000,
        "apiVersion: v1\n" + "{{ x }}" * 20_000 + "{{",
        '{"model": "vllm", "a": ' + "[" * 90_000,
        "vllm: |\n" + "  vllm serve x: y \\\n" * 9000,
    ],
    ids=["anchors", "itself", "deep", "braces", "many", "list", "{{", "json", "block"],
)
def test_a_bomb_is_no_start(text: str) -> None:
    """It ends, in the one start that it has or a sentence; benchmarks measure when."""
    found = []
    with suppress(PlannerError):
        found = [
            one.start.shown for one in starts_in_manifest(Passage.whole(text), text)
        ]

    assert len(found) <= 1


def test_without_pyyaml_json_is_read_and_yaml_names_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PyYAML is an extra."""
    monkeypatch.setitem(sys.modules, "yaml", None)

    assert planner.read(text_of("compose.json")).model == "google/gemma-3-12b-it"
    for name in ("compose-list.yaml", "config-dashes.yaml"):
        with pytest.raises(PlannerError, match="pip install pyyaml"):
            planner.read(text_of(name))


def test_an_empty_entry_of_a_stack_has_no_place() -> None:
    """Helm reads `-` as an entry without anything; nothing can be put beside it."""
    read = planner.read("servingEngineSpec:\n  modelSpec:\n  -")
    with pytest.raises(PlannerError, match="no place for maxModelLen"):
        read.text(max_model_len=4096)


@pytest.mark.parametrize("count", ["\u00b2", "9" * 5000])
@pytest.mark.parametrize(
    "text",
    [
        pod("args: [--model, org/m]", "resources: {limits: {nvidia.com/gpu: COUNT}}"),
        "services:\n  a:\n    image: vllm/vllm-openai\n    command: --model org/m\n"
        "    gpus: COUNT\n",
        "services:\n  a:\n    image: vllm/vllm-openai\n    command: --model org/m\n"
        "    deploy: {resources: {reservations: {devices: [{count: COUNT}]}}}\n",
        "servingEngineSpec:\n  modelSpec:\n  - {modelURL: org/m, requestGPU: COUNT}\n",
        "llm_configs:\n- model_loading_config: {model_id: org/m}\n"
        "  placement_group_config: {bundles: [{GPU: COUNT}]}\n",
        "kind: LeaderWorkerSet\napiVersion: leaderworkerset.x-k8s.io/v1\nspec:\n"
        "  leaderWorkerTemplate:\n    size: COUNT\n    leaderTemplate:\n      spec:\n"
        "        containers:\n        - image: vllm/vllm-openai\n"
        "          args: [--model, org/m]\n",
        "model: {model_id: org/m, base_args: [--seed, 1]}\n"
        "variants: {default: {tp: COUNT}}\n",
    ],
    ids=["pod", "gpus", "devices", "stack", "ray", "workers", "recipe"],
)
def test_a_count_that_is_no_number_is_none(text: str, count: str) -> None:
    """Superscripts are digits to Python, and five thousand of them no number."""
    found = planner.read(text.replace("COUNT", count))

    assert (found.model, found.gpus) == ("org/m", None)
    assert "tensor_parallel_size" not in found.engine_args


def test_a_name_that_is_none_of_a_variable_is_left_out() -> None:
    """It would end in a command of the shell."""
    found = planner.read(
        pod(
            "args: [--model, org/m]",
            "env:",
            '  - {name: "VLLM_A=1; touch a #", value: "1"}',
            "  - {name: VLLM_B, value: x}",
        )
    )

    assert found.env == {"VLLM_B": "x"}
    assert (
        "'VLLM_A=1; touch a #' is not the name of an environment variable: left out."
    ) in found.notes


def test_what_a_group_sets_for_its_pods_is_known() -> None:
    """llm-d's chart: 16 replicas of the data, 8 in each of two pods."""
    text = (
        "modelArtifacts: {uri: 'hf://org/m', name: org/m}\n"
        "decode:\n  parallelism: {tensor: 1, data: 16, dataLocal: 8}\n"
        "  containers:\n    - name: vllm\n      modelCommand: custom\n"
        "      command: [/bin/bash, -c]\n      args:\n        - >-\n"
        "          vllm serve org/m --tensor-parallel-size $TP_SIZE\n"
        "          --data-parallel-size $((LWS_GROUP_SIZE * DP_SIZE_LOCAL))\n"
        "      resources: {limits: {nvidia.com/gpu: 8}}\n"
    )
    found = planner.read(text)

    assert {"tensor_parallel_size": 1, "data_parallel_size": 16} == found.engine_args
    assert 16 == found.gpus


def test_variables_of_a_graph_and_its_services_are_known() -> None:
    """Dynamo sets both in the pod; the service's stand above the graph's."""
    worker = (
        "      extraPodSpec:\n        mainContainer:\n"
        "          image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.3.0\n"
        "          command: [sh, -c]\n"
        "          args: ['python3 -m dynamo.vllm --model $MODEL -tp $TP']\n"
    )
    found = planner.read(
        "apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeployment\nspec:\n"
        "  envs: [{name: MODEL, value: org/m}, {name: TP, value: '2'}]\n"
        "  services:\n    Worker:\n      envs: [{name: TP, value: '4'}]\n"
        "      resources: {limits: {gpu: '4'}}\n" + worker
    )

    assert ("org/m", {"tensor_parallel_size": 4}) == (found.model, found.engine_args)
    assert ("Worker", 4, "0.24.0") == (found.shown, found.gpus, found.vllm_version)
    with pytest.raises(PlannerError, match="counts Dynamo's releases"):
        found.text(vllm_version="0.30.0")
