"""Where the scripts and styles of the page lie."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from jupyter_core.paths import jupyter_path

from planner.errors import PlannerError
from planner.voila.files import Assets
from planner.widgets import plotly_js

SHARE = Path(__file__).parent / "share" / "jupyter"
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
    return assets


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
