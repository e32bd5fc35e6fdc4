"""The built wheel in clean environments, each line typed as the pages have it.

`make test-package` builds the wheel and names it in PLANNER_WHEEL, uv in PLANNER_UV.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub_server import HubServer, Repo, safetensors_file

WHEEL = os.environ.get("PLANNER_WHEEL", "")
UV = os.environ.get("PLANNER_UV", "uv")
THEIRS = "llm-d-planner==0.3.3"
SENTENCE = "use `import vllm_memory_planner` and `vllm-memory-planner`"
MODEL = ("Qwen/Qwen3-8B", "--gpu", "H100")
MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {name: chat}
spec:
  containers:
    - name: vllm
      image: vllm/vllm-openai:v0.33.0
      args: [--model, Qwen/Qwen3-8B, --max-model-len, "8192"]
      resources: {limits: {nvidia.com/gpu: 1}}
"""
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
}

pytestmark = pytest.mark.skipif(not WHEEL, reason="`make test-package` builds a wheel")


class Place:
    """A virtual environment, and what runs in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, folder / "bin"
        uv("venv", "--quiet", "--python", sys.executable, str(folder))

    def install(self, *packages: str) -> None:
        python = str(self.bin / "python")
        uv("pip", "install", "--quiet", "--python", python, *packages)

    def uninstall(self, package: str) -> None:
        python = str(self.bin / "python")
        uv("pip", "uninstall", "--quiet", "--python", python, package)

    def run(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in its folder, without this one's paths."""
        left_out = ("PYTHONPATH", "VIRTUAL_ENV", "HF_TOKEN")
        return subprocess.run(
            [str(self.bin / program), *words],
            cwd=self.folder,
            env={k: v for k, v in os.environ.items() if k not in left_out},
            capture_output=True,
            text=True,
            check=False,
        )


