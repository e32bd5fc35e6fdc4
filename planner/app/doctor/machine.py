"""The doctor's checks, each of which returns a `Finding`.

Software (Python, the app's packages, a browser, vLLM, Ray), hardware (memory, disk,
GPUs) and the Hugging Face Hub.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from enum import StrEnum
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from planner.app import other_planner
from planner.confirming import installation
from planner.engine.devices import attached, gpu_named
from planner.engine.gpu import CPU
from planner.engine.releases import NEWEST, OLDEST, is_modelled
from planner.errors import PlannerError
from planner.models.sources.hub_client import open_hub
from planner.models.sources.hub_errors import HubQuery
from planner.models.sources.hub_lists import models
from planner.surroundings import data_folder
from planner.units import GIB, format_gib
from planner.values import frozen
from planner.version import __version__

_LESSON_BYTES = GIB
"""Free memory below which a notebook beside a browser becomes slow: an estimate."""
_INSTALL_BYTES = 8 * GIB
"""Disk space for installing vLLM's CPU build and its torch, rounded up."""
_HUB_SECONDS = 5.0
_WITHOUT_HUB = "The bundled catalogue, folders and config files work."
_NEEDED_PYTHON = (3, 11)
_APP = (
    *("anywidget", "huggingface_hub", "ipykernel", "ipywidgets"),
    *("pandas", "plotly", "voila"),
)
_BROWSERS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    *("firefox", "microsoft-edge", "open", "xdg-open"),
)


class Health(StrEnum):
    """Whether a part of the planner works on this machine."""

    WORKS = "works"
    LIMITED = "limited"
    MISSING = "missing"


@frozen(kw_only=False)
class Finding:
    """The result of one check."""

    state: Health
    says: str
    """What was found, with version or size."""
    does: str = ""
    """What works, or does not, because of it."""
    remedy: str = ""
    """What to do; empty where nothing is needed."""


_works = partial(Finding, Health.WORKS)
_limited = partial(Finding, Health.LIMITED)
_missing = partial(Finding, Health.MISSING)


def python() -> Finding:
    """Check the version of this Python."""
    found = platform.python_version()
    says = f"Python {found} on {platform.system()} {platform.machine()}"
    if sys.version_info >= _NEEDED_PYTHON:
        return _works(says, "Plans are computed.")
    return _missing(says, remedy="Install Python 3.11 or newer.")


def package() -> Finding:
    """Check that `import planner` brings this package."""
    says = f"planner {__version__} in {other_planner.PACKAGE}"
    if other := other_planner.other_planner():
        return _limited(says, remedy=other_planner.sentence(other))
    return _works(says, "`import planner` brings it.")


def app() -> Finding:
    """Check for the packages of the notebooks and the app."""
    found = {name: _version(name) for name in _APP}
    missing = [name for name, there in found.items() if there is None]
    if missing:
        return _missing(
            f"not installed: {', '.join(missing)}",
            "The command line works; the app and the lessons do not.",
            "pip install 'vllm-memory-planner[app]'",
        )
    says = f"voila {found['voila']}"
    lab = _version("jupyterlab")
    if lab is None:
        return _limited(
            f"{says}; jupyterlab is not installed",
            "The app opens; the lessons open in a Jupyter that is elsewhere.",
            "pip install 'vllm-memory-planner[lab]'",
        )
    return _works(
        f"jupyterlab {lab}, {says}", "The explorer, the app and the lessons open."
    )


def browser() -> Finding:
    """Check for a browser on this machine."""
    names = (os.environ.get("BROWSER", ""), os.environ.get("CHROMIUM", ""), *_BROWSERS)
    found = next((path for name in names if name and (path := shutil.which(name))), "")
    if found or platform.system() == "Windows":
        return _works(found or "the system's", "Pages open here.")
    return _limited(
        "none found",
        "The app runs, and pages open elsewhere.",
        "Open the app's address from another machine through "
        "ssh -L 8866:127.0.0.1:8866, or install a browser.",
    )


def memory() -> Finding:
    """Check the memory and processors that this process may use."""
    node = gpu_named(CPU)
    free = node.free_memory_bytes
    total = format_gib(node.total_memory_bytes)
    says = f"{total}{'' if free is None else f', {format_gib(free)} free'}"
    says += f"; {os.cpu_count()} processors"
    if free is None or free >= _LESSON_BYTES:
        return _works(says, "Enough for the app.")
    return _limited(
        says,
        "Notebooks may be slow or end.",
        f"Close programs until {format_gib(_LESSON_BYTES)} are free.",
    )


