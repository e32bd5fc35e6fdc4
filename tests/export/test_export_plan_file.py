"""Plan files: what `yaml` writes is read again, and mistakes are named by line."""

from __future__ import annotations

import builtins
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner import GPU, Inputs, Load, PlannerError
from planner.engine.gpu import Processor
from planner.export import read_yaml, yaml
from tests.export.test_export_command import ARGUMENTS

MODEL = "Qwen/Qwen3-8B"

EXAMPLE = """\
# Chat, 16 at once.
model: Qwen/Qwen3-8B
gpu: L40S
vllm_version: 0.30
entrypoint: serve
env:
  VLLM_USE_FLASHINFER_SAMPLER: 1
load:
  prompt_tokens: 3000
  output_tokens: 1000
  requests: 16
engine_args:
  max_model_len: 8192
  kv_cache_dtype: fp8
  limit_mm_per_prompt:
    image: 2
  cudagraph_capture_sizes: [1, 2, 4]
"""


def test_a_file_reads_as_people_write_it():
    """0.30 is a release and no number, 1 the text of a variable."""
    found = read_yaml(EXAMPLE)

    assert Load(prompt_tokens=3000, output_tokens=1000, requests=16) == found.load
    assert (
        Inputs(
            model=MODEL,
            gpu="L40S",
            vllm_version="0.30",
            env={"VLLM_USE_FLASHINFER_SAMPLER": "1"},
            engine_args={
                "max_model_len": 8192,
                "kv_cache_dtype": "fp8",
                "limit_mm_per_prompt": {"image": 2},
                "cudagraph_capture_sizes": (1, 2, 4),
            },
            load=found.load,
        )
        == found.inputs
    )
    assert "0.30.0" == found.inputs.plan().vllm_version


def test_json_of_the_same_shape_is_read_too():
    """For programs that write no YAML."""
    text = json.dumps({"model": MODEL, "engine_args": {"max_model_len": 4096}})

    assert Inputs(model=MODEL, engine_args={"max_model_len": 4096}) == (
        read_yaml(text).inputs
    )


@given(
    ARGUMENTS,
    st.sampled_from(["H100", "L4"]),
    st.sampled_from(["serve", "llm"]),
    st.text(min_size=1),
)
def test_what_is_written_is_read_again(arguments, gpu, entrypoint, value):
    """The same plan, whatever text a variable holds."""
    try:
        plan = planner.plan(
            MODEL, gpu=gpu, entrypoint=entrypoint, env={"A": value}, **arguments
        )
    except PlannerError:
        return

    assert plan == read_yaml(yaml(plan)).inputs.plan()


@pytest.mark.parametrize(
    "gpu",
    [
        GPU.named("H100", free_memory_bytes=40 * 2**30),
        GPU(name="Mine", total_memory_bytes=2**36, compute_capability=(12, 1)),
        GPU(
            name="Digits",
            total_memory_bytes=2**36,
            compute_capability=(9, 0),
            device_name="9" * 5000,
        ),
        GPU(
            name="CPU",
            total_memory_bytes=2**36,
            processor=Processor(flags=("avx2",), memory_node=1),
        ),
    ],
    ids=lambda gpu: gpu.name,
)
def test_a_gpu_of_one_s_own_is_a_table_of_facts(gpu):
    """Of a known one only what differs."""
    plan = planner.plan(MODEL, gpu=gpu, max_model_len=2048)

    assert gpu == read_yaml(yaml(plan)).inputs.gpu


def test_a_load_is_kept_beside_the_plan():
    """What the plan must serve is no engine argument."""
    load = Load(prompt_tokens=100, output_tokens=20, requests=3)

    assert load == read_yaml(yaml(planner.plan(MODEL), load)).load


def test_a_token_is_not_written():
    """Plan files lie in repositories."""
    plan = planner.plan(MODEL, hf_token="hf_x1", env={"HF_TOKEN": "hf_x2"})

    assert "hf_x" not in yaml(plan)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The plan file is empty"),
        ("- a\n", "Line 1: A plan file is a table"),
        ("gpu: H100\n", "needs `model:`"),
        (
            "model: m\nmodle: x\n",
            "Line 2: A plan file has no 'modle'.*Did you mean model",
        ),
        ("model: m\nmax_model_len: 4096\n", "Line 2: max_model_len.*under engine_args"),
        (
            "model: m\nengine_args:\n  max_modle_len: 1\n",
            "Line 3: .*Did you mean max_m",
        ),
        (
            "model: m\nengine_args:\n  max_num_seqs: many\n",
            "Line 3: max_num_seqs='many'",
        ),
        ("model: m\nengine_args:\n  enforce_eager: 1\n", "Line 3: .*true or false"),
        (
            "model: m\nengine_args:\n  limit_mm_per_prompt: 2\n",
            "Line 3: .*names and values",
        ),
        (
            "model: m\nengine_args:\n  cudagraph_capture_sizes:\n    - a\n",
            "Line 3: .*whole numbers from 1",
        ),
        ("model: m\nengine_args: [1]\n", "Line 2: engine_args is a table"),
        ("model: m\nenv:\n  A: [1]\n", "Line 3: A: a text is needed"),
        ("model: m\nmodel: n\n", "Line 2: 'model'.*occurs twice"),
        ("model: [\n", "Line 2: the plan file is not valid YAML"),
        ("model: !!python/object:os.system x\n", "is not valid YAML"),
        ("a: &x [1]\nmodel: *x\n", "uses no anchors"),
        ("model: m\nload:\n  prompt_tokens: 5\n", "Line 2: load needs output_tokens"),
        (
            "model: m\nload:\n  prompt_tokens: 0\n  output_tokens: 1\n",
            "Line 2: prompt_tokens=0",
        ),
        ("model: m\ngpu:\n  total_memory_bytes: 5\n", "Line 2: gpu needs a name"),
        ("model: m\ngpu:\n  name: H100\n  colour: red\n", "Line 2: gpu.colour"),
        ('{"model": "m", "model": "n"}', "'model' occurs twice"),
        ('{"model": ', "Line 1: the plan file is not valid JSON"),
        ("[" * 5000, "Line 1: nested too deeply"),
        ("{" + " " * 300_000, "characters"),
    ],
)
def test_a_mistake_is_named_with_its_line(text, message):
    """What was given, what is allowed."""
    with pytest.raises(PlannerError, match=message):
        read_yaml(text)


def test_without_pyyaml_json_is_read_and_yaml_says_what_to_install(monkeypatch):
    """PyYAML comes with the app; the core has no dependency."""
    real = builtins.__import__

    def without_yaml(name, *arguments, **options):
        if name == "yaml":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_yaml)

    assert MODEL == read_yaml(f'{{"model": "{MODEL}"}}').inputs.model
    with pytest.raises(PlannerError, match="pip install pyyaml"):
        read_yaml(EXAMPLE)


@given(st.text())
def test_any_text_is_a_plan_file_or_bad_input(text):
    """Never another error than a sentence about the input."""
    try:
        found = read_yaml(text)
    except PlannerError:
        return

    assert found.inputs.model