def uv(*words: str) -> None:
    """Run uv, which has to succeed."""
    subprocess.run([UV, *words], check=True)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The wheel without any extra."""
    place = Place(tmp_path_factory.mktemp("bare"))
    place.install(WHEEL)
    return place


@pytest.fixture(scope="module", params=["ours first", "theirs first"])
def both(request, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Beside llm-d-planner, in both orders."""
    place = Place(tmp_path_factory.mktemp("both"))
    order = (WHEEL, THEIRS) if request.param == "ours first" else (THEIRS, WHEEL)
    for package in order:
        place.install(package)
    return place


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A Hub with one model that no catalogue has."""
    with HubServer() as running:
        tensors = {"model.embed_tokens.weight": ("BF16", [1000, 64])}
        running.repos["owner/model"] = Repo(
            files={
                "config.json": json.dumps(LLAMA).encode(),
                "model.safetensors": safetensors_file(tensors, 0),
            }
        )
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield "owner/model"


def test_nothing_else_is_installed(bare: Place) -> None:
    """The core has no dependency."""
    found = sorted(path.name for path in bare.folder.glob("lib/*/site-packages/[!_]*"))

    assert [] == [name for name in found if "planner" not in name]


@pytest.mark.parametrize("program", ["planner", "vllm-memory-planner"])
def test_both_commands_plan(bare: Place, program: str) -> None:
    """And say nothing beside the plan."""
    done = bare.run(program, "plan", *MODEL)

    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.startswith("Qwen/Qwen3-8B on H100")


def test_both_names_import_the_same_package(bare: Place) -> None:
    """The same objects, in one process."""
    code = (
        "import planner, vllm_memory_planner as p; from planner.engine.gpu import GPU\n"
        "assert p.plan is planner.plan and GPU is p.GPU\n"
        "assert planner.plan('Qwen/Qwen3-8B', gpu='H100').fits"
    )
    done = bare.run("python", "-c", code)

    assert (0, "") == (done.returncode, done.stderr)


def test_what_an_extra_brings_is_named(bare: Place) -> None:
    """In one sentence, by the explorer and by a figure."""
    plan = "planner.plan('Qwen/Qwen3-8B', gpu='H100')"
    for code, needs in (
        ("planner.Explorer()", "planner.Explorer needs ipywidgets"),
        (f"{plan}.explore()", "explore() needs ipywidgets"),
        (f"{plan}.figure()", "needs plotly"),
    ):
        done = bare.run("python", "-c", f"import planner; {code}")

        assert f"{needs}. Run: pip install 'vllm-memory" in done.stderr


def test_a_model_of_the_hub_is_read_without_an_extra(bare: Place, hub: str) -> None:
    """`uvx vllm-memory-planner plan owner/model --gpu L4`."""
    asked = ("plan", hub, "--gpu", "L4", "--json")
    installed = bare.run("vllm-memory-planner", *asked)
    at_once = subprocess.run(
        [UV, "tool", "run", "--from", WHEEL, "vllm-memory-planner", *asked],
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == installed.returncode, installed.stderr
    assert installed.stdout == at_once.stdout, at_once.stderr
    assert json.loads(installed.stdout)["fits"] is True


def test_a_manifest_in_yaml_says_what_it_needs(bare: Place) -> None:
    """PyYAML reads it; a shell script needs nothing."""
    (bare.folder / "start.yaml").write_text(MANIFEST)
    (bare.folder / "start.sh").write_text("vllm serve Qwen/Qwen3-8B\n")
    manifest = bare.run("planner", "check", "start.yaml", "--gpu", "H100")
    script = bare.run("planner", "check", "start.sh", "--gpu", "H100")

    folder = bare.run("planner", "check", ".", "--gpu", "H100")

    assert "pip install pyyaml" in manifest.stdout + manifest.stderr
    assert (2, True) == (folder.returncode, "start.yaml: YAML" in folder.stderr)
    assert 0 == script.returncode, script.stdout


def test_type_checkers_know_both_names(bare: Place) -> None:
    """`import planner` too, which is a file of a few lines."""
    (bare.folder / "use.py").write_text(
        "import planner\nimport vllm_memory_planner as p\n"
        "from planner.export import compose\n"
        "fits: bool = planner.plan('a', gpu='b').fits\n"
        "same: p.Plan = planner.plan('a', gpu='b')\n"
        "text: str = compose(same)\n"
        "wrong: str = planner.plan('a', gpu='b').fits\n"
    )
    words = ("--strict", "--cache-dir=mypy", "--python-executable", "bin/python")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *words, "use.py"],
        cwd=bare.folder,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 1 == done.stdout.count(" error: "), done.stdout
    assert 'variable has type "str"' in done.stdout


def test_beside_another_planner_one_sentence_says_so(both: Place) -> None:
    """With the cure, and the plan is there all the same; the doctor says it too."""
    done = both.run("vllm-memory-planner", "plan", *MODEL)
    doctor = both.run("vllm-memory-planner", "doctor", "--json")

    assert 0 == done.returncode
    assert done.stdout.startswith("Qwen/Qwen3-8B on H100")
    assert 1 == done.stderr.count("\n")
    assert SENTENCE in done.stderr
    assert SENTENCE in doctor.stdout


def test_beside_another_planner_both_work_in_one_process(both: Place) -> None:
    """Theirs under its own name, ours under the other."""
    code = (
        "import planner, planner.errors, vllm_memory_planner as p\n"
        "from planner.shared.schemas.intent import DeploymentIntent\n"
        "assert not hasattr(planner, 'plan')\n"
        "assert p.plan('Qwen/Qwen3-8B', gpu='H100').fits"
    )
    done = both.run("python", "-c", code)

    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize("order", ["ours first", "theirs first"])
def test_what_is_left_after_one_is_removed_is_whole(tmp_path: Path, order: str) -> None:
    """Neither overwrote a module of the other."""
    names = [WHEEL, THEIRS] if order == "ours first" else [THEIRS, WHEEL]
    for number, removed in enumerate(("llm-d-planner", "vllm-memory-planner")):
        place = Place(tmp_path / str(number))
        for package in names:
            place.install(package)
        place.uninstall(removed)
        code = "import planner; planner.plan('Qwen/Qwen3-8B', gpu='H100')"
        if removed == "vllm-memory-planner":
            code = "import planner.cli.planner_cli, planner.capacity_planner"
        done = place.run("python", "-c", code)

        assert (0, "") == (done.returncode, done.stderr)
