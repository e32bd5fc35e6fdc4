"""Ray programs: they compile, name what their release has, and keep the figures."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner import PlannerError
from planner.engine.releases import NEWEST as NEWEST_VLLM
from planner.export import ray_arguments, ray_data, ray_serve, ray_serve_config
from planner.planning.batches import ENTRYPOINTS
from planner.ray import NEWEST, RayRelease, pipeline
from tests.export.test_export_command import ARGUMENTS, MODEL, cases, figures

RECORDED = json.loads(
    (Path(__file__).parents[1] / "data" / "ray_releases.json").read_text(
        encoding="utf-8"
    )
)
"""What each release of Ray has, as tools/record_ray.py found it in the wheels."""
every_release = pytest.mark.parametrize("version", RECORDED)
GIB = 2**30


class Program:
    """What a program imports, calls and defines."""

    def __init__(self, code: str) -> None:
        self.tree = ast.parse(code)
        compile(self.tree, "<exported>", "exec")

    def call(self, name: str) -> dict[str, Any]:
        """Return the keyword arguments of the one call of `name`."""
        (found,) = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Call) and ast.unparse(node.func) == name
        ]
        return {str(word.arg): _value(word.value) for word in found.keywords}

    def imported(self) -> set[str]:
        """Return the names that come from ray.data.llm or ray.serve.llm."""
        return {
            one.name
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom) and str(node.module).endswith(".llm")
            for one in node.names
        }

    def function(self, name: str):
        """Return a function of the program, to call."""
        (found,) = [
            node
            for node in self.tree.body
            if isinstance(node, ast.FunctionDef) and node.name == name
        ]
        names: dict[str, Any] = {}
        module = ast.Module(body=[found], type_ignores=[])
        exec(compile(module, "<exported>", "exec"), names)
        return names[name]


def _value(node: ast.expr) -> Any:
    """Return a literal; what is no literal as code."""
    if isinstance(node, ast.Dict):
        return {
            _value(key): _value(inner)
            for key, inner in zip(node.keys, node.values, strict=True)
            if key is not None
        }
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)


def config(what: Any) -> dict[str, Any]:
    """Return the arguments of vLLMEngineProcessorConfig in the program."""
    return Program(ray_data(what)).call("vLLMEngineProcessorConfig")


def served(what: Any) -> dict[str, Any]:
    """Return the arguments of LLMConfig in the program."""
    return Program(ray_serve(what)).call("LLMConfig")


def told_everything(version):
    """Return a pipeline with all that its release of Ray can be told."""
    release = RayRelease.named(version)
    arguments: dict[str, Any] = {
        "concurrency": (2, 4) if release.takes_ranges else 3,
        "accelerator_type": "H100",
        "batch_size": 16,
        "max_concurrent_batches": 3,
        "max_pending_requests": 100,
        "prepare_multimodal_stage": True,
        "detokenize_stage": False,
        "max_model_len": 4096,
        "env": {"VLLM_USE_FLASHINFER_SAMPLER": "0"},
    }
    if release.since(48):
        arguments["max_tasks_in_flight_per_actor"] = 6
    if release.resources_argument == "resources_per_bundle":
        arguments["resources_per_bundle"] = {"slot": 1}
    elif release.resources_argument:
        arguments["placement_group_config"] = {"bundles": [{"GPU": 1, "CPU": 2}]}
    if release.has_map_kwargs:
        arguments["preprocess_map_kwargs"] = {"num_gpus": 0.5}
        arguments["postprocess_map_kwargs"] = {"num_cpus": 0.25}
    return pipeline(MODEL, gpu="H100", ray_version=version, **arguments)


@every_release
def test_a_release_has_all_that_its_program_names(version):
    """Imports, fields of the configuration, parameters of the builder."""
    program = Program(ray_data(told_everything(version)))
    recorded, builder = (
        RECORDED[version],
        ray_arguments.builder(RayRelease.named(version)),
    )

    assert {builder, "vLLMEngineProcessorConfig"} == program.imported()
    assert program.call("vLLMEngineProcessorConfig").keys() <= recorded["config"].keys()
    assert program.call(builder).keys() <= recorded["builders"][builder].keys()
    assert len(program.call("vLLMEngineProcessorConfig")) >= 9


@every_release
def test_a_release_has_all_that_its_server_names(version):
    """LLMConfig's fields, and what build_openai_app takes."""
    found = told_everything(version)
    code, recorded = ray_serve(found), RECORDED[version]
    arguments = Program(code).call("LLMConfig")
    takes = recorded["openai_app"]["llm_serving_args"]
    (application,) = yaml.safe_load(ray_serve_config(found))["applications"]
    (written,) = application["args"]["llm_configs"]

    assert arguments.keys() <= recorded["llm_config"].keys()
    assert arguments["model_loading_config"].keys() <= recorded["loading"].keys()
    assert {"llm_configs"} == application["args"].keys() <= recorded["serving"].keys()
    assert ("LLMServingArgs(" in code) == ("ict" not in takes)
    assert arguments == written


