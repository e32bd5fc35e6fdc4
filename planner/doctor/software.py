"""Python, the packages of the app, a browser, Ray and vLLM."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version

from planner.confirming import installation
from planner.doctor.finding import Finding, State
from planner.errors import PlannerError
from planner.releases import NEWEST, OLDEST, number_of

_NEEDED_PYTHON = (3, 11)
_APP = (
    *("anywidget", "huggingface_hub", "ipywidgets", "jupyterlab"),
    *("pandas", "plotly", "voila"),
)
_BROWSERS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    *("firefox", "microsoft-edge", "open", "xdg-open"),
)


def python() -> Finding:
    """Look at the Python that runs this."""
    found = platform.python_version()
    says = f"Python {found} on {platform.system()} {platform.machine()}"
    if sys.version_info >= _NEEDED_PYTHON:
        return Finding(
            name="python", state=State.WORKS, says=says, does="Plans are computed."
        )
    return Finding(
        name="python",
        state=State.MISSING,
        says=says,
        remedy="Install Python 3.11 or newer.",
    )


def app() -> Finding:
    """Look for the packages of notebook and app."""
    found = {name: _version(name) for name in _APP}
    missing = [name for name, there in found.items() if there is None]
    if missing:
        return Finding(
            name="app",
            state=State.MISSING,
            says=f"not installed: {', '.join(missing)}",
            does="The command line works; the app and the lessons do not.",
            remedy="pip install 'vllm-memory-planner[app]'",
        )
    return Finding(
        name="app",
        state=State.WORKS,
        says=", ".join(f"{name} {found[name]}" for name in ("jupyterlab", "voila")),
        does="The explorer, the app and the lessons open.",
    )


def browser() -> Finding:
    """Look for a browser that this machine can open."""
    asked = (os.environ.get("BROWSER", ""), os.environ.get("CHROMIUM", ""), *_BROWSERS)
    found = next((path for name in asked if name and (path := shutil.which(name))), "")
    if found or platform.system() == "Windows":
        return Finding(
            name="browser",
            state=State.WORKS,
            says=found or "the system's",
            does="Pages open here.",
        )
    return Finding(
        name="browser",
        state=State.LIMITED,
        says="none found",
        does="The app runs, and pages open elsewhere.",
        remedy=(
            "Open the app's address from another machine through "
            "ssh -L 8866:127.0.0.1:8866, or install a browser."
        ),
    )


def vllm() -> Finding:
    """Look for a vLLM that can be started, without importing it."""
    try:
        found = installation.find()
    except PlannerError as error:
        return Finding(
            name="vllm",
            state=State.MISSING,
            says="not installed",
            does="Plans work; they cannot be confirmed by a start here.",
            remedy=str(error),
        )
    says = installation.sentence(found).rstrip(".")
    if _is_planned(found.version):
        return Finding(
            name="vllm", state=State.WORKS, says=says, does="Plans can be confirmed."
        )
    return Finding(
        name="vllm",
        state=State.LIMITED,
        says=says,
        does=f"The planner knows {OLDEST} to {NEWEST}, not this one.",
        remedy=f"pip install {found.package}=={NEWEST}",
    )


def ray() -> Finding:
    """Look for Ray, which live clusters and many confirmations at once need."""
    found = _version("ray")
    if found:
        return Finding(
            name="ray",
            state=State.WORKS,
            says=f"Ray {found}",
            does="A live cluster can be read and used.",
        )
    return Finding(
        name="ray",
        state=State.LIMITED,
        says="not installed",
        does="Pipelines are planned; a live cluster cannot be asked.",
        remedy="pip install 'vllm-memory-planner[ray]'",
    )


def _is_planned(release: str) -> bool:
    try:
        return number_of(OLDEST) <= number_of(release) <= number_of(NEWEST)
    except PlannerError:  # a version of one's own, such as 0.34.dev
        return False


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
