"""What frameworks and platforms tell vLLM, each in its own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import planner
from planner.errors import PlannerError
from planner.reading.starts.frameworks import frameworks
from tests.rows import each_row

Row = tuple[str, str, Mapping[str, Any]]
KAITO = """\
apiVersion: kaito.sh/v1beta1
kind: Workspace
metadata: {name: w}
resource: {instanceType: Standard_NC96ads_A100_v4}
inference: {preset: {name: llama-3.3-70b-instruct}}
"""
STARTS: tuple[Row, ...] = (
    (
        "python3 -m verl.trainer.main_ppo data.max_prompt_length=512 "
        "data.max_response_length=1536 actor_rollout_ref.model.path=org/m "
        "actor_rollout_ref.rollout.tensor_model_parallel_size=2 "
        "+actor_rollout_ref.rollout.engine_kwargs.vllm.max_num_seqs=64",
        "org/m",
        {"tensor_parallel_size": 2, "max_num_seqs": 64, "max_model_len": 2048},
    ),
    (
        "python -m openrlhf.cli.train_ppo_ray --pretrain org/m --vllm_num_engines 2 "
        "--vllm_tensor_parallel_size 4 --vllm_gpu_memory_utilization 0.5",
        "org/m",
        {"tensor_parallel_size": 4, "gpu_memory_utilization": 0.5},
    ),
    (
        "swift deploy --model org/m --infer_backend vllm --vllm_max_model_len 8192",
        "org/m",
        {"max_model_len": 8192},
    ),
    (
        "policy:\n  model_name: org/m\n  max_total: 512\n  generation:\n"
        "    backend: vllm\n    vllm_cfg: {max_model_len: '${policy.max_total}'}\n",
        "org/m",
        {"max_model_len": 512},
    ),
    (
        "model_name_or_path: org/m\ntemplate: x\ninfer_backend: vllm\n"
        "vllm_maxlen: 4096\nvllm_gpu_util: 0.8\n",
        "org/m",
        {"max_model_len": 4096, "gpu_memory_utilization": 0.8},
    ),
    (
        '[inference.model]\nname = "org/m"\nmax_model_len = 8192\n'
        "[inference.parallel]\ntp = 2\n",
        "org/m",
        {"max_model_len": 8192, "tensor_parallel_size": 2},
    ),
    (
        "model: vllm\nmodel_args: pretrained=org/m,tensor_parallel_size=2\n",
        "org/m",
        {"tensor_parallel_size": 2},
    ),
    (
        "option.model_id=org/m\noption.rolling_batch=vllm # fast\n"
        "option.tensor_parallel_degree=4\noption.max_rolling_batch_size=64\n",
        "org/m",
        {"tensor_parallel_size": 4, "max_num_seqs": 64},
    ),
    (
        "SM_VLLM_MODEL=org/m\nSM_VLLM_MAX_MODEL_LEN=9000\n",
        "org/m",
        {"max_model_len": 9000},
    ),
    (
        'VLLM_MODEL=org/m\nVLLM_ARGS="--max-model-len 8192 -tp 2"\n',
        "org/m",
        {"max_model_len": 8192, "tensor_parallel_size": 2},
    ),
    (
        "docker run -e MODEL_NAME=org/m -e MAX_MODEL_LEN=8000 runpod/worker-v1-vllm:v2",
        "org/m",
        {"max_model_len": 8000},
    ),
    (
        "catalog:\n  a-l4:\n    enabled: true\n    url: hf://org/m\n"
        "    engine: VLLM\n    args: [--max-model-len=8192]\n"
        "    resourceProfile: 'nvidia-gpu-l4:1'\n",
        "org/m",
        {"max_model_len": 8192},
    ),
    (
        "image: {repository: vllm/vllm-openai, tag: v0.30.0}\nmodelName: org/m\n"
        "maxModelLen: 8192\ntensorParallelSize: 1\n",
        "org/m",
        {"max_model_len": 8192, "tensor_parallel_size": 1},
    ),
    (
        "vllm:\n  image: {repository: vllm/vllm-openai}\n  model: org/m\n"
        "  maxModelLen: 8192\n  extraArgs:\n    - --max-num-seqs=64\n",
        "org/m",
        {"max_model_len": 8192, "max_num_seqs": 64},
    ),
    (
        "llm:\n  image: vllm/vllm-openai:v0.28.0\n  modelId: org/m\n"
        '  args: ["--max-model-len", "16384"]\n',
        "org/m",
        {"max_model_len": 16384},
    ),
)
NONE: tuple[tuple[str, str], ...] = (
    ("base_model: org/m\nadapter: lora\nsequence_len: 4096\n", "axolotl"),
    ("model_name_or_path: org/m\nuse_vllm: true\nvllm_mode: server\n", "TRL"),
    ("model_name_or_path: org/m\nstage: sft\ncutoff_len: 2048\n", "LLaMA-Factory"),
    (
        "model_list:\n  - model_name: m\n    litellm_params:\n"
        "      model: hosted_vllm/org/m\n      api_base: http://vllm:8000/v1\n",
        "LiteLLM",
    ),
    ("option.model_id=org/m\noption.rolling_batch=trtllm\n", "DJL Serving"),
    (
        "apiVersion: x.example.io/v1\nkind: Deployer\nspec:\n  engine: vllm\n"
        "  models:\n    - uri: org/m\n",
        "Deployer of x.example.io/v1",
    ),
)


@each_row("row", STARTS, ids=lambda row: row[0][:60])
def test_settings_are_what_they_are_to_vllm(row: Row) -> None:
    """Model and arguments, by vLLM's names; a change of one is read back."""
    text, model, arguments = row
    found = planner.read(text)

    assert (found.model, dict(found.engine_args)) == (model, arguments)
    name = next(iter(arguments), None)
    if name is not None:
        changed = found.text(**{name: 7})
        assert planner.read(changed).engine_args == {**arguments, name: 7}


