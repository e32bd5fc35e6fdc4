"""Commands and containers in documents of any form, and templates in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import planner
from planner.errors import PlannerError
from tests.rows import each_row

Row = tuple[str, Mapping[str, Any], int | None]
ROWS: tuple[Row, ...] = (
    (  # GitHub Actions
        "env: {MODEL: org/m}\njobs:\n  a:\n    steps:\n      - run: |\n"
        "          vllm serve ${{ env.MODEL }} --max-model-len 1300 &\n",
        {"max_model_len": 1300},
        None,
    ),
    (  # GitLab CI: the lines of one script
        "serve:\n  script:\n    - export MODEL=org/m\n"
        "    - vllm serve $MODEL --max-model-len 1300\n",
        {"max_model_len": 1300},
        None,
    ),
    (  # Ansible
        "- hosts: a\n  vars: {name: org/m, tp: 2}\n  tasks:\n"
        "    - name: Run vllm serve on all\n"
        "      community.docker.docker_container:\n"
        "        image: vllm/vllm-openai:v0.10.1\n"
        "        command: ['--model={{ name }}', '-tp={{ tp }}']\n"
        "        device_requests: [{device_ids: ['0,1']}]\n",
        {"tensor_parallel_size": 2},
        2,
    ),
    (  # cloud-init
        "#cloud-config\nwrite_files:\n  - path: /run.sh\n    content: |\n"
        "      #!/bin/bash\n      vllm serve org/m --max-model-len 1300\n",
        {"max_model_len": 1300},
        None,
    ),
    (  # Task, whose variables name themselves in their defaults
        'version: "3"\nvars:\n  M: \'{{.M | default "org/m"}}\'\ntasks:\n'
        "  serve:\n    desc: run vllm serve\n"
        "    cmds: [vllm serve {{.M}} --max-model-len 1300]\n",
        {"max_model_len": 1300},
        None,
    ),
    (  # llama-swap, whose lines need no backslash
        "macros: {base: --max-num-seqs 8}\nmodels:\n  a:\n"
        "    env: [CUDA_VISIBLE_DEVICES=1]\n    cmd: |\n      vllm serve org/m\n"
        "      # not this: --max-num-seqs 9\n      ${base}\n"
        "      --max-model-len 1300\n",
        {"max_model_len": 1300, "max_num_seqs": 8},
        1,
    ),
    (  # a recipe with defaults
        "defaults: {tp: 4, len: 64000}\ncommand: >\n"
        "  vllm serve org/m -tp {tp} --max-model-len {len}\n",
        {"tensor_parallel_size": 4, "max_model_len": 64000},
        None,
    ),
    (  # a chart's values
        "image: {repository: vllm/vllm-openai, tag: v0.9.2}\n"
        "args: [--model, org/m, --max-model-len=1300]\n"
        "resources: {limits: {nvidia.com/gpu: 2}}\n",
        {"max_model_len": 1300},
        2,
    ),
    (  # Terraform
        'variable "m" { default = "org/m" }\n'
        'locals { args = ["--model", var.m, "--max-model-len", 1300] }\n'
        'resource "docker_container" "a" {\n'
        '  image = "vllm/vllm-openai:v0.10.2"\n  command = local.args\n}\n',
        {"max_model_len": 1300},
        None,
    ),
    (  # Nomad
        'job "a" {\n  task "b" {\n    config {\n'
        '      image = "vllm/vllm-openai:v0.11.0"\n'
        '      args = ["--model", "org/m", "--max-model-len", "1300"]\n    }\n'
        '    resources {\n      device "nvidia/gpu" {\n        count = 2\n'
        "      }\n    }\n  }\n}\n",
        {"max_model_len": 1300},
        2,
    ),
    (  # Helm's --set, in Terraform and in a shell
        "helm install a vllm/vllm-stack --set 'servingEngineSpec.modelSpec[0]."
        "modelURL=org/m,servingEngineSpec.modelSpec[0].requestGPU=2' --set "
        "servingEngineSpec.modelSpec[0].vllmConfig.maxModelLen=1300",
        {"max_model_len": 1300, "enable_prefix_caching": False},
        2,
    ),
    (  # "$@" of a pod
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n"
        "      image: vllm/vllm-openai:v0.10.0\n      command: [sh, -c]\n"
        "      args: ['exec vllm serve \"$@\"', --, org/m, --max-model-len=1300]\n",
        {"max_model_len": 1300},
        None,
    ),
    (  # a Ray cluster's workers
        "apiVersion: ray.io/v1\nkind: RayCluster\nspec:\n  headGroupSpec:\n"
        "    template: &t\n      spec:\n        containers:\n          - name: h\n"
        "            image: vllm/vllm-openai:v0.10.0\n"
        "            args: [--model, org/m, -tp, '4']\n"
        "            resources: {limits: {nvidia.com/gpu: 1}}\n"
        "  workerGroupSpecs:\n    - replicas: 3\n      template:\n"
        "        spec:\n          containers:\n            - name: w\n"
        "              image: vllm/vllm-openai:v0.10.0\n"
        "              resources: {limits: {nvidia.com/gpu: 1}}\n",
        {"tensor_parallel_size": 4},
        4,
    ),
)
OPEN: tuple[tuple[str, str], ...] = (
    ("steps:\n  - run: vllm serve ${{ secrets.M }} -tp 2\n", "${{ secrets.M }}"),
    ("cmd: vllm serve {model} --max-model-len 9\n", "{model}"),
    (
        'resource "a" "b" {\n  image = "vllm/vllm-openai:v0.9.0"\n'
        '  args = ["--model", var.model]\n}\n',
        "var.model",
    ),
    ("- shell: vllm serve {{ m | default(n) | lower }}\n", "{{ m"),
)
NONE = (
    "tasks:\n  - name: run vllm serve org/m\n    debug: {msg: vllm serve org/m}\n",
    "models:\n  a:\n    cmd: llama-server -m /m/qwen.gguf -ngl 99\n",
    'resource "a" "b" {\n  labels = { role = "vllm serve" }\n}\n',
)


@each_row("row", ROWS, ids=lambda row: row[0][:60])
def test_a_start_is_found_where_a_document_runs_it(row: Row) -> None:
    """Its model, its arguments, and the GPUs that are granted around it."""
    text, arguments, gpus = row
    found = planner.read(text)

    assert 1 == found.num_starts
    assert ("org/m", arguments, gpus) == (found.model, found.engine_args, found.gpus)


@each_row("row", ROWS, ids=lambda row: row[0][:60])
def test_a_change_is_written_there_or_refused(row: Row) -> None:
    """What is read again differs by the change alone."""
    text, arguments, _ = row
    name = next(iter(arguments))
    try:
        changed = planner.read(text).text(**{name: 7})
    except PlannerError:
        return
    assert planner.read(changed).engine_args == {**arguments, name: 7}


@each_row("row", OPEN, ids=lambda row: row[0][:60])
def test_what_is_decided_elsewhere_stays_open(row: tuple[str, str]) -> None:
    """It is named as it is written, and is no model."""
    text, named = row
    found = planner.read(text)

    assert found.model is None
    assert any(named in said for said in found.open), found.open


@each_row("text", NONE)
def test_what_only_tells_about_a_start_is_none(text: str) -> None:
    """Names of tasks, messages and labels run nothing."""
    with pytest.raises(PlannerError):
        planner.read(text)


def test_lines_of_an_env_file_fill_a_compose_file() -> None:
    """Both in one text; `environment` is not what Compose puts in."""
    compose = (
        "services:\n  a:\n    image: vllm/vllm-openai:v0.10.0\n"
        "    environment: {LEN: 9}\n"
        "    command: --model ${MODEL} --max-model-len ${LEN:-8}\n"
    )
    found = planner.read(f"{compose}# .env\nMODEL=org/m\n")

    assert ("org/m", {"max_model_len": 8}) == (found.model, found.engine_args)
