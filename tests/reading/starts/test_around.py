"""GPUs and releases that stand around a command: directives, functions, sentences."""

from __future__ import annotations

import pytest

import planner
from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.reading.reading import Reading
from planner.reading.recognising import read
from planner.reading.starts.around import job_variables, release_in

SLURM = """#!/bin/bash
#SBATCH --gres=gpu:h100:4
#SBATCH --nodes=2
srun apptainer exec --nv vllm-openai_v0.29.0.sif vllm serve Qwen/Qwen3-32B \\
  --tensor-parallel-size $SLURM_GPUS_ON_NODE --pipeline-parallel-size $SLURM_NNODES
"""
MODAL = """import modal, subprocess
image = modal.Image.debian_slim().pip_install("vllm==0.28.0")
app = modal.App("x")

@app.function(image=image, gpu="H100:2")
@modal.web_server(port=8000)
def serve():
    subprocess.Popen("vllm serve Qwen/Qwen3-32B --tensor-parallel-size 2", shell=True)
"""


def gpu_of(found: Reading) -> str | None:
    """Return the name of the GPU that a text names."""
    return found.gpu.name if isinstance(found.gpu, GPU) else found.gpu


def test_a_job_of_slurm_grants_gpus_and_sets_variables() -> None:
    """Four GPUs on each of two nodes: eight; the image's file names the release."""
    found = read(SLURM)

    assert "H100" == gpu_of(found)
    assert 4 * 2 == found.gpus
    assert "0.29.0" == found.vllm_version
    assert {"tensor_parallel_size": 4, "pipeline_parallel_size": 2} == dict(
        found.engine_args
    )
    assert 8 == found.plan().gpus_total


@pytest.mark.parametrize(
    ("directives", "count"),
    [
        ("#SBATCH --gpus=4", "4"),
        ("#SBATCH --gpus-per-node=a100:8", "8"),
        ("#SBATCH -G 2", "2"),
        ("#SBATCH --mem=64G", None),
    ],
)
def test_each_way_to_ask_slurm(directives: str, count: str | None) -> None:
    """Its variables are those that a job finds set."""
    assert count == job_variables(directives).get("SLURM_GPUS_ON_NODE")


def test_a_function_of_modal_names_gpu_and_release() -> None:
    """In the decorator and in the image."""
    found = read(MODAL)

    assert ("H100", 2, "0.28.0") == (gpu_of(found), found.gpus, found.vllm_version)


@pytest.mark.parametrize(
    ("sentence", "gpu", "gpus"),
    [
        ("I run vllm serve Qwen/Qwen3-8B on two 3090s", "RTX3090", None),
        ("on an RTX 4090: vllm serve Qwen/Qwen3-8B", "RTX4090", None),
        ("vllm serve Qwen/Qwen3-8B  # g5.12xlarge", "A10G", 4),
        ("vllm serve Qwen/Qwen3-8B --port 4090", None, None),
        ("H100 or L4? vllm serve Qwen/Qwen3-8B", None, None),
    ],
)
def test_a_sentence_names_a_gpu(
    sentence: str, gpu: str | None, gpus: int | None
) -> None:
    """One GPU is taken, and said; several are left open, and a port is none."""
    found = read(sentence)

    assert (gpu, gpus) == (gpu_of(found), found.gpus)
    assert bool(gpu) is any("which the text names" in note for note in found.notes)


def test_words_around_a_command_are_no_part_of_it() -> None:
    """A comma ends a clause, not a number; words behind belong to no flag."""
    found = read(
        "Why does vllm serve Qwen/Qwen3-8B --max-model-len 40960, "
        "--gpu-memory-utilization 0.95. What should I do?"
    )

    assert {"max_model_len": 40960, "gpu_memory_utilization": 0.95} == dict(
        found.engine_args
    )
    assert "'40960,' is read as 40960." in found.notes
    left = "'What should I do?' belongs to no flag: vLLM would refuse it."
    assert left in found.notes


def test_a_framework_that_is_typed_has_words_around_it_too() -> None:
    """As in a message; settings in a file name their devices in their own way."""
    found = read(
        "llamafactory-cli api --model_name_or_path Qwen/Qwen2.5-7B-Instruct "
        "--infer_backend vllm --vllm_maxlen 8192 on a 4090"
    )
    assert "RTX4090" == gpu_of(found)
    assert {"max_model_len": 8192} == dict(found.engine_args)


