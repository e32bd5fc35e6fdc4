"""check(): every start of files, planned."""

import json
from pathlib import Path

import pytest

import planner
from planner import PlannerError, check
from planner.reading import recognising
from planner.reading.checking import Answer
from planner.reading.recognising import _first

TEXTS = Path(__file__).parents[1] / "data/texts"
RECIPES = Path(__file__).parents[3] / "shared" / "recipes" / "recipes.jsonl"

RECIPE = """\
meta: {slug: llama}
model: {model_id: meta-llama/Llama-3.1-8B-Instruct}
variants:
  default: {precision: bf16}
  short: {extra_args: ["--max-model-len", "8192"]}
"""
COMPOSE = """\
services:
  vllm:
    image: vllm/vllm-openai:v0.19.1
    command: --model Qwen/Qwen3-14B --tensor-parallel-size 2
    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 1}]}}}
"""


@pytest.fixture
def written(tmp_path):
    """Write a file and return its path."""

    def write(name: str, text: str):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_each_start_of_a_file_is_planned_on_the_gpu_that_is_named(written) -> None:
    """An L4's 22 GiB hold Qwen3-8B's 15.27 GiB of weights, not 40,960 tokens beside."""
    path = written("serve.sh", "vllm serve Qwen/Qwen3-8B --max-model-len 8192\n")
    (row,) = check(path, gpu="L4").rows
    plan = planner.plan("Qwen/Qwen3-8B", gpu="L4", max_model_len=8192)

    assert plan.fits
    assert (Answer.STARTS, "", "L4") == (row.answer, row.reason, row.gpu)
    assert str(row.plan) == str(plan)


def test_a_recipe_has_a_start_for_each_variant(written) -> None:
    """32 layers x 2 x 8 heads x 128 x 2 bytes x 131,072 tokens are 16 GiB."""
    found = check(written("llama.yaml", RECIPE), gpu="L4")
    default, short = found.rows

    assert short.answer is Answer.STARTS
    assert default.answer is Answer.DOES_NOT_START
    assert "(131072), (16.0 GiB KV cache is needed" in default.reason
    assert found.failed == (default,)
    assert "2 checked: starts 1, does not start 1" == str(found).splitlines()[-1]


def test_a_text_that_grants_too_few_gpus_does_not_start(written) -> None:
    """Tensor parallelism over two on one."""
    (row,) = check(written("compose.yaml", COMPOSE), gpu="H100").rows

    assert row.answer is Answer.DOES_NOT_START
    assert "vLLM needs 2 GPUs" in row.reason
    assert row.reason.endswith("the text grants 1.")


def test_a_list_says_gpu_release_and_variables_of_each_start(written) -> None:
    """One a line; what is no JSON of that kind is read as any text."""
    base = {"command": "vllm serve Qwen/Qwen3-8B", "gpu": "H100"}
    path = written(
        "starts.jsonl",
        "\n".join(
            json.dumps(entry)
            for entry in (
                {**base, "id": "a", "vllm_version": "0.19.1"},
                {**base, "env": {"VLLM_USE_V2_MODEL_RUNNER": "0 "}},
                {**base, "gpu": "L4"},
                {**base, "command": "vllm serve nobody/nothing-at-all", "gpu": "L4"},
            )
        ),
    )
    rows = check(path).rows

    assert ["0.19.1", planner.plan("Qwen/Qwen3-8B", gpu="L4").vllm_version] == [
        rows[0].plan.vllm_version,
        rows[2].plan.vllm_version,
    ]
    assert {"VLLM_USE_V2_MODEL_RUNNER": "0 "} == dict(rows[1].plan.env)
    assert ["starts", "starts", "does not start", "not checked"] == [
        str(row.answer) for row in rows
    ]
    assert f"{path}:1 (a)" == rows[0].place
    assert [1, 2, 3, 4] == [row.line for row in rows]


def test_a_line_that_is_no_start_is_not_passed_over(written) -> None:
    """A broken line must not look as if it had been checked."""
    good = json.dumps({"command": "vllm serve Qwen/Qwen3-8B", "gpu": "H100"})
    path = written("starts.jsonl", f'{good}\n\n{{"command": \n7\n')
    rows = check(path).rows

    assert [(1, "starts"), (3, "not checked"), (4, "not checked")] == [
        (row.line, str(row.answer)) for row in rows
    ]
    assert 'an object with "command" is expected' in rows[1].reason


def test_the_same_list_in_one_piece_of_json(written) -> None:
    """Counted from 1, without lines."""
    entries = [{"command": "vllm serve Qwen/Qwen3-8B", "gpu": gpu} for gpu in ("L4",)]
    (row,) = check(written("starts.json", json.dumps(entries))).rows

    assert (1, None) == (row.start, row.line)
    assert row.answer is Answer.DOES_NOT_START