@every_release
def test_ray_starts_engines_with_the_defaults_that_are_planned(version):
    """Ray Data without a usage context; Ray Serve as a server since 2.49."""
    recorded, release = RECORDED[version], RayRelease.named(version)
    known = {"none": "engine", "OPENAI_API_SERVER": "serve"}

    assert ["none"] == recorded["contexts"]["data"]
    assert "engine" == ray_arguments.data_entrypoint()
    assert [ray_arguments.serve_entrypoint(release)] == [
        known[context] for context in recorded["contexts"]["serve"]
    ]


@every_release
def test_the_vllm_of_a_release_is_that_of_its_requirements(version):
    """At least, and from 2.56 just that one."""
    release = RayRelease.named(version)
    sign = "==" if ray_arguments.brings_one_vllm(release) else ">="

    assert RECORDED[version]["vllm"] == f"{sign}{ray_arguments.vllm_of(release)}"


def test_every_release_that_is_planned_was_recorded():
    """2.44 to 2.60, one of each minor release."""
    assert list(range(44, 61)) == [RayRelease.named(v).number[1] for v in RECORDED]
    assert NEWEST in RECORDED


def test_a_program_holds_what_was_asked_for_and_nothing_else():
    """What Ray and vLLM do anyway is left out."""
    plain = {
        "concurrency": 1,
        "batch_size": 32,
        "max_concurrent_batches": 8,
        "tensor_parallel_size": 1,
        "enforce_eager": False,
    }

    assert {"model_source": MODEL} == config(pipeline(MODEL, gpu="H100", **plain))
    assert {
        "model_source": MODEL,
        "engine_kwargs": {"max_model_len": 4096, "tensor_parallel_size": 2},
        "concurrency": (1, 4),
        "accelerator_type": "H100",
    } == config(
        pipeline(
            MODEL,
            gpu="H100",
            max_model_len=4096,
            tensor_parallel_size=2,
            concurrency=(1, 4),
            accelerator_type="H100",
        )
    )


def test_a_server_s_plan_keeps_its_figures():
    """On an H100 a server has 8,192 tokens and 1,024 requests, Ray Data 2,048, 128."""
    plan = planner.plan(MODEL, gpu="H100")

    assert {"max_num_batched_tokens": 8192, "max_num_seqs": 1024} == config(plan)[
        "engine_kwargs"
    ]
    assert "engine_kwargs" not in served(plan)
    older = pipeline(plan, ray_version="2.48.0")
    assert 1024 == served(older)["engine_kwargs"]["max_num_seqs"]


