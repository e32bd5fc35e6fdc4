"""Builds the JupyterLite site once, serves it as a static host does, and runs it."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.ui import lab, servers

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "lite" / "site"
CUT = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
"""No name is looked up: whatever is not this machine is not there."""
SLOW = 120_000

_OUTPUTS = """() => {
  const cells = window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells;
  const code = cells.filter((cell) => cell.cell_type === 'code');
  return code.map(({ source, outputs }) => ({ source, outputs }));
}"""
_IS_DONE = """() => {
  const cells = window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells;
  return cells.every((cell) => cell.cell_type !== 'code' || cell.execution_count);
}"""
_ASK = """async (code) => {
  const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
  let said = '';
  const asked = kernel.requestExecute({ code });
  asked.onIOPub = ({ content }) => {
    said += content.data?.['text/plain'] ?? content.evalue ?? '';
  };
  await asked.done;
  return said;
}"""
_OPEN = """async (path) => {
  await window.jupyterapp.commands.execute('docmanager:open', { path });
}"""
_IS_THERE = """(path) => {
  const { currentWidget } = window.jupyterapp.shell;
  return currentWidget?.context?.path.endsWith(path);
}"""
_RESTART = """async () => {
  const panel = window.jupyterapp.shell.currentWidget;
  await panel.sessionContext.restartKernel();
  await panel.sessionContext.session.kernel.info;
}"""


def build() -> Path:
    """Return the site, as `make lite` leaves it.

    PLANNER_LITE_SITE names one that is built already.
    """
    given = os.environ.get("PLANNER_LITE_SITE")
    if given:
        return Path(given)
    for program in ("node", "npm", "make"):
        if shutil.which(program) is None:
            pytest.skip(
                f"no {program} on this machine: `make lite` brings Pyodide by it"
            )
    ran = subprocess.run(
        ["make", "--no-print-directory", "lite"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == ran.returncode, f"{ran.stdout}\n{ran.stderr}"
    return SITE


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve files and nothing else; yields the address."""
    port = servers.free_port()
    place = ("--bind", "127.0.0.1", "--directory", str(site), str(port))
    server = subprocess.Popen(
        [sys.executable, "-m", "http.server", *place],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(port)
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.terminate()
        server.wait()


def _wait(port: int) -> None:
    until = time.monotonic() + servers.PATIENCE_SECONDS
    while True:
        try:
            with closing(HTTPConnection("127.0.0.1", port, timeout=5)) as asked:
                asked.connect()
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.05)
        else:
            return


def open_notebook(page: Any, address: str, notebook: str) -> None:
    """Open a notebook of the site and run all of its cells."""
    page.set_default_timeout(SLOW)
    page.goto(f"{address}lab/index.html?path={notebook}")
    lab.run_open(page)


def open_another(page: Any, notebook: str) -> None:
    """Open a notebook beside those that are open, or go to it."""
    page.evaluate(_OPEN, notebook)
    page.wait_for_function(_IS_THERE, arg=notebook)


def outputs(page: Any) -> list[dict[str, Any]]:
    """Wait until every cell has run; return their code and what they show."""
    page.wait_for_function(_IS_DONE)
    cells: list[dict[str, Any]] = page.evaluate(_OUTPUTS)
    return cells


def ask(page: Any, code: str) -> str:
    """Run code in the open notebook's kernel; return what it shows, or its error."""
    return str(page.evaluate(_ASK, code))


def restart(page: Any) -> None:
    """Restart the open notebook's kernel; wait until it answers."""
    page.evaluate(_RESTART)