def test_what_cannot_be_planned_is_not_checked(written) -> None:
    """With the sentence that says what is missing."""
    (row,) = check(written("serve.sh", "vllm serve Qwen/Qwen3-8B\n")).rows

    assert row.answer is Answer.NOT_CHECKED
    assert "does not say on which GPU" in row.reason
    assert row.plan is None


def test_a_text_of_many_starts_is_read_once(written, monkeypatch) -> None:
    """Not again for each of them."""
    path = written("serve.sh", "vllm serve Qwen/Qwen3-8B\n" * 20)
    found: list[str] = []

    def first(text: str):
        found.append(text)
        return _first(text)

    monkeypatch.setattr(recognising, "_first", first)

    assert 20 == len(check(path, gpu="L4").rows)
    assert 1 == len(found)


def test_a_file_without_a_start_is_an_error(written, tmp_path) -> None:
    """And one that is not there."""
    with pytest.raises(PlannerError, match="No start of vLLM was found"):
        check(written("notes.txt", "nothing of the kind\nat all"), gpu="L4")
    with pytest.raises(PlannerError, match="cannot be read"):
        check([tmp_path / "none.yaml"], gpu="L4")


@pytest.mark.skipif(not RECIPES.exists(), reason="vLLM's recipes are not here")
def test_every_recipe_with_a_known_config_gets_an_answer() -> None:
    """Each reason that stands for several starts is printed once."""
    found = check(RECIPES)
    not_checked = {row.reason.partition(":")[0] for row in found.of(Answer.NOT_CHECKED)}
    text = str(found)

    assert len(found.rows) >= 355
    assert len(found.of(Answer.STARTS)) >= 195
    assert all(
        text.count(f": {row.reason.splitlines()[0]}\n") == 1 for row in found.failed[:3]
    )
    assert all(name.startswith("'") for name in not_checked), not_checked


def test_a_folder_is_what_a_generator_wrote(written, tmp_path) -> None:
    """Its manifests and scripts are planned; what holds no start is named."""
    manifest = (
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n"
        "    - {name: a, image: vllm/vllm-openai:v0.30.0, args: [--model, {model}]}\n"
    )
    (tmp_path / "top1").mkdir()
    written("top1/deploy.yaml", manifest.replace("{model}", "Qwen/Qwen3-8B"))
    written("top1/settings.yaml", "isl: 4000\n")
    written("top1/notes.txt", "vllm serve Qwen/Qwen3-32B\n")
    (tmp_path / "link.yaml").symlink_to(tmp_path / "top1/deploy.yaml")
    found = check(tmp_path, gpu="L4")

    assert [Answer.DOES_NOT_START] == [row.answer for row in found.rows]
    assert (str(tmp_path / "top1/settings.yaml"),) == found.without
    assert "without a start: " in str(found)


def test_a_size_that_is_open_decides_nothing_against_a_start(written) -> None:
    """On how many GPUs the model is split is said elsewhere."""
    text = 'vllm serve Qwen/Qwen3-32B --tensor-parallel-size "$1"\n'
    (row,) = check(written("serve.sh", text), gpu="L4").rows

    assert row.answer is Answer.NOT_CHECKED
    assert row.reason.startswith("--tensor-parallel-size is $1")


def test_a_slice_is_not_judged_by_the_whole_gpu(written) -> None:
    """A pod asks for 20 GB of a GPU, which an H100 and an A100 have."""
    text = (
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n"
        "    - name: a\n      image: vllm/vllm-openai:v0.30.0\n"
        "      args: [--model, Qwen/Qwen3-8B, --max-model-len, '4096']\n"
        "      resources: {limits: {nvidia.com/mig-2g.20gb: 1}}\n"
    )
    path = written("pod.yaml", text)
    (whole,) = check(path, gpu="H100").rows
    (slice_,) = check(path, gpu="H100-MIG-2g.20gb").rows

    assert whole.answer is Answer.NOT_CHECKED
    assert "2g.20gb, a slice of a GPU" in whole.reason
    assert slice_.answer is not Answer.NOT_CHECKED


def test_a_generated_graph_is_refused_before_its_pods_crash(written) -> None:
    """A 70B model in FP8 on one H100 each, its context left at 131,072 tokens.

    80 layers x 2 x 8 heads x 128 x 1 byte x 131,072 tokens are 20 GiB.
    Source: ai-dynamo/dynamo issue 10104, prefill workers in CrashLoopBackOff.
    """
    graph = (TEXTS / "dynamo.yaml").read_text(encoding="utf-8")
    graph = graph.replace("Qwen/Qwen3-32B-FP8", "nvidia/Llama-3.1-70B-Instruct-FP8")
    graph = graph.replace("NVIDIA-H200", "NVIDIA-H100-80GB-HBM3")
    prefill, decode = check(written("k8s_deploy.yaml", graph)).rows

    assert (Answer.DOES_NOT_START, "VllmPrefillWorker") == (
        prefill.answer,
        prefill.shown,
    )
    assert "20.0 GiB KV cache is needed" in prefill.reason
    assert (Answer.STARTS, 8) == (decode.answer, decode.plan.gpus_total)
