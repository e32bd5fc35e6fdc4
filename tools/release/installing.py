"""An environment of a release's own: made once, kept in the planner's cache."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from planner.confirming import installation
from planner.engine.releases import number_of
from planner.surroundings import cache_folder

_DONE = "installed"
_INSTALLER = Path(__file__).parents[1] / "vllm_wheel.py"


def python_of(release: str, given: str | None = None) -> str:
    """Return the Python of an environment with the release; 10 GB where it is made.

    Args:
        release: such as 0.34.0.
        given: the Python of an environment that has it.

    Raises:
        SystemExit: when the given one has another release, or pip cannot install it.
    """
    python = given or _made(release)
    found = installation.find(python)
    if number_of(found.version) != number_of(release):
        raise SystemExit(f"{python} has vLLM {found.version}, not {release}.")
    return python


def _made(release: str) -> str:
    folder = cache_folder("releases") / release
    python = folder / "bin" / "python"
    if not (folder / _DONE).is_file():
        sys.stdout.write(f"Installing vLLM {release} into {folder}: 10 GB, minutes.\n")
        sys.stdout.flush()
        # Made anew where an installation was broken off.
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        if subprocess.run([python, _INSTALLER, release], check=False).returncode:
            raise SystemExit(f"vLLM {release} is not installed: pip says why above.")
        (folder / _DONE).touch()
    return str(python)


def packages_of(python: str) -> Path:
    """Return the folder of an environment that holds the package `vllm`."""
    query = "import importlib.util as u; print(u.find_spec('vllm').origin)"
    done = subprocess.run(
        [python, "-c", query], capture_output=True, text=True, check=True
    )
    return Path(done.stdout.strip()).parents[1]
