"""`planner completion`: what the Tab key offers, in real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from planner.app import cli
from planner.app.cli.completion import completed
from planner.engine.gpu import catalogue as gpus
from planner.models import catalogue
from tests.conftest import ROOT

QWEN = "Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("planner pl", ["plan"]),
        ("planner --v", ["--version"]),
        ("planner solve gp", ["gpus"]),
        ("planner calibration s", ["show", "share", "startup-plan"]),
        ("planner completion ba", ["bash"]),
        ("planner plan m --tensor", ["--tensor-parallel-size"]),
        ("planner plan m --max-model-len a", ["auto"]),
        ("planner plan m --gpu RTX4090", ["RTX4090"]),
        ("planner plan m --gpu=RTX4090", ["--gpu=RTX4090"]),
        ("planner compare m --gpus L4,RTX4090", ["L4,RTX4090"]),
        ("planner compare m --gpus L4 RTX4090", ["RTX4090"]),
        ("planner sweep m --over max_num_s", ["max_num_seqs="]),
        ("planner export m --format kube", ["kubernetes"]),
        ("planner solve gpus m --prompt-t", ["--prompt-tokens"]),
        ("planner plan m --color n", ["never"]),
        ("planner plan m --seed-th", []),
        ("planner nothing x", []),
        ("planner doctor x", []),
        ("planner plan 'Qwen", []),
    ],
)
def test_the_last_word_is_completed(line: str, offered: list[str]) -> None:
    """Commands, those in them, flags and values, each as a whole word."""
    assert offered == completed(line)


def test_everything_of_a_kind_is_offered() -> None:
    """All commands, GPUs and models; of a second model, more where it may come."""
    assert list(cli.COMMANDS) == completed("planner ")
    offered = completed("planner plan m --gpu ")
    assert {gpu.name for gpu in gpus()} <= set(offered)
    models = [entry.name for entry in catalogue.entries()]
    assert models == completed(f"planner compare {QWEN} ")[: len(models)]
    assert QWEN in completed("planner plan Qwen/Qwen3-8")
    assert QWEN not in completed(f"planner plan {QWEN} Qwen/Qwen3-8")


def test_an_argument_beside_the_modelled_ones_comes_after_them() -> None:
    """--enable-log-requests only where no modelled flag begins so."""
    assert "--enable-log-requests" not in completed("planner plan m --enable-l")
    assert ["--enable-log-requests"] == completed("planner plan m --enable-log-r")


def test_a_shell_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Three are known; another is refused with their names."""
    assert cli.BAD_INPUT == cli.main(["completion"])
    assert "bash, zsh or fish" in capsys.readouterr().err
    assert cli.BAD_INPUT == cli.main(["completion", "tcsh"])
    assert "'tcsh' is none of bash, zsh, fish." in capsys.readouterr().err


@pytest.fixture
def shell_env(tmp_path: Path) -> dict[str, str]:
    """Variables of a shell in which `planner` is this checkout's."""
    for name in ("planner", "vllm-memory-planner"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m planner "$@"\n')
        program.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "TERM": "dumb"}


def run(shell: str, script: str, env: dict[str, str]) -> list[str]:
    """Run a script in a shell, and return the lines that it prints."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    options = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"], "fish": ["-N"]}[shell]
    done = subprocess.run(
        [program, *options, "-c", script],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "" == done.stderr
    return done.stdout.splitlines()


BASH = """
source <(planner completion bash)
for name in planner vllm-memory-planner; do
    [[ $(complete -p $name) == *"-F _planner"* ]] || echo "not registered"
done
compopt() { echo "compopt $*"; }
tab() {
    COMP_LINE="$1" COMP_POINT=${#1} COMPREPLY=()
    _planner "${1%% *}"
    printf '%s\\n' "${COMPREPLY[@]}"
}
"""


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("planner pl", ["plan"]),
        ("vllm-memory-planner pl", ["plan"]),
        ("planner plan m --gpu RTX4090", ["RTX4090"]),
        ("planner plan m --gpu=RTX4090", ["RTX4090"]),
        ("planner compare m --gpus L4,RTX4090", ["L4,RTX4090"]),
        ("planner plan m --kv-cache-dtype nv", ["nvfp4"]),
        ("planner sweep m --over max_num_s", ["compopt -o nospace", "max_num_seqs="]),
        ("planner plan ./no-such-mod", [""]),
    ],
)
def test_bash_completes(line: str, offered: list[str], shell_env) -> None:
    """After =, bash replaces what stands behind it; with nothing found, files come."""
    assert offered == run("bash", f"{BASH}\ntab '{line}'", shell_env)


def test_bash_completes_models(shell_env) -> None:
    """Those of the catalogue."""
    assert QWEN in run("bash", f"{BASH}\ntab 'planner plan Qwen/Qwen3-8'", shell_env)


def test_zsh_completes(shell_env) -> None:
    """Its own functions are replaced, so that the words can be seen."""
    script = (
        "compdef() { : }\ncompadd() { print -l -- ${@[4,-1]} }\n"
        "source <(planner completion zsh)\n"
        "words=(planner) LBUFFER='planner plan m --gpu=RTX4090'\n_planner"
    )

    assert ["--gpu=RTX4090"] == run("zsh", script, shell_env)


@pytest.mark.parametrize("name", ["planner", "vllm-memory-planner"])
def test_fish_completes(name: str, shell_env) -> None:
    """fish itself says what it would offer."""
    script = (
        f"planner completion fish | source\ncomplete -C '{name} plan m --gpu=RTX4090'"
    )

    assert ["--gpu=RTX4090"] == run("fish", script, shell_env)