def disk() -> Finding:
    """Check the folder of measurements and progress, and its free space."""
    folder = data_folder()
    if folder is None:
        return _limited(
            "this user has no home folder",
            "Measurements and progress are not kept.",
            "Set PLANNER_DATA_DIR to a folder that you may write to.",
        )
    there = _nearest(Path(folder))
    says = f"{format_gib(shutil.disk_usage(there).free)} free for {folder}"
    if not os.access(there, os.W_OK):
        return _limited(
            f"{folder} cannot be written",
            "Measurements and progress are not kept.",
            "Set PLANNER_DATA_DIR to a folder that you may write to.",
        )
    if shutil.disk_usage(there).free < _INSTALL_BYTES:
        return _limited(
            says,
            "Too little to install vLLM.",
            f"Make room: {format_gib(_INSTALL_BYTES)} for its CPU build.",
        )
    return _works(says, "What is measured is kept.")


def hub() -> Finding:
    """Send the Hub one request, with a short time-out."""
    asked = open_hub("")
    if asked.is_offline:
        return _limited(
            "offline by HF_HUB_OFFLINE",
            f"{_WITHOUT_HUB} So do models in the Hub's cache on this disk.",
            "Unset HF_HUB_OFFLINE to ask the Hub.",
        )
    return _answer_of_hub(asked.query)


def gpu() -> Finding:
    """Query the driver for the attached GPUs."""
    found = attached.survey()
    if not found.gpus:
        return _limited(
            found.reason.rstrip("."),
            "Plans for any GPU are computed; vLLM starts on the processor.",
            "To confirm a plan on its GPU, run the planner on such a machine.",
        )
    lines = "; ".join(attached.attached_line(one) for one in found.gpus)
    driver = f"driver {found.driver_version}: " if found.driver_version else ""
    unknown = [one.device_name for one in found.gpus if one.gpu is None]
    if unknown or found.notes:
        return _limited(
            f"{driver}{lines}",
            " ".join((*(f"{name} cannot be read." for name in unknown),)),
            " ".join(found.notes) or "Give its memory: planner.GPU(...).",
        )
    return _works(f"{driver}{lines}", "Plans for it are confirmed by a start.")


def vllm() -> Finding:
    """Check for a vLLM that can be started, without importing it."""
    try:
        found = installation.find()
    except PlannerError as error:
        return _missing(
            "not installed",
            "Plans work; they cannot be confirmed by a start here.",
            str(error),
        )
    says = installation.sentence(found).rstrip(".")
    if _is_planned(found.version):
        return _works(says, "Plans can be confirmed.")
    return _limited(
        says,
        f"The planner knows {OLDEST} to {NEWEST}, not this one.",
        f"pip install {found.package}=={NEWEST}",
    )


def ray() -> Finding:
    """Check for Ray, which live clusters and concurrent confirmations need."""
    found = _version("ray")
    if found:
        return _works(f"Ray {found}", "A live cluster can be read and used.")
    return _limited(
        "not installed",
        "Pipelines are planned; a live cluster cannot be read.",
        "pip install 'vllm-memory-planner[ray]'",
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _nearest(folder: Path) -> Path:
    """Return the folder, or its nearest parent that exists."""
    return next(one for one in (folder, *folder.parents) if one.exists())


def _answer_of_hub(asked: HubQuery) -> Finding:
    try:
        query = (("search", "Qwen3"), ("limit", "1"))
        models(query, timeout_seconds=_HUB_SECONDS)
    except PlannerError:
        return _limited(
            f"{asked.endpoint} does not answer",
            f"{_WITHOUT_HUB} So do models in the Hub's cache on this disk.",
            "Check the network; HF_ENDPOINT names a mirror.",
        )
    gated = "" if asked.has_token else " Gated models need one: set HF_TOKEN."
    kept = (
        ""
        if _version("huggingface_hub")
        else " Nothing is kept on disk without huggingface_hub."
    )
    return _works(
        f"{asked.endpoint} answers, {'with' if asked.has_token else 'without'} a token",
        f"Every model on it can be planned.{gated}{kept}",
    )


def _is_planned(release: str) -> bool:
    try:
        return is_modelled(release)
    except PlannerError:  # a development version, such as 0.34.dev
        return False
