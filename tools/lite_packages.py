"""What the browser's Python is made of: Pyodide from npm, and wheels from PyPI.

Pyodide's own list of packages (`pyodide-lock.json`) names wheels of a network of its
own. It is written anew: it names the wheels that pip brought, each with its hash, and
nothing that could be asked of anybody else. They are installed while the kernel starts,
so no notebook needs a cell that installs something. All are compiled beforehand, by the
Python that will read them.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HERE = Path(__file__).resolve().parent / "lite"
WHEELS = HERE / "browser.txt"
PYODIDE = "314.0.7"
"""Its release on npm. The kernel's extension was made for 314.0.6, and runs with it."""
PYTHON = "3.14"
"""The Python that this Pyodide is."""
RUNTIME = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm")
STDLIB = "python_stdlib.zip"
LOCK = "pyodide-lock.json"
_LEFT_OUT = re.compile(
    r"/tests?/|\.data/|\.map$|^jedi/third_party/(django-stubs|typeshed/stubs)/"
)
"""Tests, files of a notebook server, types of packages that are not there."""


def program(name: str) -> str:
    """Return the path of one of Node.js's programs.

    Raises:
        SystemExit: where it is missing; says what installs it.
    """
    found = shutil.which(name)
    if found is None:
        raise SystemExit(
            f"make lite needs {name}, which is missing: it brings and runs Pyodide. "
            "Install Node.js 18 or newer and npm, on Debian or Ubuntu with: "
            "apt-get install nodejs npm"
        )
    return found


def fetch(cache: Path) -> tuple[Path, list[Path]]:
    """Return the folder of Pyodide and the wheels, brought when they are not there."""
    return _pyodide(cache), [*_downloaded(cache), *_of_the_kernel(), _own(cache)]


def _pyodide(cache: Path) -> Path:
    folder = cache / f"pyodide-{PYODIDE}"
    if not folder.is_dir():
        subprocess.run(
            [program("npm"), "pack", f"pyodide@{PYODIDE}", "--silent"],
            cwd=cache,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        part = folder.with_suffix(".part")
        with tarfile.open(cache / f"pyodide-{PYODIDE}.tgz") as archive:
            archive.extractall(part, filter="data")
        (part / "package").rename(folder)
        part.rmdir()
    return folder


def _downloaded(cache: Path) -> list[Path]:
    folder = cache / f"wheels-{_digest(WHEELS.read_bytes())}"
    if not folder.is_dir():
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        _pip(
            *("download", "--no-deps", "--only-binary=:all:"),
            *(f"--python-version={PYTHON}", "--implementation=py"),
            *("--abi=none", "--platform=any", f"--dest={part}", f"-r{WHEELS}"),
        )
        part.rename(folder)
    return sorted(folder.glob("*.whl"))


def _of_the_kernel() -> list[Path]:
    """Return the wheels that come with the kernel's extension for JupyterLab."""
    shared = Path(sys.prefix) / "share" / "jupyter" / "labextensions"
    bundled = shared / "@jupyterlite" / "pyodide-kernel-extension" / "static" / "pypi"
    # The older of two stand-ins is for ipywidgets 7.
    return sorted(one for one in bundled.glob("*.whl") if "-3." not in one.name)


def _own(cache: Path) -> Path:
    folder = cache / "own"
    shutil.rmtree(folder, ignore_errors=True)
    _pip("wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}", ROOT)
    return next(folder.glob("*.whl"))


def _pip(*arguments: object) -> None:
    quiet = ("--disable-pip-version-check", "--quiet")
    subprocess.run(
        [sys.executable, "-m", "pip", *quiet, *map(str, arguments)], check=True
    )


def install(pyodide: Path, wheels: list[Path], folder: Path, scratch: Path) -> None:
    """Write Pyodide and the compiled wheels into `folder`, with the list of them."""
    folder.mkdir(parents=True)
    for name in RUNTIME:
        shutil.copy(pyodide / name, folder)
    for source in (pyodide / STDLIB, *wheels):
        with zipfile.ZipFile(source) as archive:
            kept = [one for one in archive.namelist() if not _LEFT_OUT.search(one)]
            archive.extractall(scratch / source.name, kept)
    subprocess.run(
        [program("node"), str(HERE / "compile.mjs"), str(pyodide), str(scratch)],
        check=True,
    )
    for source in (pyodide / STDLIB, *wheels):
        _leave_sources_out(scratch / source.name)
        _pack(scratch / source.name, folder / source.name)
    told = json.loads((pyodide / LOCK).read_text(encoding="utf-8"))
    told["packages"] = dict(_entry(folder / wheel.name) for wheel in wheels)
    (folder / LOCK).write_text(json.dumps(told, indent=1), encoding="utf-8")


def names(folder: Path) -> list[str]:
    """Return the packages that are there, by the names that the list gives them."""
    return list(json.loads((folder / LOCK).read_text(encoding="utf-8"))["packages"])


def _leave_sources_out(folder: Path) -> None:
    """Put what was compiled in the place of its text, where Python looks as well."""
    for compiled in folder.rglob("__pycache__/*.pyc"):
        module = compiled.name.split(".")[0]
        beside = compiled.parent.parent
        (beside / f"{module}.py").unlink()
        compiled.rename(beside / f"{module}.pyc")


def _pack(folder: Path, path: Path) -> None:
    """Write a folder as an archive; the same files give the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(one for one in folder.rglob("*") if one.is_file()):
            entry = zipfile.ZipInfo(file.relative_to(folder).as_posix())
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, file.read_bytes())


def _entry(wheel: Path) -> tuple[str, dict[str, Any]]:
    """Return a wheel's name, and how Pyodide's list describes it."""
    with zipfile.ZipFile(wheel) as archive:
        listed = archive.namelist()
        path = next(one for one in listed if one.endswith(".dist-info/METADATA"))
        about = Parser().parsestr(archive.read(path).decode())
    tops = {one.split("/")[0].split(".")[0] for one in listed if ".dist-" not in one}
    name = re.sub(r"[-_.]+", "-", about["Name"]).lower()
    return name, {
        "name": name,
        "version": about["Version"],
        "file_name": wheel.name,
        "install_dir": "site",
        "sha256": _digest(wheel.read_bytes()),
        "package_type": "package",
        "imports": sorted(tops),
        # All of them are installed together.
        "depends": [],
        "unvendored_tests": False,
    }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
