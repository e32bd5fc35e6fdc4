"""Opens a notebook in JupyterLab or Notebook 7 and runs it.

Both are asked through their own application object, not by clicks: a menu that is
drawn is not yet one that works, and a kernel that is shown as idle is not yet one that
the notebook is connected to.
"""

from pathlib import Path
from typing import Any

SLOW = 120_000

_IS_OPEN = """() => {
  const panel = window.jupyterapp?.shell?.currentWidget;
  return !!panel?.sessionContext && !!panel?.content?.widgets?.length;
}"""

_RUN_ALL = """async () => {
  const panel = window.jupyterapp.shell.currentWidget;
  await Promise.all([panel.revealed, panel.context.ready, panel.sessionContext.ready]);
  await panel.sessionContext.session.kernel.info;
  await window.jupyterapp.commands.execute('notebook:run-all-cells');
}"""


def run_all(page: Any, address: str, notebook: Path) -> None:
    """Open the notebook in JupyterLab and run all of its cells, to the last one."""
    _run(page, f"{address}lab/tree/{notebook.name}")


def run_all_in_notebook7(page: Any, address: str, notebook: Path) -> None:
    """Open the notebook in Notebook 7 and run all of its cells, to the last one."""
    _run(page, f"{address}notebooks/{notebook.name}")


def _run(page: Any, address: str) -> None:
    page.set_default_timeout(SLOW)
    page.goto(address)
    run_open(page)


def run_open(page: Any) -> None:
    """Run all cells of the notebook that the page opens, to the last one."""
    page.wait_for_function(_IS_OPEN)
    page.evaluate(_RUN_ALL)
