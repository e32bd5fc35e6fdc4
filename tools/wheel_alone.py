"""Use the installed wheel outside the clone, each part that its extra brings.

`tools/versions.py` runs this in each environment, with a folder of lessons; the last
line says what works.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

PATIENCE_SECONDS = 120


def main() -> int:
    """Use each part."""
    lessons = Path(sys.argv[1])
    works = [part for part in (_core(), _explorer(), _app(), _lessons(lessons)) if part]
    print(", ".join(works))
    return 0


def _core() -> str:
    """Import the planner alone, and plan on the command line.

    Raises:
        SystemExit: where anything of the package is amiss.
    """
    code = (
        "import sys, planner; planner.plan('Qwen/Qwen3-8B', gpu='H100')\n"
        # pip's own tools load one of theirs into every Python.
        "ours = ('planner', 'vllm_memory_planner', '_distutils_hack')\n"
        "print([n for n, m in sys.modules.items() if n.partition('.')[0] not in ours\n"
        "       and 'site-packages' in (getattr(m, '__file__', '') or '')])"
    )
    foreign = _output(sys.executable, "-I", "-c", code)
    if foreign != "[]":
        raise SystemExit(
            f"import planner needs more than the standard library: {foreign}"
        )
    program = Path(sys.executable).with_name("planner")
    planned = json.loads(
        _output(
            *(str(program), "plan", "Qwen/Qwen3-8B", "--gpu", "H100", "--json"),
        )
    )
    if planned["fits"] is not True:
        raise SystemExit("The command line's plan does not fit.")
    return "command line"


def _explorer() -> str:
    try:
        import ipywidgets  # noqa: F401, PLC0415 - where the extra brings it
    except ImportError:
        return ""
    import planner  # noqa: PLC0415 - the installed one

    explorer = planner.Explorer("Qwen/Qwen3-8B", "H100")
    if "Fits" not in str(explorer.results.answer.parts["verdict"]):
        raise SystemExit("The explorer shows no verdict.")
    planner.plan("Qwen/Qwen3-8B", gpu="L4").figure()
    return "explorer"


def _app() -> str:
    try:
        import voila  # noqa: F401, PLC0415 - where the extra brings it
    except ImportError:
        return ""
    program = Path(sys.executable).with_name("planner")
    server = subprocess.Popen(
        [str(program), "app", "--port", "8963", "--pool", "1", "--no-browser"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        page = _page(_address(server))
    finally:
        server.terminate()
        server.wait(30)
    if "planner-snapshot" not in page:
        raise SystemExit("The app's page has no plan on it.")
    return "app"


def _address(server: subprocess.Popen[str]) -> str:
    """Return what the app says to open, with its token."""
    for line in server.stderr or ():
        if found := re.search(r"only you can read: (.+)", line):
            return Path(found[1]).read_text(encoding="utf-8").strip()
    raise SystemExit("The app ended without an address.")


def _page(address: str) -> str:
    # The token becomes a cookie, as in a browser.
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            with browser.open(address, timeout=PATIENCE_SECONDS) as answer:
                return str(answer.read().decode())
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(1)


def _lessons(folder: Path) -> str:
    """Run each lesson with its answers filled in; a check that fails says so."""
    try:
        import nbclient  # noqa: PLC0415 - where the extra brings it
        import nbformat  # noqa: PLC0415 - where the extra brings it
    except ImportError:
        return ""
    count = 0
    for path in sorted(folder.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        nbclient.NotebookClient(
            notebook,
            timeout=PATIENCE_SECONDS,
            resources={"metadata": {"path": str(folder)}},
        ).execute()
        checks = [cell for cell in notebook.cells if ".check(" in cell.source]
        wrong = [cell.source for cell in checks if not _is_right(cell)]
        if wrong or not checks:
            raise SystemExit(f"{path.name}: {wrong} is not right.")
        count += 1
    return f"{count} lessons"


def _is_right(cell: Any) -> bool:  # noqa: ANN401 - nbformat ships no types
    """Whether a check found its answer right."""
    shown = [out["data"]["text/plain"] for out in cell.outputs if "data" in out]
    return bool(shown) and "".join(shown).startswith("\N{HEAVY CHECK MARK}")


def _output(*words: str) -> str:
    found = subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE)
    return found.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