@each_row("row", NONE, ids=lambda row: row[0][:60])
def test_a_framework_without_vllm_is_named(row: tuple[str, str]) -> None:
    """No verdict on what starts no vLLM, or in a form that is not known."""
    text, named = row
    with pytest.raises(PlannerError) as refused:
        planner.read(text)

    assert named in str(refused.value)


def test_a_controller_gives_what_its_object_leaves_to_it() -> None:
    """KAITO splits a model over the four A100 of a machine, at a share of 0.84."""
    found = planner.read(KAITO)
    given = {
        "gpu_memory_utilization": 0.84,
        "max_model_len": "auto",
        "tensor_parallel_size": 4,
    }

    assert ("A100-80GB-PCIe", 4) == (found.gpu, found.gpus)
    assert ("meta-llama/Llama-3.3-70B-Instruct", given) == (
        found.model,
        dict(found.engine_args),
    )
    with pytest.raises(PlannerError, match="no place for max_model_len"):
        found.text(max_model_len=8192)


def test_what_a_config_says_stands_above_what_a_controller_gives() -> None:
    """Its ConfigMap is where a change is written."""
    text = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n"
        "  inference_config.yaml: |\n    vllm:\n      max-model-len: 4096\n---\n"
        + KAITO.replace("instruct}", "instruct}, config: c")
    )
    changed = planner.read(planner.read(text).text(gpu_memory_utilization=0.9))

    assert 4096 == changed.engine_args["max_model_len"]
    assert 0.9 == changed.engine_args["gpu_memory_utilization"]


def test_a_request_to_a_profiler_starts_nothing() -> None:
    """Dynamo's profiler writes the arguments, and its graph is what to check."""
    text = (
        "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeploymentRequest\n"
        "spec: {model: org/m, backend: vllm}\n"
    )
    with pytest.raises(PlannerError, match="check the DynamoGraphDeployment"):
        planner.read(text)


def test_each_row_says_how_it_is_known() -> None:
    """By its settings or by its program, and in a sentence why it starts no vLLM."""
    unknown = [row.name for row in frameworks() if not (row.has or row.program)]
    silent = [row.name for row in frameworks() if row.wants and not row.without]

    assert ([], []) == (unknown, silent)


def test_a_release_in_one_start_s_image_is_not_another_s() -> None:
    """Of llama-swap's models one is a container, the other vLLM itself."""
    text = (
        "models:\n  a:\n    cmd: vllm serve org/a --port ${PORT}\n  b:\n"
        "    cmd: docker run --gpus all vllm/vllm-openai:v0.30.0 --model org/b\n"
    )
    own, other = planner.read(text), planner.read(text, start=2)

    assert (None, "0.30.0") == (own.vllm_version, other.vllm_version)


def test_a_model_that_a_chart_turns_off_is_none() -> None:
    """Only the others of its catalogue start."""
    entry = "    enabled: {}\n    url: hf://org/{}\n    engine: VLLM\n    args: []\n"
    text = (
        f"catalog:\n  a:\n{entry.format('false', 'a')}  b:\n{entry.format('true', 'b')}"
    )

    assert ("org/b", "b", 1) == (
        (found := planner.read(text)).model,
        found.shown,
        found.num_starts,
    )