def test_pairs_are_the_table_that_they_were() -> None:
    """And it is said what to write now."""
    found = read("vllm serve Qwen/Qwen2.5-VL-7B-Instruct --limit-mm-per-prompt image=2")
    assert {"limit_mm_per_prompt": {"image": 2}} == dict(found.engine_args)
    assert any("""write '{"image": 2}'""" in note for note in found.notes)


def test_a_changed_command_in_a_sentence_changes_nothing_else() -> None:
    """The comma stays."""
    found = read("On my 4090, vllm serve Qwen/Qwen3-8B --max-model-len 40960, fails.")

    assert "--max-model-len 8192, fails." in found.text(max_model_len=8192)


def test_two_releases_are_none() -> None:
    """An upgrade's text names both."""
    assert release_in("pip install vllm==0.28.0; later vllm==0.30.0") is None
    one = release_in("pip install 'vllm==0.28.0'")
    assert one is not None
    assert "0.28.0" == one.value


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("python -m sglang.launch_server --model-path Qwen/Qwen3-8B", "SGLang"),
        ("ollama run llama3.1:70b", "Ollama"),
        ("llama-server -m qwen3.gguf -ngl 99", "llama.cpp"),
        ("trtllm-serve meta-llama/Llama-3.1-8B-Instruct", "TensorRT-LLM"),
    ],
)
def test_another_engine_is_called_by_its_name(text: str, engine: str) -> None:
    """Its memory is shared out by other rules."""
    with pytest.raises(PlannerError, match=f"This starts {engine}"):
        read(text)


def test_an_image_for_other_accelerators_is_said_to_be_one() -> None:
    """The command can still be planned for an NVIDIA GPU."""
    found = read("docker run rocm/vllm:latest vllm serve Qwen/Qwen3-8B")

    assert any("not vLLM's build for NVIDIA GPUs" in note for note in found.notes)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("A10G", "A10G"),
        ("NVIDIA RTX A6000", "A6000"),
        ("A100 40GB", "A100-40GB"),
        ("Jetson AGX Thor", "Thor"),
        ("RTX 4090", "RTX4090"),
        ("2xL40S", "L40S"),
        ("rig, 2x3090", "RTX3090"),
    ],
)
def test_a_sentence_names_a_gpu_as_a_question_does(written: str, name: str) -> None:
    """One list of the ways in which people write them."""
    assert name == gpu_of(read(f"# on one {written}\nvllm serve org/m\n"))


ASKED = {
    "Does this hold 40 users with 4k each?": (40, 4096),
    "Ist das genug für 40 Nutzer mit je 4000 Tokens?": (40, 4000),
    "Can I use 16k context instead?": None,
    "How many users will that hold?": None,
}


@pytest.mark.parametrize("words", ASKED)
def test_what_is_asked_beside_a_command_is_its_load(words) -> None:
    """Its own length stays; another one that is asked for is named."""
    found = read(f"vllm serve Qwen/Qwen3-8B --max-model-len 8192\n\n{words}")
    load = found.load
    assert found.engine_args == {"max_model_len": 8192}
    assert ASKED[words] == (load and (load.requests, load.request_tokens))
    is_named = any("not planned: 16,384 tokens" in note for note in found.notes)
    assert is_named == ("16k" in words)


BESIDE = {
    "It uses nearly all the space of our L4. How is that possible?": "By design: at",
    "How fast is it?": "not answered: how fast it is, which `planner speed` says.",
    "Can I fine-tune it on the same GPU?": "not answered: training is not planned",
    "Which GPU would be cheaper?": "not answered: what is cheapest, which `planner sol",
}


@pytest.mark.parametrize("words", BESIDE)
def test_what_is_asked_beside_a_command_and_not_planned_is_named(words) -> None:
    """The plan below it is no answer to it."""
    notes = read(f"vllm serve Qwen/Qwen3-8B --port 8001\n\n{words}\n").notes
    assert any("Asked beside it" in one and BESIDE[words] in one for one in notes)


