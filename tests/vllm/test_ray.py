"""Exported Ray programs under the installed Ray: they build, and one answers rows.

One start answers all: Ray and vLLM's CPU build, with a tiny model on this machine.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import planner
from planner.confirming.installation import PYTHON_VARIABLE
from planner.export import ray_data, ray_serve, ray_serve_config
from planner.ray import Pipeline, pipeline
from tests.vllm.test_real_weights import write_checkpoint

PROGRAM = Path(__file__).parent / "ray_programs.py"
PROMPTS = ["word1 word7", "word2 word7", "word3"]
OPERATORS = {
    "preprocess": "Map(_preprocess)",
    "ChatTemplateStage": "MapBatches(ChatTemplateUDF)",
    "TokenizeStage": "MapBatches(TokenizeUDF)",
    "vLLMEngineStage": "MapBatches(vLLMEngineStageUDF)",
    "DetokenizeStage": "MapBatches(DetokenizeUDF)",
    "postprocess": "Map(_postprocess)",
}
"""What Ray Data calls the stages."""
ALL = {
    "plain": {},
    "a range": {"concurrency": (1, 4), "accelerator_type": "H100"},
    "two GPUs": {"tensor_parallel_size": 2, "concurrency": 2, "max_model_len": 512},
    "two on a GPU": {
        "gpu_memory_utilization": 0.45,
        "placement_group_config": {"bundle_per_worker": {"GPU": 0.5, "CPU": 1}},
    },
    "over nodes": {
        "distributed_executor_backend": "ray",
        "tensor_parallel_size": 4,
        "pipeline_parallel_size": 2,
        "placement_group_config": {
            "bundle_per_worker": {"GPU": 1, "CPU": 1},
            "strategy": "SPREAD",
        },
    },
    "told much": {
        "batch_size": 16,
        "max_concurrent_batches": 4,
        "max_tasks_in_flight_per_actor": 8,
        "max_pending_requests": 64,
        "preprocess_map_kwargs": {"num_gpus": 0.5, "concurrency": 2},
        "postprocess_map_kwargs": {"num_cpus": 0.25},
        "tokenize_stage": {"num_cpus": 0.5, "concurrency": 2},
        "env": {"VLLM_USE_FLASHINFER_SAMPLER": "0"},
        "compilation_config": {"mode": 0},
    },
}


def on_gpus(folder: Path, **arguments: Any) -> Pipeline:
    """Plan the tiny model for GPUs that this machine has not."""
    return pipeline(folder, gpu="H100", **arguments)


def on_this_machine(folder: Path, release: str) -> Pipeline:
    """Plan one engine on the processor, which asks Ray for no GPU."""
    plan = planner.plan(
        folder,
        gpu="CPU",
        vllm_version=release,
        entrypoint="engine",
        dtype="float32",
        gpu_memory_utilization=0.2,
        enforce_eager=True,
        max_model_len=64,
    )
    return pipeline(
        plan,
        chat_template_stage=False,
        tokenize_stage={"num_cpus": 0.25},
        detokenize_stage={"num_cpus": 0.25},
        preprocess_map_kwargs={"num_cpus": 0.25},
        postprocess_map_kwargs={"num_cpus": 0.25},
        batch_size=2,
        placement_group_config={"bundles": [{"CPU": 1}]},
    )


@pytest.fixture(scope="module")
def work(release, tmp_path_factory) -> dict[str, Any]:
    """Write the programs, let Ray answer, and return what it said with its log."""
    folder = tmp_path_factory.mktemp("ray")
    model = folder / "model"
    model.mkdir()
    write_checkpoint(model)
    rows = folder / "rows"
    rows.mkdir()
    pq.write_table(pa.table({"prompt": PROMPTS}), rows / "rows.parquet")
    asked: dict[str, Any] = {"data": [], "serve": [], "deploy": []}
    pipelines = [on_gpus(model, **arguments) for arguments in ALL.values()]
    for number, found in enumerate(pipelines):
        for kind, text in (
            ("data", ray_data(found)),
            ("serve", ray_serve(found)),
            ("deploy", ray_serve_config(found)),
        ):
            file = folder / f"{kind}{number}.txt"
            file.write_text(text, encoding="utf-8")
            asked[kind].append(str(file))
    here = on_this_machine(model, release)
    program = folder / "run.py"
    program.write_text(ray_data(here), encoding="utf-8")
    answers = folder / "answers"
    asked["run"] = [str(program), str(rows), str(answers)]
    asked["folder"] = str(folder)
    (folder / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
    variables = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    done = subprocess.run(
        [
            *(os.environ[PYTHON_VARIABLE], str(PROGRAM)),
            *(str(folder / "asked.json"), str(folder / "done.json")),
        ],
        env=os.environ | variables,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
    )
    assert 0 == done.returncode, (done.stdout + done.stderr)[-6000:]
    log = "\n".join(
        path.read_text(errors="replace")
        for path in folder.glob("session_*/logs/worker-*")
    )
    answered = json.loads((folder / "done.json").read_text(encoding="utf-8"))
    beside = {"log": log, "plan": here.plan, "pipelines": pipelines}
    return answered | beside | {"answers": pq.read_table(answers).to_pylist()}


def test_each_program_asks_ray_for_what_was_planned(work) -> None:
    """Stage by stage: workers, GPUs, accelerator, and whether they come in a group."""
    assert len(ALL) == len(work["data"])
    for found, stages in zip(work["pipelines"], work["data"], strict=True):
        assert [OPERATORS[stage.name] for stage in found.stages] == [
            stage["name"] for stage in stages
        ]
        for planned, stage in zip(found.stages, stages, strict=True):
            is_group = not planned.worker.is_single_request
            assert is_group == stage["is_group"]
            assert (0 if is_group else planned.worker.gpus) == stage["gpus"]
            if planned.is_actors:
                assert (planned.workers_minimum, planned.workers_maximum) == (
                    stage["least"],
                    stage["most"],
                )
        (engine,) = [stage for stage in stages if "vLLMEngine" in stage["name"]]
        assert found.accelerator_type == engine["accelerator_type"]


def test_each_server_makes_its_application(work) -> None:
    """As a program, and as a configuration for `serve deploy`."""
    assert len(ALL) == len(work["serve"])
    assert len(set(work["serve"])) == 1
    assert {"ray.serve.llm:build_openai_app"} == set(work["deploy"])


def test_rows_are_answered_in_words(work) -> None:
    """Each prompt once, with what the tiny model makes of it."""
    answers = {row["prompt"]: row["answer"].split() for row in work["answers"]}

    assert sorted(PROMPTS) == sorted(answers)
    assert len(PROMPTS) == len(work["answers"])
    for words in answers.values():
        assert words
        assert all(re.fullmatch(r"word\d+", word) for word in words)


def test_the_engine_had_the_defaults_that_were_planned(work) -> None:
    """Those of the bare engine: the LLM class would have taken 4,096 tokens."""
    tokens = work["plan"].resolved.max_num_batched_tokens

    assert 2048 == tokens
    assert f"max_num_batched_tokens={tokens}" in work["log"]
