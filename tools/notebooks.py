"""Build the notebooks from their text: notebooks/src/*.py becomes notebooks/*.ipynb.

The app's own notebook ships with the package: it becomes planner/voila/app.ipynb.

    python tools/notebooks.py           write the notebooks
    python tools/notebooks.py --check   exit with 1 when one is not what its text says

The text (percent format, `# %%` and `# %% [markdown]`) is what people edit and review.
The same text gives the same bytes: cell ids count from 0, no outputs, and the kernel is
pinned, without which JupyterLab greets its user with a question.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jupytext
import nbformat

ROOT = Path(__file__).parent.parent
NOTEBOOKS = ROOT / "notebooks"
SOURCES = NOTEBOOKS / "src"
SHIPPED = {"app.py": ROOT / "planner" / "voila"}

METADATA = {
    "kernelspec": {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}


def sources() -> list[Path]:
    """Return the text of every notebook, in order."""
    return sorted(SOURCES.rglob("*.py"))


def target(source: Path) -> Path:
    """Return the notebook that a text becomes."""
    relative = source.relative_to(SOURCES)
    folder = SHIPPED.get(str(relative), NOTEBOOKS)
    return folder / relative.with_suffix(".ipynb")


def build(source: Path) -> str:
    """Return the notebook of a text, as the file holds it."""
    notebook = jupytext.read(source, fmt="py:percent")
    cells = [_cell(number, cell) for number, cell in enumerate(notebook.cells)]
    built = nbformat.v4.new_notebook(cells=cells, metadata=METADATA)
    built.nbformat_minor = 5
    nbformat.validate(built)
    return f"{nbformat.writes(built)}\n"


def _cell(number: int, cell: Any) -> Any:  # noqa: ANN401 - nbformat ships no types
    """Return the cell with the id of its place, and of its metadata only the tags."""
    is_code = cell.cell_type == "code"
    make: Any = nbformat.v4.new_code_cell if is_code else nbformat.v4.new_markdown_cell
    kept = {name: cell.metadata[name] for name in ("tags",) if name in cell.metadata}
    return make(source=cell.source, metadata=kept, id=str(number))


def is_current(source: Path) -> bool:
    """Tell whether the notebook that lies there is what its text says."""
    path = target(source)
    return path.is_file() and path.read_text(encoding="utf-8") == build(source)


def write_all() -> None:
    """Write every notebook."""
    for source in sources():
        target(source).parent.mkdir(parents=True, exist_ok=True)
        target(source).write_text(build(source), encoding="utf-8")
        print(target(source).relative_to(ROOT))


def main(arguments: list[str]) -> int:
    """Run the program; the result is its exit status."""
    if arguments == ["--check"]:
        stale = [source for source in sources() if not is_current(source)]
        for source in stale:
            print(f"{target(source).relative_to(ROOT)} is not what its text says.")
        return 1 if stale else 0
    if arguments:
        print(__doc__)
        return 2
    write_all()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
