"""Build the browser-only edition: the app, lessons in JupyterLite, documentation.

    make lite                                        build/lite/site
    python -m http.server -d build/lite/site 8000    look at it

The site is files alone, for any static host. Python runs in the reader's browser, and
everything it needs is in the site: nothing is asked of another host, while it is used
or, once npm and pip have brought their packages into build/lite/cache, while it is
built. The notebooks are those of notebooks/, without the solutions.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import lite_app, lite_packages  # noqa: E402
from tools.lite_packages import HERE, program  # noqa: E402

BUILD = ROOT / "build" / "lite"
SITE = BUILD / "site"
NOTEBOOKS = ROOT / "notebooks"
SHOWN = ("explorer.ipynb", "workshop/*.ipynb")
KERNEL = "@jupyterlite/pyodide-kernel-extension:kernel"
THEMES = "@jupyterlab/apputils-extension:themes"
KEPT = "/drive/.vllm-memory-planner"
"""Where a kernel finds the browser's own files: they outlive it."""
PLOTLY = "plotly-basic.min.js"
DOCS = ROOT / "build" / "docs"
_HEAD = "</title>"
_SCRIPT = (
    f'<script async src="../static/{PLOTLY}"></script>'
    '<script src="../static/planner-lab.js"></script>'
)


def main(arguments: list[str] | None = None) -> int:
    """Run the program; the result is its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=SITE)
    output: Path = parser.parse_args(arguments).output
    for needed in ("node", "npm"):
        program(needed)
    cache = BUILD / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        build(output.resolve(), cache, Path(scratch))
    size = sum(one.stat().st_size for one in output.rglob("*") if one.is_file())
    print(f"{output}: {size / 1_000_000:.0f} MB.")
    print(f"Look at it: python -m http.server -d {output} 8000")
    return 0


def build(output: Path, cache: Path, scratch: Path) -> None:
    """Write the site into `output`, in the place of what lies there."""
    source = scratch / "lite"
    contents = source / "files"
    for pattern in SHOWN:
        for notebook in sorted(NOTEBOOKS.glob(pattern)):
            target = contents / notebook.relative_to(NOTEBOOKS)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(notebook, target)
    pyodide = source / "static" / "pyodide"
    lite_packages.install(*lite_packages.fetch(cache), pyodide, scratch / "packages")
    _write_json(source / "jupyter-lite.json", _configured(lite_packages.names(pyodide)))
    _write_json(source / "overrides.json", {THEMES: {"adaptive-theme": True}})
    built = scratch / "site"
    _jupyter_lite(source, built)
    _finish(built)
    lite_app.write(built, cache, lessons(built / "files"))
    shutil.rmtree(output, ignore_errors=True)
    shutil.copytree(built, output)


def _configured(packages: list[str]) -> dict[str, Any]:
    kernel = {
        "disablePyPIFallback": True,
        "loadPyodideOptions": {
            "packages": packages,
            "env": {"HOME": "/home/pyodide", "PLANNER_DATA_DIR": KEPT},
        },
    }
    data = {
        "appName": "vLLM memory planner",
        "exposeAppInBrowser": True,
        "litePluginSettings": {KERNEL: kernel},
    }
    return {"jupyter-lite-schema-version": 0, "jupyter-config-data": data}


def _jupyter_lite(source: Path, output: Path) -> None:
    """Run JupyterLite's own build; what it says is shown where it fails."""
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "jupyterlite_core", "build", "--apps=lab"),
            *(f"--lite-dir={source}", f"--output-dir={output}"),
            *("--no-sourcemaps", "--no-unused-shared-packages"),
        ],
        cwd=source,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise SystemExit(f"{ran.stdout}\n{ran.stderr}\njupyter lite build failed.")


def _finish(built: Path) -> None:
    """Offer plotly.js to JupyterLab, as the app does, and bring the documentation."""
    vendored = ROOT / "planner" / "app" / "widgets" / "vendored"
    shutil.copy(vendored / PLOTLY, built / "static")
    shutil.copy(HERE / "lab.js", built / "static" / "planner-lab.js")
    page = built / "lab" / "index.html"
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace(_HEAD, _HEAD + _SCRIPT, 1), encoding="utf-8")
    if DOCS.is_dir():
        shutil.copytree(DOCS, built / "docs", ignore=shutil.ignore_patterns(".*"))


def lessons(contents: Path) -> list[tuple[str, str]]:
    """Return the address and the title of each lesson."""
    return [
        (_address(path, contents), _title(path))
        for path in sorted((contents / "workshop").glob("*.ipynb"))
    ]


def _address(notebook: Path, contents: Path) -> str:
    return f"lab/index.html?path={notebook.relative_to(contents).as_posix()}"


def _title(notebook: Path) -> str:
    first = json.loads(notebook.read_text(encoding="utf-8"))["cells"][0]
    return "".join(first["source"]).partition("\n")[0].removeprefix("# ")


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
