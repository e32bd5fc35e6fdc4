"""An environment of a release's own: made once, kept in the planner's cache."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
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


def sources_of(release: str, given: Path | None = None) -> Path:
    """Return a folder with the sources of a release; 45 MB, taken from its wheel once.

    Args:
        release: such as 0.33.0.
        given: a folder that has its package `vllm`.

    Raises:
        SystemExit: when pip cannot download the wheel.
    """
    if given is not None:
        return given
    folder = cache_folder("releases") / f"{release}-sources"
    if not (folder / _DONE).is_file():
        with tempfile.TemporaryDirectory() as place:
            words = ("download", "--no-deps", "--quiet", "--dest", place)
            command = [sys.executable, "-m", "pip", *words, f"vllm=={release}"]
            if subprocess.run(command, check=False).returncode:
                raise SystemExit(f"The wheel of vLLM {release} is not there: see pip.")
            (wheel,) = Path(place).glob("vllm-*.whl")
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    if name.endswith((".py", "/METADATA")):
                        archive.extract(name, folder)
        (folder / _DONE).touch()
    return folder
