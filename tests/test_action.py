"""The GitHub Action and the pre-commit hook: their schema, and their script run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from planner.app.cli import build_parser

pytest.importorskip("check_jsonschema")
yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
ACTION = ROOT / "action.yml"


def action() -> dict:
    """Return the action."""
    return yaml.safe_load(ACTION.read_text(encoding="utf-8"))


@pytest.fixture
def work(tmp_path):
    """A repository with two starts, for an L4."""
    folder = tmp_path / "work"
    (folder / "recipes/deep").mkdir(parents=True)
    (folder / "recipes/deep/good.sh").write_text(
        "vllm serve Qwen/Qwen3-8B --max-model-len 8192\n"
    )
    (folder / "recipes/bad one.sh").write_text("vllm serve Qwen/Qwen3-8B\n")
    return folder


@pytest.fixture
def run(tmp_path, work):
    """Run the action's last step as a workflow's runner does."""
    program = tmp_path / "temp/planner/bin/python"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    program.chmod(0o755)

    def step(**inputs: str) -> subprocess.CompletedProcess[str]:
        given = {"FILES": "", "GPU": "", "RELEASE": "", "STRICT": "false", **inputs}
        variables = (
            os.environ
            | given
            | {
                "RUNNER_TEMP": str(tmp_path / "temp"),
                "HERE": str(ROOT),
            }
        )
        script = action()["runs"]["steps"][-1]["run"]
        # As GitHub runs `shell: bash`.
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        return subprocess.run(
            words, cwd=work, env=variables, capture_output=True, text=True, check=False
        )

    return step


def test_the_action_is_one_by_the_schema() -> None:
    """GitHub's own, which check-jsonschema brings."""
    words = ["--builtin-schema", "vendor.github-actions", str(ACTION)]
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", *words],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout


def test_inputs_are_variables_and_never_part_of_a_script() -> None:
    """What a pull request writes into one is not run."""
    scripts = [step.get("run", "") for step in action()["runs"]["steps"]]

    assert not any("${{" in script for script in scripts)


def test_files_that_start_pass(run) -> None:
    """Patterns reach into folders."""
    done = run(FILES="recipes/**/good.sh", GPU="L4")

    assert (0, "1 checked: starts 1\n") == (done.returncode, done.stdout)


def test_a_start_that_would_not_come_up_fails_with_its_file(run) -> None:
    """The annotation names it; a name with a space is one file."""
    done = run(FILES="recipes/**/*.sh", GPU="L4")

    assert done.returncode == 1
    assert "::error file=recipes/bad one.sh,title=does not start%3A" in done.stdout


def test_hostile_inputs_are_only_names(run, work) -> None:
    """Neither a substitution nor a flag."""
    done = run(FILES="$(touch made) --help", GPU="L4")

    assert done.returncode == 2
    assert "cannot be read" in done.stderr
    assert "usage" not in done.stdout
    assert [] == list(work.rglob("made"))


def test_nothing_is_imported_from_the_repository_that_is_checked(run, work) -> None:
    """A pull request may bring a folder of the planner's name, or of a library's."""
    for name in ("planner", "yaml", "json"):
        (work / name).mkdir()
        (work / name / "__init__.py").write_text("raise SystemExit(99)\n")

    assert 0 == run(FILES="recipes/**/good.sh", GPU="L4").returncode


def test_a_line_of_the_input_is_no_command_of_the_workflow(run) -> None:
    """Such as one that ends the step's group or sets a variable."""
    done = run(FILES="no*.yaml\n::set-output::*\r\n::stop-commands::*")

    assert [
        "::error::No file matches: no*.yaml ::set-output::*  ::stop-commands::*"
    ] == done.stdout.splitlines()


def test_what_the_action_installs_has_hashes() -> None:
    """The parts of the lock file before the app's, and the tool that sets Python up."""
    steps = action()["runs"]["steps"]
    installed = steps[1]["run"]

    assert "--require-hashes" in installed
    assert "/^# app$/,$d" in installed
    assert len(steps[0]["uses"].partition("@")[2]) == 40


def test_a_pattern_that_matches_nothing_is_said(run) -> None:
    """A moved folder must not look as if all were well."""
    done = run(FILES="elsewhere/*.yaml")

    assert (2, "::error::No file matches: elsewhere/*.yaml\n") == (
        done.returncode,
        done.stdout,
    )


def test_the_hooks_command_is_one_of_the_planner() -> None:
    """pre-commit adds a user's args and the files."""
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, *words = hook["entry"].split()
    known = build_parser("check").parse_args([*words, "--gpu", "L4", "a.yaml"])

    assert "planner" == program
    assert ["a.yaml"] == known.paths
    assert {"id", "name", "entry", "language", "files"} <= set(hook)
