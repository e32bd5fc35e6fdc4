"""Containers and shells around vLLM."""

from __future__ import annotations

import pytest

import planner


@pytest.mark.parametrize(
    ("tag", "version"),
    [
        ("v0.11.0", "0.11.0"),
        ("0.25.1-cu129", "0.25.1"),
        ("rocm-v0.19.1", "0.19.1"),
        ("v0.10.1.post1", "0.10.1.post1"),
        ("latest", None),
        ("nightly-3f2a1b", None),
    ],
)
def test_the_images_tag_is_the_release(tag: str, version: str | None) -> None:
    """Where it has one; else the text says that it does not tell."""
    found = planner.read(f"docker run --gpus all vllm/vllm-openai:{tag} org/m")

    assert found.vllm_version == version
    assert any("does not tell its release" in n for n in found.notes) == (
        version is None
    )


def test_another_release_is_written_into_the_tag() -> None:
    """Without the digest, which names the old image, and nothing else changes."""
    text = "docker run vllm/vllm-openai:v0.11.0@sha256:ab --model org/m"

    assert planner.read(text).text(vllm_version="0.33.0") == text.replace(
        "0.11.0@sha256:ab", "0.33.0"
    )


@pytest.mark.parametrize(
    ("gpus", "count"),
    [
        ("all", None),
        ("2", 2),
        ("'\"device=0,2,3\"'", 3),
        ("device=GPU-1a", 1),
        ("\u00b2", None),
        ("1000", None),
    ],
)
def test_gpus_of_a_container(gpus: str, count: int | None) -> None:
    """As `docker run --gpus` grants them."""
    assert (
        planner.read(f"docker run --gpus {gpus} vllm/vllm-openai:v0.11.0 org/m").gpus
        == count
    )


def test_variables_outside_of_a_container_do_not_reach_it() -> None:
    """Only `-e` does; the text says so."""
    found = planner.read(
        "VLLM_A=1 docker run -e VLLM_B=2 vllm/vllm-openai:v0.11.0 org/m"
    )

    assert found.env == {"VLLM_B": "2"}
    assert any("VLLM_A is set outside" in note for note in found.notes)


def test_a_container_of_something_else_is_no_start() -> None:
    """A database in the same script is passed over."""
    text = "docker run -d postgres:16\ndocker run vllm/vllm-openai:v0.11.0 org/m"

    assert planner.read(text).model == "org/m"
    with pytest.raises(planner.PlannerError, match="No start of vLLM"):
        planner.read("docker run -d postgres:16 --max-model-len 5")


OWN_IMAGES = (
    "services:\n  llm:\n    build: .\n    command: --model org/m --max-model-len 77\n",
    "services:\n  llm:\n    image: us/llm:2\n    command: >\n      --model org/m\n"
    "      --max-model-len 77\n",
    "docker run --gpus all us/llm:2 --model org/m --max-model-len 77\n",
    "# container arguments\n--model org/m --port 8080 --max-model-len 77\n",
)


@pytest.mark.parametrize("text", OWN_IMAGES)
def test_an_image_of_ones_own_is_told_by_the_flags_that_it_is_given(text: str) -> None:
    """They are vLLM's alone; after a program or another engine's image they are not."""
    found = planner.read(text)
    assert (found.model, found.engine_args) == ("org/m", {"max_model_len": 77})
    assert any("is taken for vLLM" in note for note in found.notes)
    assert found.text(max_model_len=88) == text.replace("77", "88")
    for other in ("python app.py --model", "--model-path"):
        with pytest.raises(planner.PlannerError, match="No start of vLLM"):
            planner.read(text.replace("--model ", f"{other} "))
    with pytest.raises(planner.PlannerError, match="This starts Aphrodite"):
        planner.read("docker run a/aphrodite-openai --model org/m --max-model-len 9")


def test_several_starts_are_counted() -> None:
    """The first is read unless another is named."""
    text = "vllm serve org/a --port 1 &\nvllm serve org/b --port 2\n"

    assert planner.read(text).num_starts == 2
    assert planner.read(text, start=2).model == "org/b"
    with pytest.raises(planner.PlannerError, match="2 starts"):
        planner.read(text, start=3)


@pytest.mark.parametrize("program", ["apptainer", "singularity"])
def test_a_file_of_apptainer_runs_its_own_entry_point(program: str) -> None:
    """In the shell's variables; flags without a value are others than Docker's."""
    text = (
        f"export VLLM_USE_V1=1\n{program} run --nv -e -B /scratch "
        "/images/vllm-openai_v0.28.0.sif --model org/m --max-model-len 8192\n"
    )
    found = planner.read(text)

    assert ("org/m", "0.28.0", {"max_model_len": 8192}) == (
        found.model,
        found.vllm_version,
        dict(found.engine_args),
    )
    assert {"VLLM_USE_V1": "1"} == dict(found.env)
    assert () == found.notes
    assert "--max-model-len 4096" in found.text(max_model_len=4096)
