"""environment.yml, pyproject.toml and requirements.lock say the same."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

import planner

ROOT = Path(__file__).resolve().parent.parent
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PYTHONS = ("3.11", "3.12", "3.13")
LOCKED_EXTRAS = (
    *("all", "app", "docs", "gpu", "hub", "lab", "mcp", "notebook", "test"),
)
UNLOCKED_EXTRAS = ("ray", "vllm")


def _project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project: dict[str, Any] = tomllib.load(file)["project"]
    return project


def _environment() -> dict[str, Any]:
    text = (ROOT / "environment.yml").read_text(encoding="utf-8")
    environment: dict[str, Any] = yaml.safe_load(text)
    return environment


def _extras() -> dict[str, list[Requirement]]:
    declared = _project()["optional-dependencies"]
    return {name: [Requirement(line) for line in declared[name]] for name in declared}


def _pins() -> list[Requirement]:
    return [Requirement(line.partition("\\")[0]) for line in _lines()]


def _lines() -> list[str]:
    """Return each pin with its hashes in one line."""
    joined = LOCK.replace("\\\n", "\\ ")
    return [line for line in joined.splitlines() if line and not line.startswith("#")]


def _applies(requirement: Requirement, python: str, platform: str) -> bool:
    marker = requirement.marker
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "platform_system": platform,
        "sys_platform": platform.lower(),
        "platform_machine": "x86_64",
        "os_name": "posix",
    }
    return marker is None or marker.evaluate(environment)


def _pinned(python: str) -> dict[str, str]:
    """Return the version of each package on Linux and a Python, by canonical name."""
    pins = [pin for pin in _pins() if _applies(pin, python, "Linux")]
    return {canonicalize_name(pin.name): _version(pin) for pin in pins}


def _version(pin: Requirement) -> str:
    (specifier,) = pin.specifier
    return specifier.version


def _locked_requirements() -> Iterator[Requirement]:
    for extra in LOCKED_EXTRAS:
        for requirement in _extras()[extra]:
            if requirement.name != _project()["name"]:
                yield requirement


def test_conda_installs_its_own_packages_from_conda_forge() -> None:
    """pip brings the planner alone, which has no dependencies."""
    environment = _environment()
    python, *_own, pip, from_pip = environment["dependencies"]

    assert _project()["name"] == environment["name"]
    assert ["conda-forge"] == environment["channels"]
    assert "python" == python.partition("=")[0]
    assert "pip" == pip
    assert {"pip": ["-e ."]} == from_pip


def test_conda_gets_what_app_lab_and_gpus_need() -> None:
    """In the versions of the extras; vLLM, Ray, docs and tests are apart."""
    _python, *own, _pip, _from_pip = _environment()["dependencies"]
    needed: dict[str, SpecifierSet] = {}
    for extra in _brought("all"):
        for one in _extras()[extra]:
            if one.name != _project()["name"]:
                needed[one.name] = needed.get(one.name, SpecifierSet()) & one.specifier
    found = {one.name: one.specifier for one in map(Requirement, own)}

    assert needed.keys() == found.keys()
    for name, specifier in found.items():
        (lowest,) = specifier
        assert ">=" == lowest.operator
        assert specifier == max(needed[name], key=lambda one: Version(one.version))


def test_the_recipe_for_conda_is_of_this_package() -> None:
    """Its version, its commands, its oldest Python and what the extras admit."""
    recipe = yaml.safe_load((ROOT / "deploy/conda/recipe.yaml").read_text("utf-8"))
    project = _project()
    scripts = [f"{name} = {at}" for name, at in project["scripts"].items()]
    limits = map(Requirement, recipe["requirements"]["run_constraints"])
    lowest = {one.name: one.specifier for name in _extras() for one in _extras()[name]}
    lowest |= {one.name: one.specifier for one in _extras()["notebook"]}
    lowest |= {one.name: one.specifier for one in _extras()["hub"]}

    assert planner.__version__ == recipe["context"]["version"]
    assert f">={recipe['context']['python_min']}" == project["requires-python"]
    assert scripts == recipe["build"]["python"]["entry_points"]
    assert project["description"] == recipe["about"]["summary"]
    assert project["license-files"] == recipe["about"]["license_file"]
    assert project["urls"]["Homepage"] == recipe["about"]["homepage"]
    assert [] == project["dependencies"]
    for one in limits:
        assert lowest[one.name] == one.specifier, one


def test_each_extra_brings_what_its_use_needs() -> None:
    """A notebook service has a Jupyter of its own, and a server nobody's GPU."""
    brought = {
        extra: {
            requirement.name
            for name in _brought(extra)
            for requirement in _extras()[name]
        }
        for extra in ("notebook", "app", "lab", "gpu")
    }

    assert {"gpu"} == _brought("gpu")
    assert not brought["notebook"] & {"jupyterlab", "voila", "nvidia-ml-py"}
    assert not brought["app"] & {"jupyterlab", "nvidia-ml-py"}
    assert not brought["lab"] & {"voila", "nvidia-ml-py"}
    assert {"all", "app", "gpu", "hub", "lab", "mcp", "notebook"} == _brought("all")