def test_requests_beside_a_command_are_no_longer_than_it_allows() -> None:
    """The usual length is taken where it is shorter."""
    text = "vllm serve Qwen/Qwen3-8B --max-model-len {}\n\nEnough for 9 users?"
    lengths = [read(text.format(length)).load.request_tokens for length in (1024, 9000)]
    assert lengths == [1024, 4096]


def test_sentences_around_a_manifest_are_no_part_of_it() -> None:
    """They name its GPU."""
    text = (
        "hello, this is our file\n\nservices:\n  vllm:\n"
        "    image: vllm/vllm-openai:v0.9.2\n    command: --model Qwen/Qwen3-8B\n\n"
        "it runs on a 4090, and crashes with 6"
    )
    found = read(text)
    assert (found.model, found.gpu.name) == ("Qwen/Qwen3-8B", "RTX4090")


@pytest.mark.parametrize("above", ["$HOME/models", "${ROOT}", "/data/$USER"])
def test_the_folder_above_a_model_may_be_in_a_variable(above: str) -> None:
    """A known model's name tells it; an unknown one stays open."""
    found = read(f"vllm serve {above}/Qwen3-8B --max-model-len 77\n")
    assert (found.model, found.planned_as) == (f"{above}/Qwen3-8B", "Qwen/Qwen3-8B")
    assert found.text(max_model_len=88) == found.given.replace("77", "88")
    assert read(f"vllm serve {above}/ours --max-model-len 77\n").model is None


MOUNTED = (
    "docker run --gpus all -v /ssd/Qwen3-8B:/model IMAGE --model /model",
    "docker run --gpus all --mount type=bind,source=/ssd/Qwen3-8B,target=/m IMAGE "
    "--model /m",
    "docker run --gpus all ^\n -v D:\\llm\\Qwen3-8B:/model ^\n IMAGE --model /model",
    "docker run --gpus all -v ~/hf:/hf IMAGE --model "
    "/hf/models--Qwen--Qwen3-8B/snapshots/b968826d9c46",
)


@pytest.mark.parametrize("command", MOUNTED)
def test_a_mounted_folder_is_planned_by_its_name_on_the_host(command: str) -> None:
    """As is a model in the Hub's cache; the command keeps its own path."""
    found = planner.read(command.replace("IMAGE", "vllm/vllm-openai:v0.33.0"))
    assert found.planned_as == "Qwen/Qwen3-8B"
    assert found.model == command.split()[-1]


@pytest.mark.parametrize(
    "text",
    [
        "命令\uff1avllm serve Qwen/Qwen3-8B --gpu-memory-utilization 0.5\uff0c是L4",
        "A100\uff0cvllm serve Qwen/Qwen3-8B --gpu-memory-utilization 0.5\uff0c错\uff1a"
        "No available memory for the cache blocks",
    ],
)
def test_marks_of_full_width_are_no_part_of_a_command(text: str) -> None:
    """Before its first word, and behind a number."""
    found = planner.read(text)
    assert found.engine_args == {"gpu_memory_utilization": 0.5}
    assert found.gpu is not None


def test_settings_have_the_model_and_the_gpu_that_the_words_name() -> None:
    """Where they stand in a block among sentences."""
    found = planner.read(
        "My config:\n```yaml\nmax_model_len: 8192\ngpu_memory_utilization: 0.8\n```\n"
        "I test with Qwen/Qwen3-8B on an L40S."
    )
    assert (found.model, found.plan().gpu.name) == ("Qwen/Qwen3-8B", "L40S")
    assert found.engine_args["max_model_len"] == 8192
    assert "The model is not named." not in found.open


def test_flags_alone_in_a_block_belong_to_the_words_around() -> None:
    """As people show the command of a service."""
    found = planner.read(
        "My setup of Qwen3-32B on two L40S GPUs:\n```\ncommand: >\n"
        "  /models/Qwen3-32B\n  --kv-cache-dtype fp8\n  --max-model-len 16384\n```\n"
        "How many users?"
    )
    assert found.engine_args["max_model_len"] == 16_384
    assert found.engine_args["kv_cache_dtype"] == "fp8"
    assert (found.gpus, found.intent) == (2, "users")
