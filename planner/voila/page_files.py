"""Where the scripts and styles of the page lie."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from jupyter_core.paths import jupyter_path

from planner.errors import PlannerError
from planner.voila.files import Assets
from planner.widgets import plotly_js

_HERE = Path(__file__).parent
SHARE = _HERE / "share" / "jupyter"
TEMPLATE = "planner"
EXTENSIONS = (
    "@jupyter-widgets/jupyterlab-manager",
    "@voila-dashboards/widgets-manager8",
    "anywidget",
)
"""JupyterLab's extensions that the page loads: what shows widgets."""
_THEME = "theme-light.css"
"""JupyterLab's variables, which widgets' styles use; page.css sets their colours."""
_PAGE_FILES = (".js", ".css", ".woff2", ".svg", ".png")


def gather(static_paths: Iterable[str]) -> Assets:
    """Gather the files that the page may ask for."""
    assets = Assets()
    for folder in map(Path, static_paths):
        # Jupyter Server's own files are in the same list.
        if (folder / "voila.js").is_file():
            assets.add_folder("voila", folder)
    for extension in EXTENSIONS:
        for root in _homes(extension):
            assets.add_folder(f"labextensions/{extension}", root)
    for path in (SHARE / "voila" / "templates" / TEMPLATE).iterdir():
        if path.suffix in _PAGE_FILES:
            assets.paths[f"page/{path.name}"] = path
    assets.paths[f"page/{_THEME}"] = _theme()
    assets.texts[f"page/{plotly_js.FILE_NAME}"] = plotly_js.for_page()
    assets.texts["page/bundle.js"] = _bundle(assets)
    return assets


def _bundle(assets: Assets) -> bytes:
    """Join the parts that the page's scripts ask for one by one otherwise.

    webpack's parts add themselves to a list; the script that asks for them looks there
    first, and fetches what it does not find. So a part that another version of Voila
    does not have is left out, and one that is missing here comes by itself.
    """
    names = json.loads((_HERE / "bundled.json").read_text(encoding="utf-8"))
    parts = (assets.paths[name] for name in names if name in assets.paths)
    # A function each, for the first line of some is "use strict".
    return b"".join(b"(()=>{" + part.read_bytes() + b"\n})();\n" for part in parts)


def _homes(extension: str) -> list[Path]:
    """Return the folders that an extension may lie in; Voila has a place of its own."""
    shares = [*jupyter_path(), *jupyter_path("voila")]
    folders = (Path(share, "labextensions", extension) for share in shares)
    return [folder for folder in folders if folder.is_dir()]


def _theme() -> Path:
    """Find the theme's variables among nbconvert's templates.

    Raises:
        PlannerError: when the Jupyter of this environment has none.
    """
    for folder in jupyter_path("nbconvert", "templates", "lab", "static"):
        if (theme := Path(folder) / _THEME).is_file():
            return theme
    raise PlannerError(
        "The app needs nbconvert's templates. "
        "Run: pip install 'vllm-memory-planner[app]'"
    )