def _brought(*extras: str) -> set[str]:
    """Name some extras and those that they bring."""
    found = set(extras)
    for name in extras:
        for requirement in _extras()[name]:
            if requirement.name == _project()["name"]:
                found |= _brought(*requirement.extras)
    return found


def test_condas_python_is_one_that_the_project_supports() -> None:
    """The Python of environment.yml satisfies requires-python and has a classifier."""
    version = _environment()["dependencies"][0].partition("=")[2]
    supported = SpecifierSet(_project()["requires-python"])

    assert f"{version}.0" in supported
    assert f"Programming Language :: Python :: {version}" in _project()["classifiers"]


def test_vllm_is_asked_for_on_linux_only() -> None:
    """vLLM runs on Linux: elsewhere its extra installs nothing."""
    (vllm,) = _extras()["vllm"]

    assert "vllm" == vllm.name
    assert _applies(vllm, "3.12", "Linux")
    assert not _applies(vllm, "3.12", "Darwin")


def test_every_extra_is_either_locked_or_known_to_be_too_large() -> None:
    """A new extra is decided about, not forgotten."""
    assert {*LOCKED_EXTRAS, *UNLOCKED_EXTRAS} == set(_extras())


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_satisfies_what_the_extras_ask_for(python: str) -> None:
    """Every dependency of app, docs and test has a pin inside its range."""
    pinned = _pinned(python)
    unmet = [
        str(requirement)
        for requirement in _locked_requirements()
        if pinned.get(canonicalize_name(requirement.name), "0")
        not in requirement.specifier
    ]

    assert [] == unmet


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_names_each_package_once_for_a_python(python: str) -> None:
    """Lines that differ by marker exclude each other."""
    names = [pin.name for pin in _pins() if _applies(pin, python, "Linux")]

    assert sorted(set(names)) == sorted(names)


def test_the_lock_pins_exact_versions_and_names_no_host() -> None:
    """Plain `name==version` lines hold for every index, mirror and machine."""
    for pin in _pins():
        operators = [specifier.operator for specifier in pin.specifier]

        assert ["=="] == operators, f"{pin} is not an exact version"
        assert pin.url is None, f"{pin} names a host or a path"
    assert not re.search(r"://|^-", LOCK, flags=re.MULTILINE)


def test_the_lock_has_the_hash_of_every_file() -> None:
    """pip refuses a file that is not the one that was tested."""
    for line in _lines():
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})(?= |$)", line)

        assert hashes, f"{line} has no hash"
        assert len(hashes) == line.count("--hash=")


@pytest.mark.parametrize("python", PYTHONS)
def test_the_first_part_of_the_lock_holds_what_the_app_needs(python: str) -> None:
    """An installation takes the parts up to its own, and nothing that tests need."""
    parts = re.split(r"^# (hub|app|lab|docs|test)$", LOCK, flags=re.MULTILINE)
    names = [
        {canonicalize_name(Requirement(line.partition("\\")[0]).name) for line in part}
        for part in (re.findall(r"^\w.*", text, re.M) for text in parts[2::2])
    ]
    app = {
        canonicalize_name(requirement.name)
        for extra in _brought("app", "gpu")
        for requirement in _extras()[extra]
        if _applies(requirement, python, "Linux")
        and requirement.name != _project()["name"]
    }

    assert ["hub", "app", "lab", "docs", "test"] == parts[1::2]
    assert {"huggingface-hub", "pyyaml"} <= names[0]
    assert app <= names[0] | names[1]
    assert "jupyterlab" in names[2]
    assert {"pytest", "ruff", "ray"} <= names[4]
    assert not (names[0] | names[1]) & (names[2] | names[3] | names[4])


def test_the_supported_pythons_are_the_ones_that_are_tested() -> None:
    """requires-python, the classifiers and this file agree on the oldest Python."""
    oldest = PYTHONS[0]

    assert f">={oldest}" == _project()["requires-python"]
    for python in PYTHONS:
        classifier = f"Programming Language :: Python :: {python}"
        assert classifier in _project()["classifiers"]
