"""Starts the app or JupyterLab on a free loopback port, and a browser to drive it."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jupytext
import nbformat

ROOT = Path(__file__).resolve().parents[2]
"""What is served, unless another checkout is given, such as of an older commit."""
PYTHON = os.environ.get("PLANNER_APP_PYTHON", sys.executable)
"""What serves: `make test-versions` has it be another environment's."""
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
EXTENSION = "planner.app.jupyter_extension"
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
PATIENCE_SECONDS = 120
"""States are waited for, on a busy machine too; none takes long."""
PATIENCE_MS = 1000 * PATIENCE_SECONDS
_TOKENS: dict[str, str] = {}
"""Of each app that these tests started for its owner, by its address."""


def chromium() -> str | None:
    """Find the system's Chromium, or the one that `make test` names."""
    if os.environ.get("CHROMIUM"):
        return os.environ["CHROMIUM"]
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    return None


def notebook(name: str, folder: Path, root: Path = ROOT) -> Path:
    """Write the notebook called `name` into `folder`, from its text source."""
    content = jupytext.read(root / "notebooks" / "src" / f"{name}.py")
    content.metadata["kernelspec"] = KERNEL
    path = folder / f"{name}.ipynb"
    jupytext.write(content, path)
    return path


def write(name: str, folder: Path, cells: Sequence[str]) -> Path:
    """Write a notebook with these cells of code into `folder`."""
    code = [nbformat.v4.new_code_cell(cell) for cell in cells]
    content = nbformat.v4.new_notebook(cells=code, metadata={"kernelspec": KERNEL})
    path = folder / f"{name}.ipynb"
    nbformat.write(content, path)
    return path


@contextmanager
def voila(app: Path, pool: int = 2, *flags: str) -> Iterator[str]:
    """Serve a notebook as `planner app` serves its own; yields the address."""
    with served(
        app.parent, "--notebook", str(app), f"--pool={pool}", *flags
    ) as running:
        yield running.address


@contextmanager
def plain_voila(notebook: Path) -> Iterator[str]:
    """Serve a notebook as `voila NOTEBOOK` does; yields the address."""
    port = free_port()
    words = ["voila", str(notebook), f"--port={port}", "--no-browser"]
    address = f"http://127.0.0.1:{port}/"
    with _server(words, notebook.parent, address, _answers, ROOT) as running:
        yield running.address


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server that runs."""

    address: str
    pid: int
    log: Path


@contextmanager
def served(folder: Path, *flags: str, root: Path = ROOT) -> Iterator[Served]:
    """Run `planner app` with these flags until its kernels wait for visitors."""
    port = free_port()
    words = ["planner", "app", f"--port={port}", *flags]
    address = f"http://127.0.0.1:{port}/"
    with _server(words, folder, address, _is_ready, root) as running:
        kept = re.search(r"only you can read: (.+)", running.log.read_text())
        if kept is not None:
            start = Path(kept[1]).read_text(encoding="utf-8").strip()
            _TOKENS[address] = start.partition("?token=")[2]
        try:
            yield running
        finally:
            _TOKENS.pop(address, None)


def start_address(address: str) -> str:
    """Return the address that an app keeps for its owner: with the token."""
    return f"{address}?token={_TOKENS[address]}"


def cookie(address: str) -> str:
    """Return the header with which the owner asks an app; empty for any other."""
    place = urlsplit(address)
    token = _TOKENS.get(f"{place.scheme}://{place.netloc}/")
    return f"planner-{place.port}={token}" if token else ""


def let_in(context: Any) -> None:
    """Give a browser's context the cookies that the start addresses would set."""
    for address in _TOKENS:
        name, _, value = cookie(address).partition("=")
        context.add_cookies([{"name": name, "value": value, "url": address}])


@contextmanager
def jupyterlab(
    folder: Path, theme: str = "JupyterLab Light", root: Path = ROOT
) -> Iterator[str]:
    """Serve JupyterLab on a folder, without the news and update questions."""
    with _jupyter("jupyterlab", "LabApp", folder, theme, root) as address:
        yield address


@contextmanager
def notebook7(
    folder: Path,
    theme: str = "JupyterLab Light",
    root: Path = ROOT,
    python: str = PYTHON,
) -> Iterator[str]:
    """Serve Jupyter Notebook 7 on a folder: one notebook a page."""
    with _jupyter(
        "notebook", "JupyterNotebookApp", folder, theme, root, python
    ) as address:
        yield address


