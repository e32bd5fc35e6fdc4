"""The browser edition's first page: the app itself, without a notebook or JupyterLab.

Its Python is Pyodide in a worker with the planner and ipywidgets, without IPython, and
its widgets are drawn by the manager that ipywidgets publishes for plain pages
(`@jupyter-widgets/html-manager`, from npm). The first plan is in the page as plain
HTML, as in Voilà's, so that its chart is there before Python is.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
from html import escape
from pathlib import Path
from string import Template

from planner.app.widgets import static_files
from planner.app.widgets.chart import snapshot_html
from planner.app.widgets.explorer import Explorer
from tools.lite_packages import HERE, ROOT, program

PARTS = HERE / "app"
VOILA = ROOT / "planner" / "app" / "voila" / "share" / "jupyter" / "voila"
TEMPLATE = VOILA / "templates" / "planner"
MANAGER = "1.0.15"
"""Release of @jupyter-widgets/html-manager on npm."""
PACKAGES = (
    *("anywidget", "comm", "ipywidgets", "psygnal", "traitlets"),
    *("typing-extensions", "vllm-memory-planner"),
)
"""What Python imports for the explorer."""
_FONT = re.compile(rb"url\(data:[a-z/-]*font[^)]*\)|url\(data:application/[^)]*\)")


def write(site: Path, cache: Path, lessons: list[tuple[str, str]]) -> None:
    """Write `index.html` and the folder `app/` of a site.

    Args:
        site: a site that has Pyodide in `static/pyodide`.
        cache: where packages of npm are kept.
        lessons: address and title of each.
    """
    folder = site / "app"
    folder.mkdir()
    manager = _manager(cache) / "dist" / "libembed-amd.js"
    (folder / "widgets.js").write_bytes(_FONT.sub(b"url()", manager.read_bytes()))
    shared = Path(sys.prefix) / "share" / "jupyter" / "nbextensions"
    shutil.copy(shared / "anywidget" / "index.js", folder / "anywidget.js")
    worker = (PARTS / "worker.mjs").read_text(encoding="utf-8")
    worker = worker.replace("PACKAGES", ",".join(PACKAGES))
    (folder / "worker.mjs").write_text(worker, encoding="utf-8")
    for name in ("page.js", "boot.py"):
        shutil.copy(PARTS / name, folder)
    shutil.copy(TEMPLATE / "start.js", folder)
    first = static_files.script("first.js")
    (folder / "first.js").write_text(f"(() => {{\n{first}}})();\n", encoding="utf-8")
    (site / "index.html").write_text(_page(site, lessons), encoding="utf-8")


def _page(site: Path, lessons: list[tuple[str, str]]) -> str:
    template = Template((PARTS / "page.html").read_text(encoding="utf-8"))
    plan = Explorer().plan
    assert plan is not None
    shown = {"text/html": snapshot_html(plan)}
    first = {"output_type": "display_data", "data": shown}
    sheets = (TEMPLATE / "page.css", PARTS / "site.css")
    return template.substitute(
        plotly=static_files.FILE_NAME,
        sheet="\n".join(
            [static_files.sheet(), *(one.read_text(encoding="utf-8") for one in sheets)]
        ),
        lessons="\n".join(
            f'<li><a href="{address}">{escape(title)}</a></li>'
            for address, title in lessons
        ),
        notebook="lab/index.html?path=explorer.ipynb",
        docs='<a href="docs/index.html">Documentation</a>'
        if (site / "docs").is_dir()
        else "",
        # No end of a script element inside of it.
        first=json.dumps(first).replace("</", "<\\/"),
    )


def _manager(cache: Path) -> Path:
    folder = cache / f"html-manager-{MANAGER}"
    if not folder.is_dir():
        subprocess.run(
            [program("npm"), "pack", f"@jupyter-widgets/html-manager@{MANAGER}"],
            cwd=cache,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        with tarfile.open(cache / f"jupyter-widgets-html-manager-{MANAGER}.tgz") as one:
            one.extractall(part, filter="data")
        (part / "package").rename(folder)
        part.rmdir()
    return folder