def test_each_argument_plans_to_the_same_figures():
    """What the program tells vLLM is what was planned, argument by argument."""
    tried = 0
    for name, value in cases(NEWEST_VLLM):
        try:
            plan = planner.plan(MODEL, **{name: value})
            again = _planned_again(plan, _told(plan))
        except PlannerError:
            continue
        tried += 1
        assert figures(plan) == figures(again), (name, value)

    assert tried > 150


@given(ARGUMENTS, st.sampled_from(["H100", "L4", "H200"]), st.sampled_from(ENTRYPOINTS))
def test_any_program_plans_to_the_same_figures(arguments, gpu, entrypoint):
    """Whichever door the plan was made for, the figures stay behind Ray's."""
    try:
        plan = planner.plan(MODEL, gpu=gpu, entrypoint=entrypoint, **arguments)
        program = _told(plan)
        server = served(plan).get("engine_kwargs", {})
    except PlannerError:
        return

    assert figures(plan) == figures(_planned_again(plan, program))
    assert figures(plan) == figures(_planned_again(plan, server, "serve"))


def _told(plan):
    """Return what Ray Data tells the engine: its arguments, and the task's runner."""
    program = config(plan)
    is_pooling = program.get("task_type", "generate") != "generate"
    runner = {"runner": "pooling"} if is_pooling else {}
    return program.get("engine_kwargs", {}) | runner


def _planned_again(plan, told, entrypoint="engine"):
    """Plan what a program tells the engine."""
    told = dict(told)
    compilation = told.pop("compilation_config", {})
    return planner.plan(
        plan.name,
        gpu=plan.gpu,
        vllm_version=plan.vllm_version,
        entrypoint=entrypoint,
        env=dict(plan.env),
        **told,
        **compilation,
    )


def test_a_secret_is_read_where_the_program_starts():
    """Code lies in repositories."""
    found = pipeline(
        MODEL, gpu="H100", hf_token="hf_x1", env={"MY_API_KEY": "x2", "A": "b"}
    )
    code = ray_data(found)

    assert "x1" not in code
    assert "x2" not in code
    assert {
        "A": "b",
        "HF_TOKEN": "os.environ['HF_TOKEN']",
        "MY_API_KEY": "os.environ['MY_API_KEY']",
    } == config(found)["runtime_env"]["env_vars"]
    assert "x2" not in ray_serve_config(found)


def test_workers_that_share_a_gpu_are_told():
    """Ray's executor asks vLLM's workers for whole GPUs otherwise."""
    shared = {
        "placement_group_config": {"bundles": [{"GPU": 0.5, "CPU": 1}] * 2},
        "tensor_parallel_size": 2,
        "gpu_memory_utilization": 0.45,
    }
    newest = pipeline(MODEL, gpu="H100", **shared)
    older = pipeline(MODEL, gpu="H100", ray_version="2.52.1", **shared)
    told = {"env_vars": {"VLLM_RAY_PER_WORKER_GPUS": "0.5"}}

    assert told == config(newest)["runtime_env"]
    assert "runtime_env" not in served(newest)  # Ray Serve does it itself since 2.53
    by_ray = pipeline(
        older.plan,
        ray_version="2.52.1",
        placement_group_config=shared["placement_group_config"],
        distributed_executor_backend="ray",
    )
    assert told == served(by_ray)["runtime_env"]


def test_rows_are_asked_and_answered():
    """As chats; as long as the load says; the answer beside its prompt."""
    found = pipeline(
        MODEL, gpu="H100", load=planner.Load(prompt_tokens=100, output_tokens=40)
    )
    program = Program(ray_data(found))

    assert {
        "messages": [{"role": "user", "content": "Why?"}],
        "sampling_params": {"max_tokens": 40},
    } == program.function("preprocess")({"prompt": "Why?"})
    assert {"prompt": "Why?", "answer": "So."} == program.function("postprocess")(
        {"prompt": "Why?", "generated_text": "So.", "num_input_tokens": 3}
    )