@contextmanager
def notebook6(folder: Path, root: Path = ROOT, *, python: str) -> Iterator[str]:
    """Serve the classic Notebook 6.5 of another environment on a folder."""
    port = free_port()
    words = [
        "notebook",
        "--no-browser",
        "--allow-root",
        "--NotebookApp.token=",
        f"--NotebookApp.port={port}",
        f"--NotebookApp.notebook_dir={folder}",
    ]
    address = f"http://127.0.0.1:{port}/"
    with _server(words, folder, address, _answers, root, python) as running:
        yield running.address


@contextmanager
def _jupyter(
    module: str,
    app: str,
    folder: Path,
    theme: str,
    root: Path,
    python: str = PYTHON,
) -> Iterator[str]:
    """Serve either; every cell stays in the page, also those that are out of sight."""
    port = free_port()
    settings = folder / "labconfig"
    settings.mkdir(exist_ok=True)
    (settings / "page_config.json").write_text(
        '{"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": true}}'
    )
    # As `jupyter server extension enable` writes it.
    enabled = {"ServerApp": {"jpserver_extensions": {EXTENSION: True}}}
    (folder / "jupyter_server_config.json").write_text(json.dumps(enabled))
    _choose(folder, "notebook-extension", "tracker", windowingMode="none")
    _choose(folder, "apputils-extension", "themes", theme=theme)
    with _server(
        [
            module,
            "--no-browser",
            "--allow-root",
            "--IdentityProvider.token=",
            f"--ServerApp.port={port}",
            f"--ServerApp.root_dir={folder}",
            f"--{app}.expose_app_in_browser=True",
            f"--{app}.workspaces_dir={folder / 'workspaces'}",
            f"--{app}.user_settings_dir={folder / 'settings'}",
        ],
        folder,
        f"http://127.0.0.1:{port}/",
        _answers,
        root,
        python,
    ) as running:
        yield running.address


def _choose(folder: Path, extension: str, plugin: str, **settings: str) -> None:
    """Write a user's settings of JupyterLab."""
    place = folder / "settings" / "@jupyterlab" / extension
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{plugin}.jupyterlab-settings").write_text(json.dumps(settings))


@contextmanager
def _server(
    words: list[str],
    folder: Path,
    address: str,
    is_ready: Callable[[str], bool],
    root: Path,
    python: str = PYTHON,
) -> Iterator[Served]:
    log = folder / "server.log"
    with log.open("w") as written:
        server = subprocess.Popen(
            [python, "-m", *words],
            env=_environment(folder, root, python),
            cwd=folder,
            stdout=written,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait(server, address, log, is_ready)
        yield Served(address=address, pid=server.pid, log=log)
    finally:
        server.terminate()
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _environment(folder: Path, root: Path, python: str) -> dict[str, str]:
    """Point Jupyter at settings for tests, and away from the user's own."""
    return os.environ | {
        "JUPYTER_CONFIG_DIR": str(folder),
        "JUPYTER_CONFIG_PATH": str(root / "planner" / "app" / "voila" / "config"),
        "PYTHONPATH": str(root),
        "HF_HUB_OFFLINE": "1",
        "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}",
    }


def _wait(
    server: subprocess.Popen[bytes],
    address: str,
    log: Path,
    is_ready: Callable[[str], bool],
) -> None:
    """Wait until the server is ready."""
    end = time.monotonic() + 2 * PATIENCE_SECONDS
    while time.monotonic() < end:
        if server.poll() is not None:
            raise RuntimeError(f"The server ended:\n{log.read_text()}")
        if is_ready(address):
            return
        time.sleep(0.2)
    raise RuntimeError(f"The server did not answer in time:\n{log.read_text()}")


def _answers(address: str) -> bool:
    """Ask for what is not there."""
    try:
        return status(f"{address}api/none") > 0
    except OSError:
        return False


def _is_ready(address: str) -> bool:
    """Tell whether the app has drawn as many pages ahead as it was told to."""
    try:
        now = health(address)
    except OSError:
        return False
    return bool(now["pool"] == now["pool_size"])


def health(address: str) -> dict[str, Any]:
    """Ask the app how it is."""
    place = urlsplit(address)
    connection = HTTPConnection(place.netloc, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", f"{place.path}healthz")
        said: dict[str, Any] = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return said


def status(address: str) -> int:
    """Ask for an address and return HTTP's status, without following it elsewhere."""
    place = urlsplit(address)
    connection = HTTPConnection(place.netloc, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", place.path, headers={"Cookie": cookie(address)})
        return connection.getresponse().status
    finally:
        connection.close()


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