def test_a_pooling_model_embeds_plain_texts():
    """No chat, no answer, nothing turned back to text."""
    found = pipeline("BAAI/bge-m3", gpu="L4")
    program = Program(ray_data(found))

    assert {
        "model_source": "BAAI/bge-m3",
        "task_type": "embed",
        "chat_template_stage": False,
        "detokenize_stage": False,
    } == program.call("vLLMEngineProcessorConfig")
    assert {"prompt": "Why?"} == program.function("preprocess")({"prompt": "Why?"})


def test_replicas_follow_the_pipeline():
    """A range, and one number: a fixed pool up to Ray 2.54, 1 to it since."""
    for version, concurrency, expected in (
        (NEWEST, (2, 5), (2, 5)),
        (NEWEST, 4, (1, 4)),
        ("2.54.1", 4, (4, 4)),
    ):
        found = pipeline(MODEL, gpu="L4", concurrency=concurrency, ray_version=version)
        scaling = served(found)["deployment_config"]["autoscaling_config"]

        assert expected == (scaling["min_replicas"], scaling["max_replicas"])


def test_a_name_of_one_s_own_is_how_users_ask():
    """Ray Serve refuses served_model_name among the engine's arguments."""
    found = pipeline(MODEL, gpu="L4", served_model_name="mine", disable_log_stats=True)

    assert {"model_id": "mine", "model_source": MODEL} == served(found)[
        "model_loading_config"
    ]
    assert "served_model_name" not in served(found)["engine_kwargs"]
    assert "disable_log_stats" not in served(found)["engine_kwargs"]


@given(st.text(min_size=1).filter(lambda text: text.strip()))
def test_any_text_stays_the_same_text(text):
    """Quotes, line breaks, other scripts: the value is what was given."""
    plan = planner.plan(MODEL, gpu="L4", env={"A": text})
    (application,) = yaml.safe_load(ray_serve_config(plan))["applications"]
    (written,) = application["args"]["llm_configs"]

    assert {"A": text} == config(plan)["runtime_env"]["env_vars"]
    assert {"A": text} == served(plan)["runtime_env"]["env_vars"]
    assert {"A": text} == written["runtime_env"]["env_vars"]


def test_another_vllm_than_ray_brings_is_said():
    """Ray 2.60 asks for vLLM 0.29.0 and no other; 2.55 takes newer ones."""
    code = ray_data(planner.plan(MODEL, gpu="L4", vllm_version=NEWEST_VLLM))
    same = ray_data(planner.plan(MODEL, gpu="L4", vllm_version="0.29.0"))
    older = ray_data(pipeline(planner.plan(MODEL, gpu="L4"), ray_version="2.55.1"))

    assert "vllm_version='0.29.0'" in code
    assert "brings" not in same
    assert "brings" not in older


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"data_parallel_size": 2}, "raise concurrency instead"),
        (
            {"max_tasks_in_flight_per_actor": 2, "ray_version": "2.47.1"},
            "came with 2.48",
        ),
    ],
)
def test_what_ray_cannot_be_told_is_refused(arguments, reason):
    """With what to do about it."""
    with pytest.raises(PlannerError, match=reason):
        ray_data(pipeline(MODEL, gpu="H100", **arguments))


def test_older_servers_take_one_bundle_for_all_workers():
    """Ray Serve LLM 2.50 has resources_per_bundle, where Ray Data has groups."""
    alike = {"bundles": [{"GPU": 1, "CPU": 2}] * 2}
    mixed = {"bundles": [{"GPU": 1, "CPU": 2}, {"GPU": 1}]}
    given = {"ray_version": "2.50.1", "tensor_parallel_size": 2, "gpu": "H100"}

    found = served(pipeline(MODEL, placement_group_config=alike, **given))
    assert {"GPU": 1, "CPU": 2} == found["resources_per_bundle"]
    with pytest.raises(PlannerError, match="one bundle for all workers alike"):
        ray_serve(pipeline(MODEL, placement_group_config=mixed, **given))
